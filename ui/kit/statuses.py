"""How each status and each action state looks, everywhere the same: its word, colour and icon.

Badges, tiles and tables call it. The order is the Fleet page's: worst first. A status that a newer server
may invent is shown grey under its own name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Colour = Literal["red", "orange", "yellow", "blue", "green", "violet", "gray"]

# One mid tone a colour that reads on both themes (table cells and charts take hex values only).
HEX: dict[Colour, str] = {
    "red": "#e5484d",
    "orange": "#dd6226",
    "yellow": "#bf8a00",
    "blue": "#4c8dff",
    "green": "#30a46c",
    "violet": "#8e6ad8",
    "gray": "#8b93a1",
}


@dataclass(frozen=True)
class Look:
    """A word, a colour and a Material icon."""

    word: str
    colour: Colour
    icon: str

    @property
    def hex(self) -> str:
        return HEX[self.colour]


STATUSES: dict[str, Look] = {
    "failed": Look("Failed", "red", ":material/error:"),
    "lost": Look("Lost", "violet", ":material/link_off:"),
    "stuck": Look("Stuck", "orange", ":material/hourglass_disabled:"),
    "lagging": Look("Lagging", "yellow", ":material/trending_up:"),
    "backing_off": Look("Backing off", "orange", ":material/update:"),
    "restarting": Look("Restarting", "blue", ":material/restart_alt:"),
    "busy": Look("Busy", "blue", ":material/hourglass_top:"),
    "starting": Look("Starting", "blue", ":material/rocket_launch:"),
    "stopped": Look("Stopped", "gray", ":material/stop_circle:"),
    "running": Look("Running", "green", ":material/play_circle:"),
    "idle": Look("Idle", "green", ":material/bedtime:"),
    "finished": Look("Finished", "gray", ":material/check_circle:"),
    "retired": Look("Retired", "gray", ":material/inventory_2:"),
}

ACTION_STATES: dict[str, Look] = {
    "requested": Look("Requested", "blue", ":material/schedule_send:"),
    "delivered": Look("Delivered", "blue", ":material/mark_email_read:"),
    "running": Look("Running", "blue", ":material/pending:"),
    "succeeded": Look("Succeeded", "green", ":material/check_circle:"),
    "failed": Look("Failed", "red", ":material/error:"),
    "unverified": Look("Unverified", "yellow", ":material/help:"),
    "refused": Look("Refused", "orange", ":material/block:"),
    "expired": Look("Expired", "violet", ":material/timer_off:"),
}

SEVERITIES: dict[str, Look] = {
    "critical": Look("Critical", "red", ":material/error:"),
    "warning": Look("Warning", "orange", ":material/warning:"),
    "info": Look("Info", "blue", ":material/info:"),
    "": Look("None", "gray", ":material/label_off:"),
}

ALERT_STATES: dict[str, Look] = {
    "firing": Look("Firing", "red", ":material/notifications_active:"),
    "pending": Look("Pending", "yellow", ":material/hourglass_top:"),
    "resolved": Look("Resolved", "green", ":material/check_circle:"),
}

RULE_STATES: dict[str, Look] = {
    "failing": Look("Failing", "violet", ":material/report:"),
    "firing": Look("Firing", "red", ":material/notifications_active:"),
    "pending": Look("Pending", "yellow", ":material/hourglass_top:"),
    "inactive": Look("Inactive", "green", ":material/check_circle:"),
    "record": Look("Record", "gray", ":material/save:"),
}

SILENCE_STATES: dict[str, Look] = {
    "active": Look("Active", "blue", ":material/notifications_off:"),
    "pending": Look("Pending", "yellow", ":material/schedule:"),
    "expired": Look("Expired", "gray", ":material/history:"),
}

OUTCOMES: dict[str, Look] = {
    "sent": Look("Told", "green", ":material/mark_email_read:"),
    "failed": Look("Failed", "red", ":material/error:"),
    "not_sent": Look("Not told", "gray", ":material/notifications_paused:"),
}

VERDICTS: dict[str, Look] = {
    "broken": Look("Broken", "red", ":material/heart_broken:"),
    "unreadable": Look("Unreadable", "violet", ":material/visibility_off:"),
    "risky": Look("Risky", "orange", ":material/warning:"),
    "unknown": Look("Unknown", "gray", ":material/help:"),
    "ok": Look("OK", "green", ":material/check_circle:"),
}

FINDINGS: dict[str, Look] = {
    "error": Look("Error", "red", ":material/error:"),
    "warning": Look("Warning", "orange", ":material/warning:"),
    "info": Look("Note", "gray", ":material/info:"),
}

CHANGES: dict[str, Look] = {
    "not_allowed": Look("Not allowed", "red", ":material/block:"),
    "consequences": Look("With consequences", "orange", ":material/warning:"),
    "unknown": Look("Unknown", "gray", ":material/help:"),
    "allowed": Look("Allowed", "green", ":material/check_circle:"),
}

OPEN_STATES = ("requested", "delivered", "running")


def status(name: str | None) -> Look:
    return STATUSES.get(name or "", _unknown(name))


def action_state(name: str | None) -> Look:
    return ACTION_STATES.get(name or "", _unknown(name))


def severity(name: str | None) -> Look:
    return SEVERITIES.get(name or "", _unknown(name))


def alert_state(name: str | None) -> Look:
    return ALERT_STATES.get(name or "", _unknown(name))


def rule_state(name: str | None) -> Look:
    return RULE_STATES.get(name or "", _unknown(name))


def silence_state(name: str | None) -> Look:
    return SILENCE_STATES.get(name or "", _unknown(name))


def outcome(name: str | None) -> Look:
    return OUTCOMES.get(name or "", _unknown(name))


def verdict(name: str | None) -> Look:
    """Of a checkpoint."""
    return VERDICTS.get(name or "", _unknown(name))


def finding(severity_name: str | None) -> Look:
    return FINDINGS.get(severity_name or "", _unknown(severity_name))


def change(verdict_name: str | None) -> Look:
    """Of the comparison of two runs' shapes."""
    return CHANGES.get(verdict_name or "", _unknown(verdict_name))


def is_open(action_state_name: str | None) -> bool:
    """Is the action still under way?"""
    return action_state_name in OPEN_STATES


def _unknown(name: str | None) -> Look:
    word = re.sub(r"[^a-z0-9 ]", "", (name or "unknown").replace("_", " ").lower())
    return Look(word.capitalize() or "Unknown", "gray", ":material/help:")
