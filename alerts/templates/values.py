"""Values of message templates with methods: key-value pairs, lists of alerts, times; and text that is HTML.

`method` finds what a template calls: `.Alerts.Firing`, `.CommonLabels.SortedPairs.Values`, `.StartsAt.Format "15:04"`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from alerts.templates.times import DEFAULT_LAYOUT, format_span, format_time, in_zone


class SafeText(str):
    """Text that is HTML already and is not escaped."""

    __slots__ = ()


class KeyValues(dict[str, str]):
    """Labels or annotations (Alertmanager's `KV`)."""

    def sorted_pairs(self) -> Pairs:
        """The entries by name, `alertname` first."""
        names = sorted(self, key=lambda name: (name != "alertname", name))
        return Pairs(Pair(Name=name, Value=self[name]) for name in names)

    def remove(self, names: Iterable[str]) -> KeyValues:
        """A copy without some names."""
        left_out = set(names)
        return KeyValues((name, value) for name, value in self.items() if name not in left_out)

    def names(self) -> list[str]:
        return [pair["Name"] for pair in self.sorted_pairs()]

    def values_by_name(self) -> list[str]:
        return [pair["Value"] for pair in self.sorted_pairs()]


class Pair(dict[str, str]):
    """An entry of `KeyValues`, with `Name` and `Value`."""


class Pairs(list[Pair]):
    """Entries of `KeyValues`."""


class AlertList(list[Mapping[str, Any]]):
    """The alerts of a message."""

    def of_status(self, status: str) -> AlertList:
        """The alerts that are `firing` or `resolved`."""
        return AlertList(alert for alert in self if alert["Status"] == status)


_METHODS: Mapping[type, Mapping[str, Callable[..., Any]]] = {
    KeyValues: {
        "SortedPairs": KeyValues.sorted_pairs,
        "Names": KeyValues.names,
        "Values": KeyValues.values_by_name,
        "Remove": KeyValues.remove,
    },
    Pairs: {
        "Names": lambda pairs: [pair["Name"] for pair in pairs],
        "Values": lambda pairs: [pair["Value"] for pair in pairs],
    },
    AlertList: {
        "Firing": lambda alerts: alerts.of_status("firing"),
        "Resolved": lambda alerts: alerts.of_status("resolved"),
    },
    datetime: {
        "Format": lambda moment, layout: format_time(moment, str(layout)),
        "Unix": lambda moment: int(moment.timestamp()),
        "UTC": lambda moment: in_zone("UTC", moment),
        "IsZero": lambda moment: moment.year == 1,
        "String": lambda moment: format_time(moment, DEFAULT_LAYOUT),
        "Sub": lambda moment, other: moment - other,
        "Before": lambda moment, other: moment < other,
        "After": lambda moment, other: moment > other,
        "Year": lambda moment: moment.year,
        "Month": lambda moment: moment.strftime("%B"),
        "Day": lambda moment: moment.day,
        "Hour": lambda moment: moment.hour,
        "Minute": lambda moment: moment.minute,
        "Second": lambda moment: moment.second,
        "Weekday": lambda moment: moment.strftime("%A"),
    },
    timedelta: {
        "Seconds": lambda span: span.total_seconds(),
        "Minutes": lambda span: span.total_seconds() / 60,
        "Hours": lambda span: span.total_seconds() / 3600,
        "String": format_span,
    },
}


def method(value: Any, name: str) -> Callable[..., Any] | None:
    """The method of a value by its name in templates; None where it has none."""
    found = _METHODS.get(type(value), {}).get(name)
    return None if found is None else lambda *arguments: found(value, *arguments)
