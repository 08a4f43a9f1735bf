"""Try a rule on the stored history before it is enabled: edit it, and see when it would have fired.

The Rules page calls `draw`; the button of a rule opens it. The server evaluates the text, for at most two minutes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
import yaml

from ui.kit import action_checks, cached_reads, listing, units, widgets
from ui.kit.answers import ClientError
from ui.kit.listing import Cell, ListColumn, ListRow, PageOfRows
from ui.kit.markup import one_line, plain, visible

Json = Mapping[str, Any]

PERIODS = {"1h": 3600.0, "6h": 21_600.0, "24h": 86_400.0, "7d": 604_800.0}
MAX_EPISODES = 100  # shown; the count is of all
MAX_RULE_CHARS = 200_000
HEIGHT = 240
_TEXT, _OUTCOME = "replay_text", "replay_outcome"
COLUMNS = (
    ListColumn("Alert", "title"),
    ListColumn("Labels", "wide"),
    ListColumn("Value", "number"),
    ListColumn("Duration", "number"),
    ListColumn("Would have fired", "number"),
)


def button(rule: Json, group: Json, key: str) -> None:
    """A button that opens the panel with this rule."""
    refusal = action_checks.role_refusal(cached_reads.role(), "Replays")
    if st.button(
        "Try on history",
        key=f"replay_{key}",
        icon=":material/history:",
        type="tertiary",
        disabled=refusal is not None,
        help=refusal or "Edit a copy of this rule and see when it would have fired.",
        on_click=_open,
        args=(rule_file(rule, group),),
    ):
        st.rerun()  # the panel is outside of the part of the page that refreshes


def _open(text: str) -> None:
    st.session_state[_TEXT] = text
    st.session_state.pop(_OUTCOME, None)


def rule_file(rule: Json, group: Json) -> str:
    """A rule file with this rule alone."""
    name = "alert" if rule.get("kind") == "alert" else "record"
    found: dict[str, Any] = {name: rule.get("name"), "expr": rule.get("expr")}
    for field, clause in (("for_seconds", "for"), ("keep_firing_for_seconds", "keep_firing_for")):
        if seconds := units.number(rule.get(field)):
            found[clause] = f"{seconds:.0f}s"
    for field in ("labels", "annotations"):
        if rule.get(field):
            found[field] = dict(rule[field])
    every = units.number(group.get("interval_seconds")) or 15.0
    groups = [{"name": str(group.get("name")), "interval": f"{every:.0f}s", "rules": [found]}]
    return yaml.dump({"groups": groups}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are read."""


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    lines = "\n".join(
        line.rstrip() for line in text.splitlines()
    )  # PyYAML quotes a block with trailing spaces
    return dumper.represent_scalar("tag:yaml.org,2002:str", lines, style="|" if "\n" in lines else None)


_Dumper.add_representer(str, _text)


def draw() -> None:
    """The panel, where a rule was opened."""
    if _TEXT not in st.session_state:
        return
    with st.container(border=True, key="replay_panel"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.subheader("Try on history", anchor=False, width="stretch")
            st.button("Close", key="replay_close", icon=":material/close:", type="tertiary", on_click=_close)
        st.text_area("Rule file", key=_TEXT, height=HEIGHT, max_chars=MAX_RULE_CHARS)
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            period = st.segmented_control(
                "Period", list(PERIODS), default="24h", key="replay_period", required=True
            )
            asked = st.button("Replay", key="replay_run", type="primary", icon=":material/play_arrow:")
        st.caption(
            "Nothing is notified and no rule changes. Put the text into a file of `--rules` to enable it."
        )
        if asked:
            with st.spinner("The server evaluates the rule on its history, for two minutes at most."):
                st.session_state[_OUTCOME] = _replayed(PERIODS[str(period)])
        if outcome := st.session_state.get(_OUTCOME):
            _show(outcome)


def _close() -> None:
    for name in (_TEXT, _OUTCOME):
        st.session_state.pop(name, None)


def _replayed(seconds: float) -> dict[str, Any]:
    end = time.time()
    try:
        return cached_reads.connection().replay(str(st.session_state[_TEXT]), end - seconds, end)
    except ClientError as error:
        return {"error": str(error)}


def _show(outcome: Json) -> None:
    if outcome.get("error"):
        st.error(plain(outcome["error"]), icon=":material/report:")
        return
    st.text(sentence(outcome))
    for problem in outcome.get("errors") or []:
        st.warning(
            plain(f"{problem.get('rule')} failed {problem.get('count')} times: {problem.get('error')}")
        )
    for note in outcome.get("notes") or []:
        st.caption(plain(note))
    if found := rows(outcome.get("episodes") or []):
        page = PageOfRows(found, len(outcome["episodes"]), limit=MAX_EPISODES)
        listing.draw("replay_episodes", "When the rule would have fired, newest first", COLUMNS, page)


def sentence(outcome: Json) -> str:
    """`Would have fired 3 times from 12:00 to 13:00.`"""
    count, now = len(outcome.get("episodes") or []), time.time()
    start, until = (units.clock(outcome.get(name), widgets.zone(), now) for name in ("start", "until"))
    times = "once" if count == 1 else f"{count:,} times"
    return visible(
        f"Would {'not have fired' if not count else f'have fired {times}'} from {start} to {until}."
    )


def rows(episodes: Sequence[Json]) -> list[ListRow]:
    """One row an episode, newest first."""
    newest = sorted(episodes, key=lambda each: units.moment(each.get("fired_at")) or 0.0, reverse=True)
    return [ListRow(str(place), _cells(each)) for place, each in enumerate(newest[:MAX_EPISODES])]


def _cells(episode: Json) -> list[Cell]:
    labels = {name: value for name, value in (episode.get("labels") or {}).items() if name != "alertname"}
    fired, resolved = units.moment(episode.get("fired_at")), units.moment(episode.get("resolved_at"))
    return [
        one_line(episode.get("name")),
        one_line(", ".join(f"{name}={value}" for name, value in sorted(labels.items()))),
        units.count(episode.get("value")),
        "until now" if resolved is None or fired is None else units.span(resolved - fired),
        units.UNKNOWN if fired is None else {"at": round(fired)},
    ]
