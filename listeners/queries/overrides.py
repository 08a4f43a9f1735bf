"""Overrides of a start by command, validated before anything is stopped.

A recorded writer accepts another interval for its processing-time trigger. A registered factory accepts the
parameters in its signature. An override applies to one run: the next start without it uses the program's own
values.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from typing import Any, Callable

from listeners.protocol.errors import CommandError

TRIGGER = "trigger"
MAX_INTERVAL_SECONDS = 7 * 86400.0
_UNIT_SECONDS = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1.0,
    "second": 1.0,
    "m": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "day": 86400.0,
}
_INTERVAL = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_NAMED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def refusal(message: str) -> CommandError:
    """A CommandError `unsupported_override`; nothing was changed."""
    return CommandError("unsupported_override", message, refused=True)


def interval_of(overrides: Mapping[str, Any], trigger: str | None) -> float | None:
    """The trigger interval in seconds for a recorded writer; None if no override is given.

    `trigger` is the kind of the query's trigger. CommandError if the override is not possible.
    """
    if not overrides:
        return None
    others = sorted(str(name)[:40] for name in overrides if name != TRIGGER)
    if others:
        raise refusal(
            f"without a factory only `trigger` can be overridden, not {', '.join(others)}; "
            "register a factory with these parameters for this query"
        )
    if trigger != "processing_time":
        raise refusal(
            "only a processing-time trigger can have another interval; "
            f"this query's is {trigger or 'unknown'}"
        )
    return parse_interval(overrides[TRIGGER])


def parse_interval(value: Any) -> float:
    """`"10 seconds"`, `"500 ms"`, `"1m"` or seconds → seconds; 0 starts batches without a pause."""
    seconds = _number(value) if isinstance(value, (int, float)) else _parsed(str(value))
    if seconds is None or not math.isfinite(seconds) or not 0 <= seconds <= MAX_INTERVAL_SECONDS:
        raise refusal(
            f"trigger must be an interval of up to 7 days such as 10 seconds, not {str(value)[:40]!r}"
        )
    return seconds


def _number(value: float) -> float | None:
    return None if isinstance(value, bool) else float(value)


def _parsed(text: str) -> float | None:
    found = _INTERVAL.fullmatch(text[:40])
    if found is None:
        return None
    unit_name = found.group(2).lower()
    unit = _UNIT_SECONDS.get(unit_name) or _UNIT_SECONDS.get(
        unit_name[:-1] if unit_name.endswith("s") else ""
    )
    return None if unit is None else float(found.group(1)) * unit


def check_parameters(factory: Callable[..., Any], name: str, overrides: Mapping[str, Any]) -> None:
    """Raise a CommandError with the accepted parameters if the factory does not accept these."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return  # no signature: calling it will show
    accepted = [parameter for parameter in parameters.values() if parameter.kind in _NAMED_KINDS]
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    allowed = ", ".join(parameter.name for parameter in accepted) or "none"
    unknown = sorted(
        str(parameter)[:40] for parameter in overrides if parameter not in {known.name for known in accepted}
    )
    if unknown and not takes_any:
        raise refusal(
            f"the factory of {name} has no parameter {', '.join(unknown)}; its parameters: {allowed}"
        )
    missing = [
        parameter.name
        for parameter in accepted
        if parameter.default is inspect.Parameter.empty and parameter.name not in overrides
    ]
    if missing:
        raise refusal(
            f"the factory of {name} needs {', '.join(missing)}: set a default, or pass a value in the command"
        )
