"""A doctor's findings on the screen: what Spark will do and when, the evidence, and the remedy.

The Query page's panel shows them in full, a confirmation and a refused action in brief. All their text comes
from others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import streamlit as st

from ui.checkpoints import assessment
from ui.kit import frames, statuses, widgets
from ui.kit.frames import Json
from ui.kit.markup import plain, truncate

MAX_FINDINGS = 20  # drawn in full
MAX_BRIEF_FINDINGS = 2
MAX_MESSAGE_CHARS = 600
MAX_EVIDENCE_CHARS = 6000


def draw_all(findings: Sequence[Json], key: str) -> None:
    """Draw errors and warnings one by one, notes in a folded list after them."""
    for index, finding in enumerate(assessment.errors_and_warnings(findings)[:MAX_FINDINGS]):
        with st.container(border=True, gap="xsmall", key=f"{key}_finding_{index}"):
            _finding(finding, f"{key}_evidence_{index}")
    beyond = len(assessment.errors_and_warnings(findings)) - MAX_FINDINGS
    if beyond > 0:
        st.caption(f"{beyond} more findings. `controlplane doctor` lists all of them.")
    _notes(assessment.notes(findings), key)


def _finding(finding: Json, key: str) -> None:
    _head(finding)
    st.text(truncate(finding.get("message") or "", MAX_MESSAGE_CHARS))
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
    """Draw the steps as a numbered list, each command in a box of its own for copying."""
    steps = assessment.steps(finding.get("remedy"))
    for number, (step, commands) in enumerate(steps, 1):
        with st.container(horizontal=True, gap="xsmall", wrap=False):
            st.text(f"{number}.", width=18)
            st.text(step, width="stretch")
        for command in commands:
            st.code(command, language="bash", wrap_lines=True)


def _notes(findings: Sequence[Json], key: str) -> None:
    if findings:
        label = "1 note" if len(findings) == 1 else f"{len(findings)} notes"
        with st.expander(label, key=f"{key}_notes", type="compact"):
            widgets.definition_list(
                [(_short(finding.get("check")), _noted(finding)) for finding in findings[:MAX_FINDINGS]], 190
            )


def _noted(finding: Json) -> str:
    steps = "; ".join(step for step, _ in assessment.steps(finding.get("remedy")))
    message = truncate(finding.get("message") or "", MAX_MESSAGE_CHARS)
    return f"{message}\n→ {steps}" if steps else message


def draw_brief(findings: Sequence[Json]) -> None:
    """Draw the worst findings with their remedy, for a dialog."""
    for finding in findings[:MAX_BRIEF_FINDINGS]:
        with st.container(gap="xsmall"):
            st.text(truncate(finding.get("message") or "", 300))
            if effect := assessment.effect(finding):
                st.caption(plain(effect))
            remedy(finding)
    if len(findings) > MAX_BRIEF_FINDINGS:
        st.caption(f"{len(findings) - MAX_BRIEF_FINDINGS} more on the query's page")


def draw_refusal(action: Json) -> None:
    """Draw why an action was refused because of the checkpoint, and how to continue."""
    if not frames.refused_for_checkpoint(action):
        return
    found = (action.get("evidence") or {}).get("findings")
    draw_brief(
        assessment.errors_and_warnings([finding for finding in found or () if isinstance(finding, dict)])[:1]
    )
    st.caption(
        "The checkpoint panel below has all findings. To start regardless, choose “Continue anyway” in the dialog."
    )


def _short(check: object) -> str:
    return plain(str(check or "note"))


def _pretty(evidence: object) -> str:
    return truncate(json.dumps(evidence, indent=1, ensure_ascii=False, default=str), MAX_EVIDENCE_CHARS)
