"""A doctor's findings on the screen: what Spark will do and when, why it is thought so, and what to do.

The Query page's panel shows them whole, a confirmation and a refused action in short. All their words are text
from others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import streamlit as st

from ui.checkpoints import assessment
from ui.kit import frames, statuses, widgets
from ui.kit.frames import Json
from ui.kit.markup import plain, visible

MAX_FINDINGS = 20  # findings drawn one by one
MAX_BRIEF_FINDINGS = 2
MAX_MESSAGE_CHARS = 600  # characters of a message
MAX_EVIDENCE_CHARS = 6000


def draw_all(findings: Sequence[Json], key: str) -> None:
    """Errors and warnings one by one, notes folded behind them."""
    for place, finding in enumerate(assessment.errors_and_warnings(findings)[:MAX_FINDINGS]):
        with st.container(border=True, gap="xsmall", key=f"{key}_finding_{place}"):
            _finding(finding, f"{key}_evidence_{place}")
    beyond = len(assessment.errors_and_warnings(findings)) - MAX_FINDINGS
    if beyond > 0:
        st.caption(f"and {beyond} more; `controlplane doctor` lists them all")
    _notes(assessment.notes(findings), key)


def _finding(finding: Json, key: str) -> None:
    _head(finding)
    st.text(_cut(finding.get("message") or "", MAX_MESSAGE_CHARS))
    remedy(finding)
    if evidence := finding.get("evidence"):
        with st.expander("Evidence", key=key, type="compact"):
            st.code(_pretty(evidence), language=None, wrap_lines=True)


def _head(finding: Json) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        widgets.badge(statuses.finding(finding.get("severity")))
        st.markdown(f"**{plain(finding.get('check') or 'finding')}**", width="content")
        st.caption(plain(assessment.effect(finding)), width="content")


def remedy(finding: Json) -> None:
    """Its steps as a numbered list; a command in a box of its own, to copy."""
    steps = assessment.steps(finding.get("remedy"))
    for number, (step, commands) in enumerate(steps, 1):
        with st.container(horizontal=True, gap="xsmall", wrap=False):
            st.text(f"{number}.", width=18)
            st.text(step, width="stretch")
        for command in commands:
            st.code(command, language="bash", wrap_lines=True)


def _notes(findings: Sequence[Json], key: str) -> None:
    if findings:
        word = "1 note" if len(findings) == 1 else f"{len(findings)} notes"
        with st.expander(word, key=f"{key}_notes", type="compact"):
            widgets.definition_list(
                [(_short(finding.get("check")), _noted(finding)) for finding in findings[:MAX_FINDINGS]], 190
            )


def _noted(finding: Json) -> str:
    steps = "; ".join(step for step, _ in assessment.steps(finding.get("remedy")))
    message = _cut(finding.get("message") or "", MAX_MESSAGE_CHARS)
    return f"{message}\n→ {steps}" if steps else message


def draw_brief(findings: Sequence[Json]) -> None:
    """The worst ones with what to do, for a dialog."""
    for finding in findings[:MAX_BRIEF_FINDINGS]:
        with st.container(gap="xsmall"):
            st.text(_cut(finding.get("message") or "", 300))
            if told := assessment.effect(finding):
                st.caption(plain(told))
            remedy(finding)
    if len(findings) > MAX_BRIEF_FINDINGS:
        st.caption(f"and {len(findings) - MAX_BRIEF_FINDINGS} more on the query's page")


def draw_refusal(action: Json) -> None:
    """Of an action that was refused for its checkpoint: what was found, and how to go on."""
    if not frames.refused_for_checkpoint(action):
        return
    found = (action.get("evidence") or {}).get("findings")
    draw_brief(assessment.errors_and_warnings([each for each in found or () if isinstance(each, dict)])[:1])
    st.caption(
        "The checkpoint's panel below has all findings. Whoever knows better may tick “in spite of it”."
    )


def _short(check: object) -> str:
    return plain(str(check or "note"))


def _cut(text: object, longest: int) -> str:
    shown = visible(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def _pretty(evidence: object) -> str:
    return _cut(json.dumps(evidence, indent=1, ensure_ascii=False, default=str), MAX_EVIDENCE_CHARS)
