"""Describe a checkpoint's condition, predict what a start from it does, and offer commands to copy.

Pure: the server's JSON in, sentences out. The Checkpoints page, the Query page's panel and the confirmation
of a restart use it. Text of a checkpoint (file names, messages, paths) comes from others: it is shown through
`ui.kit.markup`, and a command is offered for copying only if no shell could read anything else into it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ui.kit import action_checks, statuses, units
from ui.kit.frames import Json
from ui.kit.markup import one_line, visible

SEARCHED_FIELDS = ("query", "app", "summary", "checkpoint", "trouble", "query_id", "verdict")
#: What happens at a restart, by the `effect` of a doctor's finding.
EFFECTS = {
    "fails": "The restart fails",
    "data": "It runs and harms results",
    "later": "It runs and fails later",
}
#: Why an inventory was taken, by its `why`.
CAUSES = {
    "started": "because a run started",
    "failed": "because the run failed",
    "stopped": "because the run was stopped",
    "asked": "on request",
}
#: Who took an inventory, by the start of its `collector`.
COLLECTORS = {"driver": " by the driver", "agent": " by the driver", "server": " by the server"}
RUNBOOKS = {"broken": "CheckpointBroken", "unreadable": "CheckpointTrouble", "risky": "CheckpointTrouble"}
CHECKING = "The checkpoint is being checked now. A start waits for the result, for at most 12 s."
#: Verdicts on a checkpoint that could be read.
KNOWN = ("ok", "ok_at_check", "outdated", "risky", "broken")
#: Plain words, and words in single quotes: nothing that a shell would interpret.
_COMMAND = re.compile(r"controlplane(?: (?:[\w@%+=:,./~-]+|'[^'\n]*'))+")
_QUOTED = re.compile(r"`([^`]*)`")


def matching(items: Sequence[Json], search: str, **fields: Sequence[str]) -> list[Json]:
    """Checkpoints with one of the values of each field and every word of `search` in SEARCHED_FIELDS."""
    wanted = search.lower().split()
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
    """Number of checkpoints per verdict."""
    found: dict[str, int] = {}
    for item in items:
        verdict = str(item.get("verdict") or "unknown")
        found[verdict] = found.get(verdict, 0) + 1
    return found


def sentence(checkpoint: Json) -> str:
    """The server's summary in sentence case; without one, why nothing is known."""
    text = one_line(checkpoint.get("summary") or checkpoint.get("trouble") or "Not checked yet.")
    return text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text


def irrelevance(query: Json) -> str | None:
    """Why the query's checkpoint does not matter now, in one sentence; None if it does."""
    facts = query.get("facts") or {}
    if facts.get("checkpoint_is_temporary"):
        return "It is temporary. Spark created it for this run only, and no later run resumes from it."
    if query.get("status") == "finished":
        return "The query has finished. Its checkpoint matters only when it is started again."
    if query.get("status") == "retired":
        return "The query is retired."
    return None


def last_check(checkpoint: Json, now: float) -> str:
    """When, by whom and why it was checked: `checked 42 s ago by the driver because the run failed`.

    A later reading of the logs comes first: `logs checked 5 s ago, all files 42 s ago by the driver`.
    """
    age = units.since(checkpoint.get("collected_at"), now)
    if age is None:
        return "not checked yet"
    collector, cause = str(checkpoint.get("collector") or ""), CAUSES.get(str(checkpoint.get("why")), "")
    by = next((who for name, who in COLLECTORS.items() if collector.startswith(name)), "")
    checked = f"{_ago(age)}{by}{' ' if cause else ''}{cause}"
    logs_age = units.since(checkpoint.get("logs_read_at"), now)
    return f"checked {checked}" if logs_age is None else f"logs checked {_ago(logs_age)}, all files {checked}"


def _ago(age: float) -> str:
    return "just now" if age < 1.5 else f"{units.span(round(age))} ago"


def batch_number(value: object) -> str:
    """A batch id, or an en dash."""
    known = units.number(value)
    return units.UNKNOWN if known is None else f"{known:.0f}"


def resume_sentence(checkpoint: Json) -> str:
    """At which batch the next start resumes."""
    if units.number(checkpoint.get("next_batch")) is None:
        return "The next start resumes from the checkpoint."
    number = batch_number(checkpoint["next_batch"])
    if checkpoint.get("last_planned_batch") == checkpoint["next_batch"]:
        return (
            f"The next start resumes at batch {number}. This batch was planned but not committed, "
            "so it runs again with the same input."
        )
    return f"The next start resumes at batch {number}."


def effect(finding: Json) -> str:
    """What Spark will do, when, and with which error condition, in one sentence; empty for a note."""
    outcome = EFFECTS.get(str(finding.get("effect")), "")
    when, condition = one_line(finding.get("when") or ""), one_line(finding.get("condition") or "")
    if not outcome:
        return ""
    if when.startswith("never: "):
        return f"{outcome}: {when.removeprefix('never: ')}"
    return f"{outcome}{', ' if when else ''}{when}{': ' if condition else ''}{condition}"


def fatal(findings: Sequence[Json]) -> list[Json]:
    """Findings that make a start fail; all errors and warnings if none is marked so."""
    found = errors_and_warnings(findings)
    return [finding for finding in found if finding.get("effect") == "fails"] or found


def errors_and_warnings(findings: Sequence[Json]) -> list[Json]:
    """Findings of the severities error and warning."""
    return [finding for finding in findings if finding.get("severity") != "info"]


def notes(findings: Sequence[Json]) -> list[Json]:
    """Findings of the severity info."""
    return [finding for finding in findings if finding.get("severity") == "info"]


def steps(remedy: object) -> list[tuple[str, list[str]]]:
    """Each step of a remedy without its commands, and the commands that can be copied."""
    found = remedy if isinstance(remedy, list | tuple) else [remedy] if isinstance(remedy, str) else []
    return [_step(str(step)) for step in found if step]


def _step(step: str) -> tuple[str, list[str]]:
    offered = commands(step)
    text = visible(step)
    for command in offered:
        text = text.replace(f"`{command}`", "").replace(command, "")
    return text.strip() or "run", offered


def commands(step: str) -> list[str]:
    """The `controlplane …` commands of a step that consist of plain or single-quoted words only."""
    offered = [step, *_QUOTED.findall(step)]
    return [text for text in offered if visible(text) == text and _COMMAND.fullmatch(text)]


def shell_commands(checkpoint: Json) -> list[str]:
    """Commands that check the checkpoint and plan its repair; none if its path is not plain text."""
    path = str(checkpoint.get("checkpoint") or "")
    if not path or path.startswith("-") or one_line(path) != path:
        return []
    quoted = shlex.quote(path)
    offered = [f"controlplane doctor {quoted}"]
    if checkpoint.get("verdict") in ("broken", "risky"):
        offered.append(f"controlplane repair {quoted} --dry-run")
    return safe_commands(offered)


def safe_commands(commands: Iterable[str]) -> list[str]:
    """Those that hold nothing but plain text, so that what is copied is what is seen."""
    return [text for text in commands if _COMMAND.fullmatch(text)]


def runbook_name(checkpoint: Json) -> str | None:
    """The runbook for the checkpoint's verdict."""
    return RUNBOOKS.get(str(checkpoint.get("verdict")))


@dataclass(frozen=True)
class StartForecast:
    """What a start from this checkpoint would do.

    `blocks`: the start needs `force`. `waiting`: a new inventory is expected. `known`: there is a verdict.
    """

    style: statuses.BadgeStyle
    sentence: str
    findings: tuple[Json, ...] = ()
    blocks: bool = False
    waiting: bool = False
    known: bool = True


def forecast_start(answer: Json | None, waiting: bool, failure: str) -> StartForecast:
    """Forecast from an answer of `/api/v1/checkpoints/{id}`.

    `failure`: why there is no new inventory, empty if there is one.
    """
    checkpoint = (answer or {}).get("checkpoint") or {}
    verdict = str(checkpoint.get("verdict") or "unknown")
    findings = (answer or {}).get("findings") or []
    serious = tuple(errors_and_warnings(findings))
    style = statuses.verdict(verdict)
    if verdict == "broken":  # blocks without a new inventory too: the server then refuses by the last one
        causes, outdated = tuple(fatal(findings)), waiting or bool(failure) or bool(checkpoint.get("stale"))
        return StartForecast(style, _fails(causes, outdated), causes, blocks=not waiting, waiting=waiting)
    if waiting:  # the batches of the last check may be far behind
        text = f"{CHECKING} Risks at the last check:" if serious else CHECKING
        return StartForecast(style, text, serious, waiting=True, known=verdict in KNOWN)
    if verdict == "risky":
        return StartForecast(style, f"{resume_sentence(checkpoint)} Risks:", serious)
    if verdict in ("outdated", "ok_at_check"):
        return StartForecast(style, sentence(checkpoint))
    if verdict == "ok":
        return StartForecast(style, resume_sentence(checkpoint))
    return StartForecast(style, _unknown(checkpoint, verdict, failure), serious, known=False)


def _fails(found: Sequence[Json], outdated: bool) -> str:
    if outdated:
        return "At the last check, a start would have failed:"
    return "A start will fail:" if found else "A start will fail."


def _unknown(checkpoint: Json, verdict: str, failure: str) -> str:
    cause = one_line(failure or checkpoint.get("trouble") or checkpoint.get("summary") or "")
    head = (
        "The checkpoint cannot be read"
        if verdict == "unreadable"
        else "It is unknown whether a start will resume"
    )
    return f"{head}: {cause}" if cause else f"{head}."


def force_refusal(forced: bool, reason: str) -> str | None:
    """Why a start over a broken checkpoint cannot be requested yet; None if it can."""
    if not forced:
        return "The checkpoint is broken. Select “Continue anyway” to start regardless."
    return None if reason.strip() else "Enter a reason for starting from a broken checkpoint."


def check_refusal(role: str | None) -> str | None:
    """Why a checkpoint check cannot be requested; None if it can."""
    return action_checks.role_refusal(role, "Checkpoint checks")
