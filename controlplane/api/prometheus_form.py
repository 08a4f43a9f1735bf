"""Request parameters of Prometheus' API from the URL and the form body, read by Prometheus' rules. Pure.

Unknown parameters are ignored. The first of several values counts, and the form's before the URL's. Every mistake is a
`bad_data` error that names the parameter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qsl

from alerts.durations import parse_duration
from alerts.matching.labels import Matcher
from alerts.promql.errors import ParseError
from alerts.promql.syntax.checks import check
from alerts.promql.syntax.literals import MAX_TIMESTAMP_SECONDS
from alerts.promql.syntax.nodes import Node, Selector, Shift, ValueType
from alerts.promql.syntax.parser import parse
from alerts.rules.model import RuleKind
from controlplane.api.prometheus import PrometheusError, RulesWanted, bad_parameter

MAX_PARAMETERS = 1000
MAX_SELECTORS = 50
MAX_POINTS = 11_000
#: Go stores a duration as nanoseconds in 63 bits.
MAX_DURATION_SECONDS = 2**63 / 1e9
#: How a path writes a label name that is no identifier: `U__a_2e_b` is `a.b`.
ESCAPED_NAME = "U__"
_ESCAPE = re.compile(r"__|_([0-9a-fA-F]{1,6})_")
_NUMBER = re.compile(
    r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?|nan", re.ASCII | re.IGNORECASE
)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_WHETHER = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


@dataclass(frozen=True)
class Form:
    """The parameters of a request; an absent parameter reads as an empty text."""

    values: Mapping[str, tuple[str, ...]]

    def text(self, name: str) -> str:
        return self.texts(name)[0] if self.texts(name) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        return self.values.get(name, ())

    def moment(self, name: str, default: float | None = None) -> float:
        """RFC 3339 or Unix seconds, to the millisecond."""
        text = self.text(name)
        if not text and default is not None:
            return default
        try:
            seconds = _seconds_at(text)
        except ValueError:
            raise bad_parameter(name, f'cannot parse "{text[:80]}" to a valid timestamp') from None
        return round(seconds, 3)

    def duration(self, name: str, default: float | None = None) -> float:
        """`90`, `1.5` or `1m30s`, in seconds."""
        text = self.text(name)
        if not text and default is not None:
            return default
        problem = f'cannot parse "{text[:80]}" to a valid duration'
        try:
            seconds = float(text) if _NUMBER.fullmatch(text) else parse_duration(text)
        except ValueError:
            raise bad_parameter(name, problem) from None
        if abs(seconds) > MAX_DURATION_SECONDS:
            raise bad_parameter(name, f"{problem}. It overflows int64")
        return seconds

    def limit(self) -> int:
        """Limit of the number of series, names or values; 0: no limit."""
        text = self.text("limit")
        found = _whole(text) if text else 0
        if found is None:
            raise bad_parameter("limit", f'cannot parse "{text[:80]}" to a whole number')
        if found < 0:
            raise bad_parameter("limit", "limit must be non-negative")
        return found

    def count(self, name: str) -> int:
        """A limit of the metadata; below 0: no limit."""
        found = _whole(self.text(name)) if self.text(name) else -1
        if found is None:
            raise PrometheusError("bad_data", f"{name} must be a number")
        return found

    def selectors(self) -> tuple[tuple[Matcher, ...], ...]:
        """The matchers of each `match[]`."""
        texts = self.texts("match[]")
        if len(texts) > MAX_SELECTORS:
            raise bad_parameter("match[]", f"at most {MAX_SELECTORS} selectors may be given")
        return tuple(_selector(text) for text in texts)


def read(query: str, body: bytes = b"") -> Form:
    """Parameters of the query string and of a body in `application/x-www-form-urlencoded`."""
    values: dict[str, tuple[str, ...]] = {}
    for text in (body.decode("utf-8", "replace"), query):
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
        except ValueError:
            problem = f"error parsing form values: more than {MAX_PARAMETERS} parameters"
            raise PrometheusError("bad_data", problem) from None
        for name, value in pairs:
            values[name] = (*values.get(name, ()), value)
    return Form(values)


def label_name(text: str) -> str:
    """The label name that a path names, with Prometheus' escapes resolved."""
    if not text.startswith(ESCAPED_NAME):
        return text
    try:
        return _ESCAPE.sub(lambda e: chr(int(e[1], 16)) if e[1] else "_", text.removeprefix(ESCAPED_NAME))
    except (ValueError, OverflowError):
        raise PrometheusError("bad_data", f'invalid label name: "{text[:80]}"') from None


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None


def _seconds_at(text: str) -> float:
    if _NUMBER.fullmatch(text):
        seconds = float(text)
    elif _RFC3339.fullmatch(text):
        seconds = datetime.fromisoformat(text).timestamp()
    else:
        raise ValueError(text)
    if not abs(seconds) <= MAX_TIMESTAMP_SECONDS:
        raise ValueError(text)
    return seconds


def _selector(text: str) -> tuple[Matcher, ...]:
    try:
        node = parse(text)
    except ParseError as error:
        raise bad_parameter("match[]", _located(error)) from None
    if not isinstance(node, Selector) or node.range is not None or node.shift != Shift():
        raise bad_parameter("match[]", 'must be a selector without a range, such as up{job="x"}')
    return node.matchers


def _located(error: ParseError) -> str:
    return f"{error.line}:{error.column}: parse error: {error.message}"


def unreadable(error: ParseError) -> PrometheusError:
    """The error for an invalid expression."""
    return bad_parameter("query", _located(error))


def require_range_query(node: Node) -> None:
    """Reject expressions that have no single value per series and step in a range query."""
    kind = check(node)
    if kind not in (ValueType.SCALAR, ValueType.VECTOR):
        message = f'invalid expression type "{kind.value}" for range query, must be Scalar or instant Vector'
        raise bad_parameter("query", message)


@dataclass(frozen=True)
class QueryRange:
    """The times of a range query, in seconds."""

    start: float
    end: float
    step: float


def stretch(form: Form) -> QueryRange:
    """`start`, `end` and `step`; at most 11 000 points per series."""
    found = QueryRange(form.moment("start"), form.moment("end"), form.duration("step"))
    if found.end < found.start:
        raise bad_parameter("end", "end timestamp must not be before start time")
    if not found.step >= 0.001:  # nor NaN; times count in milliseconds
        problem = "zero or negative query resolution step widths are not accepted. Try a positive integer"
        raise bad_parameter("step", problem)
    if math.floor((found.end - found.start) / found.step) > MAX_POINTS:
        problem = f"exceeded maximum resolution of {MAX_POINTS:,} points per timeseries."
        raise PrometheusError("bad_data", f"{problem} Try decreasing the query resolution (?step=XX)")
    return found


def rules_wanted(form: Form) -> RulesWanted:
    """The filter of `GET rules`."""
    kinds = {"": None, "alert": RuleKind.ALERT, "record": RuleKind.RECORD}
    kind, without = form.text("type").lower(), form.text("exclude_alerts")
    if kind not in kinds:
        raise bad_parameter("type", f'not supported value "{kind[:80]}"')
    if without and without not in _WHETHER:
        raise bad_parameter("exclude_alerts", f'cannot parse "{without[:80]}" as true or false')
    page = _whole(form.text("group_limit")) if form.text("group_limit") else 0
    if page is None or page < 0 or (form.text("group_limit") and page == 0):
        raise bad_parameter("group_limit", "group_limit must be a number above 0")
    if form.text("group_next_token") and not page:
        problem = "group_limit needs to be present in order to paginate over the groups"
        raise bad_parameter("group_next_token", problem)
    return RulesWanted(
        kinds[kind],
        form.texts("rule_name[]"),
        form.texts("rule_group[]"),
        form.texts("file[]"),
        form.selectors(),
        not _WHETHER.get(without, False),
        page,
        form.text("group_next_token"),
    )
