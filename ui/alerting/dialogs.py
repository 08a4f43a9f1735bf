"""Dialogs of the Alerts page: acknowledge an alert, create a silence, expire a silence.

The page calls `draw`, its buttons `button`. The open dialog is kept in the session, so that a rerun of the
page opens the same dialog again and a half-written comment is not lost.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import streamlit as st

from ui.alerting import frames, selection
from ui.alerting.selection import MAX_COMMENT_CHARS, MORNING, SILENCE_DURATIONS, UNTIL
from ui.kit import cached_reads, units, widgets
from ui.kit.answers import ClientError
from ui.kit.markup import plain, truncate

Json = Mapping[str, Any]

OPEN_DIALOG = "alerting_dialog"
MAX_NAMED_ALERTS = 4  # of the alerts that a silence would cover
MAX_TEXT_CHARS = 300  # of a text that a dialog quotes


def open_dialog(kind: str, target: Json) -> None:
    """Open a dialog (a button's callback). `target`: the alert, the silence, or nothing."""
    st.session_state[OPEN_DIALOG] = {"kind": kind, "target": target, "key": uuid.uuid4().hex}
    labels = target.get("labels") or {}
    fields = {
        "silence_matchers": selection.prefilled_matchers(labels),
        "silence_duration": next(iter(SILENCE_DURATIONS)),
    }
    st.session_state.update(fields | {"silence_comment": "", "acknowledge_comment": ""})


def open_linked_silence(fingerprint: str) -> None:
    """Open the dialog of a new silence for an alert, where it is known and the role permits it."""
    alert = (cached_reads.alert(fingerprint).body or {}).get("alert")
    if alert and selection.role_refusal(cached_reads.role()) is None:
        open_dialog("silence", alert)


def button(
    label: str, kind: str, target: Json, icon: str, refusal: str | None, primary: bool = False
) -> None:
    """A button that opens the dialog `kind`; disabled, with the reason as its tooltip, if refused.

    Its key is made of kind and target, so that it stays the same button through refreshes.
    """
    identity = str(target.get("fingerprint") or target.get("id") or "new")[:36]
    if st.button(
        label,
        key=f"{kind}_{identity}",
        icon=icon,
        type="primary" if primary else "secondary",
        disabled=refusal is not None,
        help=plain(refusal) if refusal else None,
        on_click=open_dialog,
        args=(kind, target),
    ):
        st.rerun()  # the whole page, which shows the dialog


def close() -> None:
    """Close the dialog."""
    st.session_state.pop(OPEN_DIALOG, None)


def draw() -> None:
    """The open dialog, if there is one."""
    dialog = st.session_state.get(OPEN_DIALOG)
    if dialog:
        title, icon, body = DIALOGS[dialog["kind"]]
        st.dialog(title, width="medium", icon=icon, on_dismiss=close)(body)(dialog)


def _acknowledge(dialog: Json) -> None:
    alert = dialog["target"]
    st.text(truncate(f"{alert.get('name')}: {frames.summary(alert)}", MAX_TEXT_CHARS))
    widgets.definition_list(
        [
            ("Effect", "Others see that you work on it. Its notification is not repeated."),
            ("Still notified", "Its resolution, and each new alert of its group."),
        ]
    )
    comment = _comment("acknowledge_comment", "What you will do")
    body = {"comment": comment}
    _buttons(
        "Acknowledge",
        ":material/check:",
        dialog,
        lambda: cached_reads.acknowledge(alert["fingerprint"], body),
    )


def _silence(dialog: Json) -> None:
    typed = st.text_area(
        "Matchers, one per line",
        key="silence_matchers",
        height=116,
        placeholder='app="orders"\nalertname=~"Lag.*"',
        help="Operators as in Prometheus: `=`, `!=`, `=~` and `!~`. All matchers must match.",
    )
    matchers = selection.matcher_lines(typed or "")
    with st.container():
        _covers(matchers)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        duration = st.segmented_control(
            "Duration", [*SILENCE_DURATIONS, MORNING, UNTIL], key="silence_duration", required=True
        )
        until = _until() if duration == UNTIL else selection.next_morning(datetime.now(widgets.zone()))
        if duration == MORNING and until is not None:
            st.caption(f"until {units.clock(until.timestamp(), widgets.zone(), time.time())}")
    comment = _comment("silence_comment", "Reason, and when it can end")
    body = selection.silence_request(matchers, str(duration), until, comment)
    _buttons(
        "Silence",
        ":material/notifications_off:",
        dialog,
        lambda: cached_reads.silence(body),
        bool(matchers),
    )


def _until() -> datetime | None:
    """The end time, in the viewer's time zone."""
    zone = widgets.zone()
    soon = datetime.now(zone).replace(tzinfo=None, second=0, microsecond=0)
    picked = st.datetime_input(
        f"Ends ({zone})", value=soon + timedelta(hours=8), min_value=soon, key="silence_until", width=260
    )
    return picked.replace(tzinfo=zone) if picked else None


def _covers(matchers: tuple[str, ...]) -> None:
    """How many firing alerts the matchers cover now, and which."""
    if not matchers:
        st.caption("Enter at least one matcher.")
        return
    reading = cached_reads.covered(matchers)
    if reading.error:
        st.error(plain(reading.error), icon=":material/block:")
        return
    found = (reading.body or {}).get("alerts", [])
    count = f"{len(found)} firing alert{'' if len(found) == 1 else 's'}"
    icon = ":material/notifications_off:" if found else ":material/info:"
    st.markdown(f"{icon} Covers **{count}** now{'.' if not found else ':'}")
    names = [truncate(_identity(alert.get("labels") or {}), 120) for alert in found[:MAX_NAMED_ALERTS]]
    rest = [f"and {len(found) - MAX_NAMED_ALERTS} more"] if len(found) > MAX_NAMED_ALERTS else []
    if found:
        st.text("\n".join([*names, *rest]))


def _identity(labels: Json) -> str:
    place = "/".join(str(labels[name]) for name in ("app", "query") if labels.get(name))
    return f"{labels.get('alertname') or '?'} {place}".strip()


def _expire(dialog: Json) -> None:
    silence, now = dialog["target"], time.time()
    st.code(truncate(silence.get("text") or "", MAX_TEXT_CHARS), language=None, wrap_lines=True)
    count = int(silence.get("alerts") or 0)
    effect = "It covers no firing alert now." if not count else f"{count} firing alerts notify again."
    effect = "1 firing alert notifies again." if count == 1 else effect
    created = (
        f"{silence.get('created_by') or 'an unknown person'}, {frames.ago(silence.get('starts_at'), now)}"
    )
    end = units.moment(silence.get("ends_at"))
    otherwise = "" if end is None else f"It ends by itself in {units.span(max(0.0, end - now))}."
    widgets.definition_list([("Created by", created), ("Effect", effect), ("Otherwise", otherwise)])
    _buttons("Expire", ":material/timer_off:", dialog, lambda: cached_reads.expire(silence["id"]))


def _comment(key: str, placeholder: str) -> str:
    return st.text_input("Comment", key=key, max_chars=MAX_COMMENT_CHARS, placeholder=placeholder) or ""


def _buttons(label: str, icon: str, dialog: Json, send: Callable[[], object], possible: bool = True) -> None:
    """Cancel and confirm. A refusal of the server is shown here; success closes the dialog."""
    with st.container(horizontal=True, horizontal_alignment="right"):
        if st.button("Cancel", key="answer_no"):
            close()
            st.rerun()
        yes = st.button(label, key="answer_yes", type="primary", icon=icon, disabled=not possible)
    still_open = (st.session_state.get(OPEN_DIALOG) or {}).get("key") == dialog["key"]
    if not (yes and still_open):  # a second click is not a second silence
        return
    try:
        send()
    except ClientError as error:
        st.error(plain(error), title="Request refused", icon=":material/block:")
        return
    close()
    st.rerun()


DIALOGS: dict[str, tuple[str, str, Callable[[Json], None]]] = {
    "acknowledge": ("Acknowledge this alert?", ":material/check:", _acknowledge),
    "silence": ("Silence alerts", ":material/notifications_off:", _silence),
    "expire": ("Expire this silence now?", ":material/timer_off:", _expire),
}
