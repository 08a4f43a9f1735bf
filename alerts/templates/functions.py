"""Template functions, as in Prometheus: humanized numbers, strings, comparisons, printf.

Each takes plain values and returns one. Raises ValueError with a message for the alert's text.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote_plus

from alerts.durations import parse_duration
from alerts.matching.regex import replace_all, search
from alerts.templates.samples import expression_link, first, moment, numbered, sort_by_label, span
from alerts.templates.times import DEFAULT_LAYOUT, format_span, format_time
from alerts.templates.values import Pair

MAX_WIDTH = 1000
#: Characters of a text made by `reReplaceAll`, which could otherwise grow with each call.
MAX_REPLACED = 10_000
_VERB = re.compile(r"%([-+# 0]*)(\d+)?(?:\.(\d+)?)?([a-zA-Z%])|%")
_DECIMAL = (("k", "M", "G", "T", "P", "E", "Z", "Y"), ("m", "u", "n", "p", "f", "a", "z", "y"))
_BINARY = ("ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")


def go_format(value: Any) -> str:
    """Format a value as Go prints it."""
    match value:
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case float():
            return _go_float(value)
        case datetime():
            return format_time(value, DEFAULT_LAYOUT)
        case timedelta():
            return format_span(value)
        case list() | tuple():
            return "[" + " ".join(go_format(element) for element in value) + "]"
        case Pair():
            return f"{{{value['Name']} {value['Value']}}}"
        case Mapping():
            return "map[" + " ".join(f"{k}:{go_format(v)}" for k, v in sorted(value.items())) + "]"
    return str(value)


def _go_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    power = f"{value:.16e}".partition("e")[2]
    digits = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
    if -4 <= int(power) < 6:  # where Go's %v changes to powers
        return format(value, f".{max(0, len(digits) - 1 - int(power))}f")
    mantissa = f"{value:.{max(len(digits) - 1, 0)}e}".partition("e")[0]
    return f"{mantissa}e{power}"


def number(value: Any) -> float:
    """Convert to a number. Raises ValueError."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{go_format(value)} is not a number")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{go_format(value)!r} is not a number") from None


def _short(value: float) -> str:
    return _go_float(value) if not math.isfinite(value) else f"{value:.4g}"


def humanize(value: Any) -> str:
    """1234567 → `1.235M`: metric prefixes."""
    v = number(value)
    if v == 0 or not math.isfinite(v):
        return _short(v)
    big, prefix = abs(v) >= 1, ""
    for prefix_of_step in _DECIMAL[0 if big else 1]:
        if abs(v) < 1000 if big else abs(v) >= 1:
            break
        v, prefix = (v / 1000 if big else v * 1000), prefix_of_step
    return _short(v) + prefix


def humanize1024(value: Any) -> str:
    """1048576 → `1Mi`: binary prefixes."""
    v, prefix = number(value), ""
    if abs(v) <= 1 or not math.isfinite(v):
        return _short(v)
    for prefix_of_step in _BINARY:
        if abs(v) < 1024:
            break
        v, prefix = v / 1024, prefix_of_step
    return _short(v) + prefix


def humanize_duration(value: Any) -> str:
    """3725 seconds → `1h 2m 5s`."""
    v = number(value)
    if not math.isfinite(v):
        return _short(v)
    if abs(v) < 1:
        prefix = ""
        for step in ("m", "u", "n"):
            if abs(v) >= 1 or v == 0:
                break
            v, prefix = v * 1000, step
        return f"{_short(v)}{prefix}s"
    sign, v = ("-" if v < 0 else ""), abs(v)
    minutes, seconds = divmod(int(v), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{sign}{days}d {hours}h {minutes}m {seconds}s"
    if hours:
        return f"{sign}{hours}h {minutes}m {seconds}s"
    return f"{sign}{minutes}m {seconds}s" if minutes else f"{sign}{_short(v)}s"


def humanize_percentage(value: Any) -> str:
    """0.1235 → `12.35%`."""
    return f"{_short(number(value) * 100)}%"


def humanize_timestamp(value: Any) -> str:
    """Unix seconds → `2023-11-14 22:13:20 +0000 UTC`."""
    v = number(value)
    if not math.isfinite(v):
        return _short(v)
    return format_time(moment(v), DEFAULT_LAYOUT)


def printf(template: Any, *values: Any) -> str:
    """Go's fmt.Sprintf; mismatches appear in the text, as in Go."""
    left = list(values)

    def verb_text(found: re.Match[str]) -> str:
        verb = found[4]
        if verb == "%":
            return "%"
        if verb is None:
            return "%!(NOVERB)"
        if not left:
            return f"%!{verb}(MISSING)"
        return _formatted(left.pop(0), verb, found)

    text = _VERB.sub(verb_text, str(template))
    extra = ", ".join(f"{_go_type(value)}={go_format(value)}" for value in left)
    return f"{text}%!(EXTRA {extra})" if left else text


def _formatted(value: Any, verb: str, found: re.Match[str]) -> str:
    flags, precision = found[1], found[3]
    width = min(int(found[2] or 0), MAX_WIDTH)
    digits = min(int(precision or 0), MAX_WIDTH) if "." in found[0] else None
    text = _verb(value, verb, digits)
    if text is None:
        return f"%!{verb}({_go_type(value)}={go_format(value)})"
    if "+" in flags and verb in "dfeg" and not text.startswith(("-", "+")):
        text = "+" + text
    if "-" in flags:
        return text.ljust(width)
    return text.zfill(width) if "0" in flags and verb in "dfegx" else text.rjust(width)


def _verb(value: Any, verb: str, digits: int | None) -> str | None:
    """The formatted value; None where the verb does not apply to its type."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if verb == "v":
        return go_format(value)
    if verb == "t":
        return go_format(value) if isinstance(value, bool) else None
    if verb == "s" and isinstance(value, str):
        return value[:digits]
    if verb == "q" and isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if verb in "dx" and is_number and isinstance(value, int):
        return format(value, verb)
    if verb in "fFeEgG" and is_number and isinstance(value, float):
        return _go_float(value) if not math.isfinite(value) else _fixed(float(value), verb, digits)
    return None


def _fixed(value: float, verb: str, digits: int | None) -> str:
    if verb in "gG" and digits is None:
        return _go_float(value)
    return format(value, f".{6 if digits is None else digits}{verb}")


def _go_type(value: Any) -> str:
    names = {str: "string", float: "float64", bool: "bool", int: "int"}
    return names.get(type(value), "nil" if value is None else "map[string]string")


def _print(*values: Any) -> str:
    """Go's fmt.Sprint: a space between two operands that are not strings."""
    text = ""
    for number, value in enumerate(values):
        apart = number and not isinstance(value, str) and not isinstance(values[number - 1], str)
        text += (" " if apart else "") + go_format(value)
    return text


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, list | tuple) and isinstance(key, int) and 0 <= key < len(value):
            value = value[key]
        elif isinstance(value, Mapping):
            value = value.get(str(key), "")
        else:
            raise ValueError(f"{go_format(value)[:100]} has no element {go_format(key)[:100]}")
    return value


def _equal(first: Any, *others: Any) -> bool:
    return any(first == other for other in others)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(a: Any, b: Any) -> bool:
        if isinstance(a, str) != isinstance(b, str):
            raise ValueError(f"{go_format(a)} and {go_format(b)} cannot be compared")
        return compare(a, b)

    return compared


def is_true(value: Any) -> bool:
    """Go's truth value."""
    return bool(value)


def _and(*values: Any) -> Any:
    return next((value for value in values if not is_true(value)), values[-1])


def _or(*values: Any) -> Any:
    return next((value for value in values if is_true(value)), values[-1])


def _match(pattern: Any, text: Any) -> bool:
    return search(str(pattern), str(text))


def _replace_all(pattern: Any, replacement: Any, text: Any) -> str:
    return replace_all(str(pattern), str(replacement), str(text), MAX_REPLACED)


def _strip_port(text: Any) -> str:
    host, found, port = str(text).rpartition(":")
    return host.strip("[]") if found and port.isdigit() else str(text)


def _strip_domain(text: Any) -> str:
    host, found, port = str(text).partition(":")
    name = host if re.fullmatch(r"[\d.]+", host) else host.partition(".")[0]
    return name + found + port


def _slice(value: Any, start: int = 0, end: int | None = None) -> Any:
    if start < 0 or (end is not None and end > len(value)):
        raise ValueError("the index of slice is out of range")
    return value[start:end]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "humanize": humanize,
    "humanize1024": humanize1024,
    "humanizeDuration": humanize_duration,
    "humanizePercentage": humanize_percentage,
    "humanizeTimestamp": humanize_timestamp,
    "printf": printf,
    "print": _print,
    "println": lambda *values: " ".join(go_format(value) for value in values) + "\n",
    "index": _index,
    "len": lambda value: len(value.encode()) if isinstance(value, str) else len(value),
    "eq": _equal,
    "ne": lambda a, b: a != b,
    "lt": _ordered(lambda a, b: a < b),
    "le": _ordered(lambda a, b: a <= b),
    "gt": _ordered(lambda a, b: a > b),
    "ge": _ordered(lambda a, b: a >= b),
    "and": _and,
    "or": _or,
    "not": lambda value: not is_true(value),
    "match": _match,
    "reReplaceAll": _replace_all,
    "toUpper": lambda text: str(text).upper(),
    "toLower": lambda text: str(text).lower(),
    "title": lambda text: re.sub(r"\b[a-z]", lambda m: m[0].upper(), str(text)),
    "stripPort": _strip_port,
    "stripDomain": _strip_domain,
    "urlquery": lambda text: quote_plus(str(text), safe="-_.~"),
    "parseDuration": lambda text: parse_duration(str(text)),
    "safeHtml": lambda text: text,
    "html": lambda text: html.escape(go_format(text)),
    "js": lambda text: json.dumps(go_format(text))[1:-1],
    "slice": _slice,
    "first": first,
    "label": lambda name, sample: sample["Labels"].get(str(name), ""),
    "value": lambda sample: sample["Value"],
    "strvalue": lambda sample: sample["Labels"].get("__value__", ""),
    "sortByLabel": sort_by_label,
    "args": numbered,
    "graphLink": expression_link(0),
    "tableLink": expression_link(1),
    "toTime": lambda seconds: moment(number(seconds)),
    "toDuration": lambda seconds: span(number(seconds)),
}
