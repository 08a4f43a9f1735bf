"""Fields of `remote_write`, a section of Prometheus' configuration."""

from __future__ import annotations

from alerts.matching.labels import Matcher
from alerts.notify.configuration.schema import Schema, Settings, duration, pairs, text, texts
from alerts.notify.http.fields import HTTP_CONFIG, header_problem, url
from alerts.promql.errors import ParseError
from alerts.promql.syntax.nodes import Selector, Shift
from alerts.promql.syntax.parser import parse

MIN_INTERVAL_SECONDS = 1.0
#: Headers that the protocol sets.
RESERVED_HEADERS = frozenset(
    {"content-encoding", "content-type", "x-prometheus-remote-write-version", "authorization", "host"}
)

REMOTE_WRITE: Schema = {
    "url": url(required=True),
    "name": text(),
    "remote_timeout": duration(30.0),
    "headers": pairs(),
    "interval": duration(15.0),
    "match": texts(),
    **HTTP_CONFIG,
}


def problem(settings: Settings) -> str | None:
    """Why settings of `remote_write` are invalid; None where they are not."""
    if settings["interval"] < MIN_INTERVAL_SECONDS:
        return f"interval must be at least {MIN_INTERVAL_SECONDS:g}s"
    for name, value in settings["headers"].items():
        if name.lower() in RESERVED_HEADERS:
            return f"headers: {name} cannot be set"
        if wrong := header_problem(value):
            return f"headers: {name}: {wrong}"
    try:
        selectors(settings)
    except ValueError as error:
        return f"match: {error}"
    return None


def selectors(settings: Settings) -> tuple[tuple[Matcher, ...], ...]:
    """The matchers of each selector of `match`. Raises ValueError for one that is none."""
    return tuple(map(_selector, settings["match"]))


def _selector(given: str) -> tuple[Matcher, ...]:
    try:
        node = parse(given)
    except ParseError as error:
        raise ValueError(f"{given[:80]!r}: {error.message}") from None
    if not isinstance(node, Selector) or node.range is not None or node.shift != Shift():
        raise ValueError(f"{given[:80]!r} is not a selector without a range")
    return node.matchers
