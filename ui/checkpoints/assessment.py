"""What is said of a checkpoint and what may be done with it. Pure: the server's JSON in, words out.

The Checkpoints page, the Query page's panel and the confirmation of a restart call it. Words of a checkpoint (file
names, messages, paths) are text from others: they are shown through `ui.kit.markup`, and a command is offered for
copying only where no shell could read anything else into it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ui.kit import action_checks, statuses, units
from ui.kit.frames import Json
from ui.kit.markup import one_line, visible

SEARCHED_FIELDS = ("query", "app", "summary", "checkpoint", "trouble", "query_id", "verdict")
#: What a restart does to the user, as the doctor's findings name it.
EFFECTS = {
    "fails": "The restart fails",
    "data": "It runs and harms results",
    "later": "It runs and fails later",
}
WHY = {
    "started": "because a run began",
    "failed": "because the run failed",
    "stopped": "because the run was stopped",
    "asked": "because somebody asked",
}
#: A collector's name tells, behind one of these words, by which means it read.
COLLECTORS = {"driver": " by the driver", "agent": " by the driver", "server": " by the server"}
RUNBOOKS = {"broken": "CheckpointBroken", "unreadable": "CheckpointTrouble", "risky": "CheckpointTrouble"}
#: Plain words, and words in single quotes: nothing that a shell would take for more.
_COMMAND = re.compile(r"controlplane(?: (?:[\w@%+=:,./~-]+|'[^'\n]*'))+")
_QUOTED = re.compile(r"`([^`]*)`")


def matching(items: Sequence[Json], words: str, **fields: Sequence[str]) -> list[Json]:
    """Those that have one of the values of each field given, and every word somewhere in `SEARCHED_FIELDS`."""
    wanted = words.lower().split()
    return [
        item
        for item in items
        if all(not values or item.get(field) in values for field, values in fields.items())
        and (not wanted or _mentions(item, wanted))
    ]


def _mentions(item: Json, wanted: Sequence[str]) -> bool:
    text = " ".join(str(item.get(key) or "") for key in SEARCHED_FIELDS).lower()
    return all(word in text for word in wanted)


def counts(items: Sequence[Json]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in items:
        verdict = str(item.get("verdict") or "unknown")
        found[verdict] = found.get(verdict, 0) + 1
    return found


def sentence(checkpoint: Json) -> str:
    """What the server says of it in one sentence; why nothing is known where nothing is."""
    said = one_line(checkpoint.get("summary") or checkpoint.get("trouble") or "Nobody has looked at it yet.")
    return said[:1].upper() + said[1:] if said.partition(" ")[0].isalpha() else said


def irrelevance(query: Json) -> str | None:
    """Why a query's checkpoint is of no interest now, in one sentence; None where it is."""
    facts = query.get("facts") or {}
    if facts.get("checkpoint_is_temporary"):
        return "It is temporary: Spark made it for this run alone, and no later run resumes from it."
    if query.get("status") == "finished":
        return "The query has finished: what its checkpoint holds matters only when it is started again."
    if query.get("status") == "retired":
        return "The query is retired."
    return None


def last_check(checkpoint: Json, now: float) -> str:
    """When, by whom and why it was looked at: `seen 42 s ago by the agent, because the run failed`."""
    age = units.since(checkpoint.get("collected_at"), now)
    if age is None:
        return "not seen yet"
    collector, why = str(checkpoint.get("collector") or ""), WHY.get(str(checkpoint.get("why")), "")
    by = next((who for name, who in COLLECTORS.items() if collector.startswith(name)), "")
    ago = "just now" if age < 1.5 else f"{units.span(round(age))} ago"
    return f"seen {ago}{by}{', ' if why else ''}{why}"


def batch_number(value: object) -> str:
    known = units.number(value)
    return units.UNKNOWN if known is None else f"{known:.0f}"


def resume_sentence(checkpoint: Json) -> str:
    """With which batch it goes on."""
    if units.number(checkpoint.get("next_batch")) is None:
        return "It resumes from its checkpoint."
    number = batch_number(checkpoint["next_batch"])
    if checkpoint.get("last_planned_batch") == checkpoint["next_batch"]:
        return (
            f"It resumes at batch {number}, which was planned and not committed: it runs again, same input."
        )
    return f"It resumes at batch {number}."


def effect(finding: Json) -> str:
    """What Spark will do, when, and with which error: one sentence; empty for a note."""
    done = EFFECTS.get(str(finding.get("effect")), "")
    when, condition = one_line(finding.get("when") or ""), one_line(finding.get("condition") or "")
    if not done:
        return ""
    if when.startswith("never: "):
        return f"{done}; {when.removeprefix('never: ')}"
    return f"{done}{', ' if when else ''}{when}{': ' if condition else ''}{condition}"


def fatal(findings: Sequence[Json]) -> list[Json]:
    """Those that make a start fail; all grave ones where none is marked so."""
    found = errors_and_warnings(findings)
    return [finding for finding in found if finding.get("effect") == "fails"] or found


def errors_and_warnings(findings: Sequence[Json]) -> list[Json]:
    return [finding for finding in findings if finding.get("severity") != "info"]


def notes(findings: Sequence[Json]) -> list[Json]:
    return [finding for finding in findings if finding.get("severity") == "info"]


def steps(remedy: object) -> list[tuple[str, list[str]]]:
    """Each step of a remedy, and the commands in it that can be copied: they are taken out of its text."""
    told = remedy if isinstance(remedy, list | tuple) else [remedy] if isinstance(remedy, str) else []
    return [_step(str(step)) for step in told if step]


def _step(step: str) -> tuple[str, list[str]]:
    offered = commands(step)
    text = visible(step)
    for command in offered:
        text = text.replace(f"`{command}`", "").replace(command, "")
    return text.strip() or "run", offered


def commands(step: str) -> list[str]:
    """The `controlplane …` commands of a step; none that holds anything but plain or single-quoted words."""
    offered = [step, *_QUOTED.findall(step)]
    return [text for text in offered if visible(text) == text and _COMMAND.fullmatch(text)]


def shell_commands(checkpoint: Json) -> list[str]:
    """Commands that look at it from a shell, and plan its repair; none where its path is not plain text."""
    path = str(checkpoint.get("checkpoint") or "")
    if not path or path.startswith("-") or one_line(path) != path:
        return []
    quoted = shlex.quote(path)
    offered = [f"controlplane doctor {quoted}"]
    if checkpoint.get("verdict") in ("broken", "risky"):
        offered.append(f"controlplane repair {quoted} --dry-run")
    return [text for text in offered if _COMMAND.fullmatch(text)]


def runbook_name(checkpoint: Json) -> str | None:
    return RUNBOOKS.get(str(checkpoint.get("verdict")))


@dataclass(frozen=True)
class StartForecast:
    """What a start from this checkpoint would come to. `blocks`: only in spite of it; `waiting`: a fresh look is
    under way; `known`: there is a verdict."""

    look: statuses.BadgeStyle
    sentence: str
    findings: tuple[Json, ...] = ()
    blocks: bool = False
    waiting: bool = False
    known: bool = True


def forecast_start(answer: Json | None, waiting: bool, trouble: str) -> StartForecast:
    """`answer`: of `/api/v1/checkpoints/{id}`; `trouble`: why there is no fresh look, empty when there is."""
    checkpoint = (answer or {}).get("checkpoint") or {}
    verdict = str(checkpoint.get("verdict") or "unknown")
    found = (answer or {}).get("findings") or []
    serious = tuple(errors_and_warnings(found))
    look = statuses.verdict(verdict)
    if verdict == "broken":  # also where nobody can look anew: the server then refuses by what it last saw
        why, old = tuple(fatal(found)), waiting or bool(trouble) or bool(checkpoint.get("stale"))
        return StartForecast(look, _fails(why, old), why, blocks=not waiting, waiting=waiting)
    if verdict == "risky":
        return StartForecast(look, f"{resume_sentence(checkpoint)} But:", serious, waiting=waiting)
    if verdict == "ok":
        return StartForecast(look, resume_sentence(checkpoint), waiting=waiting)
    return StartForecast(
        look, _not_known(checkpoint, verdict, trouble), serious, waiting=waiting, known=False
    )


def _fails(found: Sequence[Json], old: bool) -> str:
    if old:
        return "When it was last seen, a start from it would have failed:"
    return "It will fail:" if found else "It will fail."


def _not_known(checkpoint: Json, verdict: str, trouble: str) -> str:
    said = one_line(trouble or checkpoint.get("trouble") or checkpoint.get("summary") or "")
    head = (
        "There is no checkpoint to read" if verdict == "unreadable" else "Whether it will resume is not known"
    )
    return f"{head}: {said}" if said else f"{head}."


def force_refusal(forced: bool, reason: str) -> str | None:
    """Why a start over a broken checkpoint cannot be asked for yet; None when it can."""
    if not forced:
        return "The checkpoint is broken: tick “in spite of it” to go on."
    return None if reason.strip() else "Say why it is done in spite of the checkpoint."


def check_refusal(role: str | None) -> str | None:
    """Why a fresh look cannot be asked for; None when it can."""
    return action_checks.role_refusal(role, "looking")
