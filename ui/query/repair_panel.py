"""Repairs of the checkpoint, and undos of the changes that the server has made.

Part of the checkpoint panel. The server reads the checkpoint when a viewer asks; the answer is kept until then.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

from ui.actions import change_dialog
from ui.checkpoints import assessment
from ui.kit import action_checks, cached_reads, frames, statuses, units, widgets
from ui.kit.answers import ClientError
from ui.kit.fleet_page import Params
from ui.kit.frames import Json
from ui.kit.markup import one_line, plain, visible

INTRODUCTION = (
    "Make a checkpoint start again where the doctor has found damage that a repair is known to mend."
)


def draw(identity: str, role: str | None) -> None:
    """Draw the part: a button that reads the checkpoint, and the repairs that were found."""
    st.markdown("**Repair**")
    st.caption(INTRODUCTION)
    refused = action_checks.role_refusal(role, "Repairs")
    st.button(
        "Find repairs",
        key="repair_list",
        icon=":material/build:",
        disabled=refused is not None,
        help=plain(refused) if refused else None,
        on_click=_read,
        args=(identity, ()),
    )
    kept = st.session_state.get(change_dialog.REPAIRS)
    if not kept or kept["query_id"] != identity:
        return
    if kept.get("error"):
        st.caption(f":orange[:material/warning:] {plain(kept['error'])}")
        return
    _repairs(identity, kept)


def _read(identity: str, confirmed: Sequence[str]) -> None:
    """Read the checkpoint (a button's callback)."""
    kept: dict[str, Any] = {"query_id": identity, "at": time.time(), "confirmed": tuple(confirmed)}
    try:
        chosen: Params = [("confirm", each) for each in confirmed]
        kept["body"] = cached_reads.connection().planned_change(identity, "repair", chosen)
    except ClientError as error:
        kept["error"] = str(error)
    st.session_state[change_dialog.REPAIRS] = kept


def _repairs(identity: str, kept: Mapping[str, Any]) -> None:
    body, read_at = kept["body"], units.clock(kept["at"], widgets.zone(), time.time())
    verdict, offers = body.get("verdict"), body.get("offers") or []
    if not offers:
        st.caption(f"Nothing to repair: the verdict was {verdict} at {read_at}.")
    for offer in offers:
        _offer(identity, kept, offer)
    for message in body.get("unresolved") or []:
        st.caption(f":material/block: No repair: {plain(message)}")
    if body.get("rewind_to") is not None:
        st.caption(f"A rewind to batch {body['rewind_to']} or earlier is possible.")
    plan = body.get("plan")
    if plan:
        facts = change_facts("Repair", plan)
        widgets.definition_list(facts)
        confirm = {"confirm": list(kept["confirmed"])}
        change_dialog.button("repair", "repair_do", refusal(body), identity, confirm, facts)
        for line in assessment.safe_commands([str(body.get("command") or "")]):
            st.code(line, language="bash", wrap_lines=True)


def _offer(identity: str, kept: Mapping[str, Any], offer: Json) -> None:
    """A repair: its title, and a checkbox where a person has to confirm it."""
    title = f"{offer.get('id')}: {one_line(offer.get('title') or '')}"
    confirmed = kept["confirmed"]
    if not offer.get("possible"):
        st.caption(f":material/block: {plain(title)}. Not possible: {plain(offer.get('blocked') or '')}")
    elif not offer.get("needs_confirmation"):
        st.caption(f":material/check: {plain(title)}")
    else:
        asked = str(offer.get("id"))
        others = tuple(each for each in confirmed if each != asked)
        st.checkbox(
            plain(title),
            value=asked in confirmed,
            key=f"repair_confirm_{asked}",
            on_change=_read,
            args=(identity, others if asked in confirmed else (*others, asked)),
        )
        for consequence in offer.get("consequences") or []:
            st.caption(plain(consequence))


def change_facts(what: str, plan: Json) -> list[tuple[str, str]]:
    """What a change does and what follows, as pairs of a label and a sentence."""
    files = f"{plan.get('files_removed')} removed, {plan.get('files_written')} written, after a backup"
    return [
        (what, visible(str(plan.get("title") or ""))),
        ("Files", files),
        *(("Consequence", visible(str(text))) for text in plan.get("consequences") or []),
    ]


def refusal(body: Json) -> str | None:
    """Why the server would not make the change now."""
    found = body.get("refusal")
    return one_line(found.get("reason") or "").capitalize() if found else None


def draw_undo(query: Json, role: str | None) -> None:
    """The change under way, else the newest that can be undone, with a button for it."""
    under_way = query.get("action") or {}
    if under_way.get("action") in frames.CHECKPOINT_CHANGES:
        step = f"{str(under_way.get('action')).capitalize()}: {one_line(under_way.get('reason') or '')} …"
        st.caption(f":material/hourglass_top: {plain(step)}")
        return
    runs = query.get("runs") or [{}]
    started = units.moment(runs[0].get("started_at")) or 0.0
    action = undoable(query.get("actions") or [], started)
    if action is None:
        return
    evidence, kind = action.get("evidence") or {}, str(action.get("action"))
    at = units.clock(action.get("finished_at"), widgets.zone(), time.time())
    done = one_line(evidence.get("done") or action.get("reason") or "")
    facts = [
        (kind.capitalize(), f"{done} (by {action.get('actor')}, {at})"),
        ("Backup", str(evidence.get("backup"))),
        ("Consequence", "Every file is restored as it was before. Refused if the query has run since."),
    ]
    st.markdown("**Last change**")
    widgets.definition_list(facts[:2])
    refused = action_checks.role_refusal(role, "Undos") or _running(query)
    body = {"action_id": action.get("id")}
    change_dialog.button("undo", "change_undo", refused, str(query.get("query_id")), body, facts)


def _running(query: Json) -> str | None:
    ended = query.get("status") in statuses.ENDED_STATUSES
    return None if ended else "The query is running; stop it first"


def undoable(actions: Iterable[Json], started_at: float) -> Json | None:
    """The newest rewind or repair that has left a backup and was not undone since; actions newest first.

    None where the query has been started after it, at `started_at` (Unix seconds).
    """
    undone: set[object] = set()
    for action in actions:
        if action.get("action") not in frames.CHECKPOINT_CHANGES or statuses.is_open(action.get("state")):
            continue
        if action.get("action") == "undo":
            if action.get("state") == "succeeded":
                undone.add((action.get("overrides") or {}).get("action_id"))
            continue
        if (action.get("evidence") or {}).get("backup") and action.get("id") not in undone:
            return action if (units.moment(action.get("finished_at")) or 0.0) > started_at else None
    return None
