"""Label, color and icon of each status, action state, severity, verdict and outcome.

Badges, tiles and tables use them. The order of STATUSES is the order of the Fleet page: worst first. A status
that only a newer server knows is shown gray under its own name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Color = Literal["red", "orange", "yellow", "blue", "green", "violet", "gray"]

# One mid tone of each color that is readable in both themes (table cells and charts take hex values only).
HEX_COLORS: dict[Color, str] = {
    "red": "#e5484d",
    "orange": "#dd6226",
    "yellow": "#bf8a00",
    "blue": "#4c8dff",
    "green": "#30a46c",
    "violet": "#8e6ad8",
    "gray": "#8b93a1",
}


@dataclass(frozen=True)
class BadgeStyle:
    """A label, a color and a Material icon."""

    label: str
    color: Color
    icon: str

    @property
    def hex(self) -> str:
        """The color for table cells and charts."""
        return HEX_COLORS[self.color]


STATUSES: dict[str, BadgeStyle] = {
    "failed": BadgeStyle("Failed", "red", ":material/error:"),
    "lost": BadgeStyle("Lost", "violet", ":material/link_off:"),
    "unreachable": BadgeStyle("Unreachable", "violet", ":material/cloud_off:"),
    "stuck": BadgeStyle("Stuck", "orange", ":material/hourglass_disabled:"),
    "lagging": BadgeStyle("Lagging", "yellow", ":material/trending_up:"),
    "backing_off": BadgeStyle("Backing off", "orange", ":material/update:"),
    "restarting": BadgeStyle("Restarting", "blue", ":material/restart_alt:"),
    "busy": BadgeStyle("Busy", "blue", ":material/hourglass_top:"),
    "starting": BadgeStyle("Starting", "blue", ":material/rocket_launch:"),
    "stopped": BadgeStyle("Stopped", "gray", ":material/stop_circle:"),
    "running": BadgeStyle("Running", "green", ":material/play_circle:"),
    "idle": BadgeStyle("Idle", "green", ":material/bedtime:"),
    "finished": BadgeStyle("Finished", "gray", ":material/check_circle:"),
    "retired": BadgeStyle("Retired", "gray", ":material/inventory_2:"),
}

ACTION_STATES: dict[str, BadgeStyle] = {
    "requested": BadgeStyle("Requested", "blue", ":material/schedule_send:"),
    "delivered": BadgeStyle("Delivered", "blue", ":material/mark_email_read:"),
    "running": BadgeStyle("Running", "blue", ":material/pending:"),
    "succeeded": BadgeStyle("Succeeded", "green", ":material/check_circle:"),
    "failed": BadgeStyle("Failed", "red", ":material/error:"),
    "unverified": BadgeStyle("Unverified", "yellow", ":material/help:"),
    "refused": BadgeStyle("Refused", "orange", ":material/block:"),
    "expired": BadgeStyle("Expired", "violet", ":material/timer_off:"),
}

DECISIONS: dict[str, BadgeStyle] = {
    "restart": BadgeStyle("Restart", "blue", ":material/restart_alt:"),
    "wait": BadgeStyle("Wait", "gray", ":material/hourglass_top:"),
    "hold": BadgeStyle("Hold", "orange", ":material/pause_circle:"),
    "page": BadgeStyle("Page", "red", ":material/notifications_active:"),
    "nothing": BadgeStyle("Nothing", "gray", ":material/block:"),
}

SEVERITIES: dict[str, BadgeStyle] = {
    "critical": BadgeStyle("Critical", "red", ":material/error:"),
    "warning": BadgeStyle("Warning", "orange", ":material/warning:"),
    "info": BadgeStyle("Info", "blue", ":material/info:"),
    "": BadgeStyle("None", "gray", ":material/label_off:"),
}

ALERT_STATES: dict[str, BadgeStyle] = {
    "firing": BadgeStyle("Firing", "red", ":material/notifications_active:"),
    "pending": BadgeStyle("Pending", "yellow", ":material/hourglass_top:"),
    "resolved": BadgeStyle("Resolved", "green", ":material/check_circle:"),
}

RULE_STATES: dict[str, BadgeStyle] = {
    "failing": BadgeStyle("Failing", "violet", ":material/report:"),
    "firing": BadgeStyle("Firing", "red", ":material/notifications_active:"),
    "pending": BadgeStyle("Pending", "yellow", ":material/hourglass_top:"),
    "inactive": BadgeStyle("Inactive", "green", ":material/check_circle:"),
    "record": BadgeStyle("Record", "gray", ":material/save:"),
}

SILENCE_STATES: dict[str, BadgeStyle] = {
    "active": BadgeStyle("Active", "blue", ":material/notifications_off:"),
    "pending": BadgeStyle("Pending", "yellow", ":material/schedule:"),
    "expired": BadgeStyle("Expired", "gray", ":material/history:"),
}

OUTCOMES: dict[str, BadgeStyle] = {
    "sent": BadgeStyle("Notified", "green", ":material/mark_email_read:"),
    "failed": BadgeStyle("Failed", "red", ":material/error:"),
    "not_sent": BadgeStyle("Not notified", "gray", ":material/notifications_paused:"),
}

VERDICTS: dict[str, BadgeStyle] = {
    "broken": BadgeStyle("Broken", "red", ":material/heart_broken:"),
    "unreadable": BadgeStyle("Unreadable", "violet", ":material/visibility_off:"),
    "risky": BadgeStyle("Risky", "orange", ":material/warning:"),
    "unknown": BadgeStyle("Unknown", "gray", ":material/help:"),
    "outdated": BadgeStyle("Earlier check", "gray", ":material/history:"),
    "ok_at_check": BadgeStyle("OK at last check", "green", ":material/history:"),
    "ok": BadgeStyle("OK", "green", ":material/check_circle:"),
}

FINDINGS: dict[str, BadgeStyle] = {
    "error": BadgeStyle("Error", "red", ":material/error:"),
    "warning": BadgeStyle("Warning", "orange", ":material/warning:"),
    "info": BadgeStyle("Note", "gray", ":material/info:"),
}

CHANGE_VERDICTS: dict[str, BadgeStyle] = {
    "not_allowed": BadgeStyle("Not allowed", "red", ":material/block:"),
    "consequences": BadgeStyle("With consequences", "orange", ":material/warning:"),
    "unknown": BadgeStyle("Unknown", "gray", ":material/help:"),
    "allowed": BadgeStyle("Allowed", "green", ":material/check_circle:"),
}

ENDED_STATUSES = ("failed", "stopped", "finished")
#: Statuses whose figures are those of the last report, not of now.
NOT_RUNNING = (*ENDED_STATUSES, "lost", "unreachable")
OPEN_STATES = ("requested", "delivered", "running")


def status(name: str | None) -> BadgeStyle:
    """Style of a query's status."""
    return STATUSES.get(name or "", _unknown(name))


def decision(name: str | None) -> BadgeStyle:
    """The badge of a decision of a policy."""
    return DECISIONS.get(str(name)) or BadgeStyle(str(name), "gray", ":material/help:")


def action_state(name: str | None) -> BadgeStyle:
    """Style of an action's state."""
    return ACTION_STATES.get(name or "", _unknown(name))


def severity(name: str | None) -> BadgeStyle:
    """Style of an alert's severity."""
    return SEVERITIES.get(name or "", _unknown(name))


def alert_state(name: str | None) -> BadgeStyle:
    """Style of an alert's state."""
    return ALERT_STATES.get(name or "", _unknown(name))


def rule_state(name: str | None) -> BadgeStyle:
    """Style of a rule's state, see `ui.alerting.selection.rule_state`."""
    return RULE_STATES.get(name or "", _unknown(name))


def silence_state(name: str | None) -> BadgeStyle:
    """Style of a silence's state."""
    return SILENCE_STATES.get(name or "", _unknown(name))


def outcome(name: str | None) -> BadgeStyle:
    """Style of a notification's outcome."""
    return OUTCOMES.get(name or "", _unknown(name))


def verdict(name: str | None) -> BadgeStyle:
    """Style of a checkpoint's verdict."""
    return VERDICTS.get(name or "", _unknown(name))


def finding(severity_name: str | None) -> BadgeStyle:
    """Style of a finding's severity."""
    return FINDINGS.get(severity_name or "", _unknown(severity_name))


def change(verdict_name: str | None) -> BadgeStyle:
    """Style of the verdict on a change between two runs."""
    return CHANGE_VERDICTS.get(verdict_name or "", _unknown(verdict_name))


def is_open(action_state_name: str | None) -> bool:
    """Is the action still under way?"""
    return action_state_name in OPEN_STATES


def _unknown(name: str | None) -> BadgeStyle:
    label = re.sub(r"[^a-z0-9 ]", "", (name or "unknown").replace("_", " ").lower())
    return BadgeStyle(label.capitalize() or "Unknown", "gray", ":material/help:")
