"""The questions of the Alerts page: acknowledge an alert, silence, end a silence.

The page calls `draw`, its buttons `button`. Which question is open is kept in the session, so that a rerun of
the page opens the same dialog again and nobody's half-written comment is lost.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import streamlit as st

from ui.actions.dialogs import actor
from ui.alerting import frames, selection
from ui.alerting.selection import MAX_COMMENT_CHARS, SILENCE_DURATIONS, UNTIL
from ui.kit import cached_reads, units, widgets
from ui.kit.client import ClientError
from ui.kit.markup import plain, visible

Json = Mapping[str, Any]

OPEN_DIALOG = "alerting_question"
MAX_NAMED_ALERTS = 4  # of the alerts that a silence would cover, so many are named
MAX_TEXT_CHARS = 300  # characters of a text that a dialog quotes


def open_dialog(kind: str, about: Json) -> None:
    """Open a dialog (a button's callback). `about`: the alert, the silence, or nothing."""
    st.session_state[OPEN_DIALOG] = {"kind": kind, "about": about, "key": uuid.uuid4().hex}
    labels = about.get("labels") or {}
    known = {
        "silence_matchers": selection.prefilled_matchers(labels),
        "silence_lasting": next(iter(SILENCE_DURATIONS)),
    }
    st.session_state.update(known | {"silence_comment": "", "acknowledge_comment": ""})


def button(label: str, kind: str, about: Json, icon: str, refusal: str | None, primary: bool = False) -> None:
    """A button that opens the dialog `kind`; disabled, and saying why, where it cannot be.

    Its key is of the kind and of what it is about, so that it stays the same button through refreshes.
    """
    identity = str(about.get("fingerprint") or about.get("id") or "new")[:36]
    if st.button(
        label,
        key=f"{kind}_{identity}",
        icon=icon,
        type="primary" if primary else "secondary",
        disabled=refusal is not None,
        help=plain(refusal) if refusal else None,
        on_click=open_dialog,
        args=(kind, about),
    ):
        st.rerun()  # the whole page: it is the page that shows the dialog


def close() -> None:
    st.session_state.pop(OPEN_DIALOG, None)


def draw() -> None:
    """The dialog of the open question, if there is one."""
    question = st.session_state.get(OPEN_DIALOG)
    if question:
        title, icon, body = DIALOGS[question["kind"]]
        st.dialog(title, width="medium", icon=icon, on_dismiss=close)(body)(question)


def _acknowledge(question: Json) -> None:
    alert = question["about"]
    st.text(cut(f"{alert.get('name')}: {frames.summary(alert)}"))
    widgets.definition_list(
        [
            ("From now on", "Others see that you work on it, and it is not repeated to the receivers."),
            ("Still told", "When it is over, and each new alert of its group."),
        ]
    )
    comment = _comment("acknowledge_comment", "What you will do, for the others")
    body = {"comment": comment, "actor": actor()}
    _answers(
        "Acknowledge",
        ":material/check:",
        question,
        lambda: cached_reads.acknowledge(alert["fingerprint"], body),
    )


def _silence(question: Json) -> None:
    typed = st.text_area(
        "Matchers, one a line",
        key="silence_matchers",
        height=116,
        placeholder='app="orders"\nalertname=~"Lag.*"',
        help="As Prometheus writes them: `=`, `!=`, `=~` and `!~`. All must match.",
    )
    matchers = selection.matcher_lines(typed or "")
    with st.container():
        _covers(matchers)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        lasting = st.segmented_control(
            "For how long", [*SILENCE_DURATIONS, UNTIL], key="silence_lasting", required=True
        )
        until = _until() if lasting == UNTIL else None
    comment = _comment("silence_comment", "Why, and until what is done")
    body = selection.silence_request(matchers, str(lasting), until, comment, actor())
    _answers(
        "Silence",
        ":material/notifications_off:",
        question,
        lambda: cached_reads.silence(body),
        bool(matchers),
    )


def _until() -> datetime | None:
    """The moment at which it ends, in the viewer's own time zone."""
    zone = widgets.zone()
    soon = datetime.now(zone).replace(tzinfo=None, second=0, microsecond=0)
    picked = st.datetime_input(
        f"Ends ({zone})", value=soon + timedelta(hours=8), min_value=soon, key="silence_until", width=260
    )
    return picked.replace(tzinfo=zone) if picked else None


def _covers(matchers: tuple[str, ...]) -> None:
    """How many firing alerts it would mute now, and which."""
    if not matchers:
        st.caption("Write at least one matcher.")
        return
    reading = cached_reads.covered(matchers)
    if reading.error:
        st.error(plain(reading.error), icon=":material/block:")
        return
    found = (reading.body or {}).get("alerts", [])
    count = f"{len(found)} firing alert{'' if len(found) == 1 else 's'}"
    icon = ":material/notifications_off:" if found else ":material/info:"
    st.markdown(f"{icon} Covers **{count}** now{'.' if not found else ':'}")
    names = [cut(_labelled(one.get("labels") or {}), 120) for one in found[:MAX_NAMED_ALERTS]]
    rest = [f"and {len(found) - MAX_NAMED_ALERTS} more"] if len(found) > MAX_NAMED_ALERTS else []
    if found:
        st.text("\n".join([*names, *rest]))


def _labelled(labels: Json) -> str:
    place = "/".join(str(labels[name]) for name in ("app", "query") if labels.get(name))
    return f"{labels.get('alertname') or '?'} {place}".strip()


def _expire(question: Json) -> None:
    silence, now = question["about"], time.time()
    st.code(cut(silence.get("text") or ""), language=None, wrap_lines=True)
    count = int(silence.get("alerts") or 0)
    again = "Nothing fires under it now." if not count else f"{count} firing alerts are told again."
    again = "1 firing alert is told again." if count == 1 else again
    made = f"{silence.get('created_by') or 'somebody'}, {frames.ago(silence.get('starts_at'), now)}"
    left = units.moment(silence.get("ends_at"))
    ends = "" if left is None else f"By itself it would end in {units.span(max(0.0, left - now))}."
    widgets.definition_list([("Made by", made), ("Then", again), ("Else", ends)])
    _answers("Expire", ":material/timer_off:", question, lambda: cached_reads.expire(silence["id"]))


def _comment(key: str, placeholder: str) -> str:
    return st.text_input("Comment", key=key, max_chars=MAX_COMMENT_CHARS, placeholder=placeholder) or ""


def _answers(
    label: str, icon: str, question: Json, send: Callable[[], object], possible: bool = True
) -> None:
    """Cancel, or do it: what the server refuses is said here, what it takes closes the dialog."""
    with st.container(horizontal=True, horizontal_alignment="right"):
        if st.button("Cancel", key="answer_no"):
            close()
            st.rerun()
        yes = st.button(label, key="answer_yes", type="primary", icon=icon, disabled=not possible)
    still_open = (st.session_state.get(OPEN_DIALOG) or {}).get("key") == question["key"]
    if not (yes and still_open):  # a second press of an impatient person is not a second silence
        return
    try:
        send()
    except ClientError as error:
        st.error(plain(error), title="The server did not take it", icon=":material/block:")
        return
    close()
    st.rerun()


def cut(text: object, longest: int = MAX_TEXT_CHARS) -> str:
    """The text, hidden characters made visible, at most so long."""
    shown = visible(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


DIALOGS: dict[str, tuple[str, str, Callable[[Json], None]]] = {
    "acknowledge": ("Acknowledge this alert?", ":material/check:", _acknowledge),
    "silence": ("Silence alerts", ":material/notifications_off:", _silence),
    "expire": ("End this silence now?", ":material/timer_off:", _expire),
}
