"""Responses in the format of Prometheus 3: values, rules, alerts, metadata and errors. Pure.

Called by `controlplane.api.routes.prometheus`. Clients of Prometheus read these bodies, errors included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from operator import add
from typing import Any

import numpy as np

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.series import Floats, Matrix, Scalar, String, Value
from alerts.rules.model import Rule, RuleGroup, RuleKind
from alerts.state import Alert, AlertState
from controlplane.alerting.views import GroupView, RuleView
from controlplane.errors import ControlPlaneError
from listeners.protocol.catalogue import METRICS, SOURCE_METRICS, STATE_METRICS, Metric
from listeners.protocol.wire import rfc3339

STATUS = {"bad_data": 400, "not_found": 404, "execution": 422, "timeout": 503, "unavailable": 503}
#: The Prometheus version whose API is served. Clients enable features by it: Grafana requests label values with
#: `match[]` from 2.24 on, and takes a server without `application` and `features` for Prometheus itself. The server's
#: own version would be too low; it is returned as the revision.
VERSION = "3.0.0"
NEVER = "0001-01-01T00:00:00Z"
CUT = "results truncated due to limit"


class PrometheusError(ControlPlaneError):
    """An error of Prometheus' API; `code` is its errorType, a key of STATUS."""

    def __init__(self, kind: str, message: str):
        super().__init__(message, code=kind)
        self.status = STATUS[kind]


def bad_parameter(name: str, problem: object) -> PrometheusError:
    return PrometheusError("bad_data", f'invalid parameter "{name}": {problem}')


def failure(error: ControlPlaneError) -> dict[str, str]:
    """The body of an error; other errors get the errorType of their status."""
    kinds = {status: kind for kind, status in STATUS.items()}
    kind = error.code if error.code in STATUS else kinds.get(error.status, "bad_data")
    return {"status": "error", "errorType": kind, "error": str(error)}


def success(data: str, warnings: Sequence[str] = (), infos: Sequence[str] = ()) -> bytes:
    """The body around `data`, which is encoded JSON."""
    notes = {"warnings": warnings, "infos": infos}
    noted = "".join(f',"{kind}":{_json(list(texts))}' for kind, texts in notes.items() if texts)
    return f'{{"status":"success","data":{data}{noted}}}'.encode()


def listing(found: Sequence[Any], limit: int, warnings: Sequence[str] = ()) -> bytes:
    """A list as `data`, truncated to `limit` unless that is 0."""
    if limit and len(found) > limit:
        return success(_json(found[:limit]), [*warnings, CUT])
    return success(_json(found), warnings)


def _json(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


# -- values ----------------------------------------------------------------------------------------


def number(value: float) -> str:
    """A sample as Go prints it: 'f' and shortest, but 'e' below 1e-6 and from 1e21 on; `NaN`, `+Inf`."""
    text = repr(value)
    if text.endswith(".0"):
        return text[:-2]
    return _rare(value, text) if "e" in text or "n" in text else text


def _rare(value: float, text: str) -> str:
    if "n" in text:
        return {"nan": "NaN", "inf": "+Inf"}.get(text, "-Inf")
    return text if abs(value) < 1e-6 or abs(value) >= 1e21 else format(Decimal(text), "f")


def scientific(value: float) -> str:
    """An alert's value as Go prints it with 'e': `1.2345e+03`."""
    text = repr(value)
    if "n" in text:
        return _rare(value, text)
    mantissa, _, exponent = format(Decimal(text).normalize(), "e").partition("e")
    return f"{mantissa}e{int(exponent):+03d}"


def moment(seconds: float) -> str:
    """A time in JSON: Unix seconds, with three digits of a fraction where there is one."""
    return f"{seconds:.3f}".removesuffix(".000")


def result(
    value: Value, at: float, limit: int = 0, warnings: Sequence[str] = (), infos: Sequence[str] = ()
) -> bytes:
    """The answer to a query: the value at `at`, at most `limit` series of it where that is not 0."""
    cut = bool(limit) and isinstance(value, list) and len(value) > limit
    kind, pieces = _result(value, at, limit or None)
    data = f'{{"resultType":"{kind}","result":[{",".join(pieces)}]}}'
    return success(data, [*warnings, CUT] if cut else warnings, infos)


def _result(value: Value, at: float, limit: int | None) -> tuple[str, Iterator[str]]:
    match value:
        case Scalar():
            return "scalar", iter([moment(at), f'"{number(value.value)}"'])
        case String():
            return "string", iter([moment(at), _json(value.value)])
        case Matrix():
            return "matrix", _matrix(value, limit)
    now = moment(at)
    samples = islice(value, limit)
    return "vector", (
        f'{{"metric":{_metric(s.labels)},"value":[{now},"{number(s.value)}"]}}' for s in samples
    )


def _matrix(matrix: Matrix, limit: int | None) -> Iterator[str]:
    in_order = sorted(matrix, key=lambda item: sorted(item.labels.items()))
    times, before = b"", [""]
    for series in islice(in_order, limit):
        if times != (own := series.times.tobytes()):  # nearly all series share their times
            times, before = own, [f'[{moment(at)},"' for at in series.times.tolist()]
        yield f'{{"metric":{_metric(series.labels)},"values":[{_points(before, series.values)}]}}'


def _points(before: Sequence[str], values: Floats) -> str:
    """The pairs of a series; a large response spends most of its time here."""
    texts = map(repr if _plain(values) else number, values.tolist())
    return ('"],'.join(map(add, before, texts)) + '"]').replace('.0"', '"')


def _plain(values: Floats) -> bool:
    """Whether Python and Go print all of these alike, except for a `.0` at the end."""
    size = np.abs(values)
    return bool(np.all((values == 0) | ((size >= 1e-4) & (size < 1e16))))


def _metric(labels: Labels) -> str:
    return _json(dict(sorted(labels.items())))


# -- metadata --------------------------------------------------------------------------------------


def metadata(name: str = "", limit: int = -1, each: int = -1) -> bytes:
    """Type, help and unit of the catalogue's metrics or of one; at most `limit` metrics, below 0 all."""
    known: Iterable[Metric] = (*METRICS, *STATE_METRICS.values(), *SOURCE_METRICS.values())
    wanted = (metric for metric in known if not name or metric.name == name)
    described = {
        m.name: [{"type": m.type, "help": m.help, "unit": m.unit}][: each if each > 0 else None]
        for m in wanted
    }
    return success(_json(dict(islice(described.items(), limit if limit >= 0 else None))))


def build_info(version: str) -> bytes:
    """The build information by which clients identify the server; see VERSION."""
    about = {"version": VERSION, "revision": version, "branch": "spark-controlplane"}
    return success(_json({**about, "buildUser": "", "buildDate": "", "goVersion": ""}))


# -- rules and alerts ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RulesWanted:
    """The filter of `GET rules`; empty: all. `page`: maximum of groups (0: all), beginning with that of `token`."""

    kind: RuleKind | None = None
    names: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    labels: tuple[tuple[Matcher, ...], ...] = ()
    with_alerts: bool = True
    page: int = 0
    token: str = ""


def rules(views: Iterable[GroupView], wanted: RulesWanted) -> bytes:
    """The groups with a matching rule, by file and name."""
    shown = []
    for view in sorted(views, key=lambda view: (view.group.source, view.group.name)):
        if _group_wanted(view.group, wanted) and (
            found := [r for r in view.rules if _wanted(view, r, wanted)]
        ):
            shown.append((_token(view.group), view, found))
    shown, following = _page(shown, wanted)
    data: dict[str, Any] = {"groups": [_group(view, found, wanted) for _, view, found in shown]}
    return success(_json({**data, "groupNextToken": following} if following else data))


Shown = list[tuple[str, GroupView, list[RuleView]]]


def _page(shown: Shown, wanted: RulesWanted) -> tuple[Shown, str]:
    """The groups of a page and the token of the next page, empty on the last."""
    if wanted.token:
        tokens = [token for token, _, _ in shown]
        if wanted.token not in tokens:
            problem = f"invalid group_next_token '{wanted.token[:80]}'. were rule groups changed?"
            raise bad_parameter("group_next_token", problem)
        shown = shown[tokens.index(wanted.token) :]
    if not wanted.page or len(shown) <= wanted.page:
        return shown, ""
    return shown[: wanted.page], shown[wanted.page][0]


def _token(group: RuleGroup) -> str:
    return hashlib.sha1(group.key.encode(), usedforsecurity=False).hexdigest()


def _group_wanted(group: RuleGroup, wanted: RulesWanted) -> bool:
    named = not wanted.groups or group.name in wanted.groups
    return named and (not wanted.files or group.source in wanted.files)


def _wanted(view: GroupView, item: RuleView, wanted: RulesWanted) -> bool:
    rule, labels = item.rule, _labels(view.group, item.rule)
    return (
        wanted.kind in (None, rule.kind)
        and (not wanted.names or rule.name in wanted.names)
        and (not wanted.labels or any(matches(matchers, labels) for matchers in wanted.labels))
    )


def _labels(group: RuleGroup, rule: Rule) -> dict[str, str]:
    return {**group.labels, **rule.labels}


def _group(view: GroupView, found: Sequence[RuleView], wanted: RulesWanted) -> dict[str, Any]:
    return {
        "name": view.group.name,
        "file": view.group.source,
        "rules": [_rule(view.group, item, wanted.with_alerts) for item in found],
        "interval": view.interval,
        "limit": view.group.limit,
        **_evaluated(view),
    }


def _rule(group: RuleGroup, view: RuleView, with_alerts: bool) -> dict[str, Any]:
    rule = view.rule
    health = "unknown" if view.evaluated_at is None else "err" if view.error else "ok"
    evaluation = {"health": health, **({"lastError": view.error} if view.error else {}), **_evaluated(view)}
    stated = {"name": rule.name, "query": rule.expr, "labels": _labels(group, rule)}
    if rule.kind is RuleKind.RECORD:
        return {**stated, **evaluation, "type": "recording"}
    current = [_alert(alert) for alert in present(view.alerts)]
    return {
        "state": _state(view.alerts),
        **stated,
        "duration": rule.for_,
        "keepFiringFor": rule.keep_firing_for,
        "annotations": dict(rule.annotations),
        **({"alerts": current} if with_alerts else {}),
        **evaluation,
        "type": "alerting",
    }


def _state(alerts: Sequence[Alert]) -> str:
    states = {alert.state for alert in alerts}
    active = (AlertState.FIRING, AlertState.PENDING)
    return next((state.value for state in active if state in states), "inactive")


def _evaluated(view: GroupView | RuleView) -> dict[str, Any]:
    at = NEVER if view.evaluated_at is None else rfc3339(view.evaluated_at)
    return {"evaluationTime": view.seconds or 0, "lastEvaluation": at}


def present(alerts: Iterable[Alert]) -> Iterator[Alert]:
    """Pending and firing alerts: Prometheus does not list resolved ones."""
    return (alert for alert in alerts if alert.state is not AlertState.RESOLVED)


def alerts(found: Iterable[Alert]) -> bytes:
    return success(_json({"alerts": [_alert(alert) for alert in present(found)]}))


def _alert(alert: Alert) -> dict[str, Any]:
    since: Mapping[str, str] = {}
    if alert.gone_since is not None:
        since = {"keepFiringSince": rfc3339(alert.gone_since)}
    return {
        "labels": dict(sorted(alert.labels.items())),
        "annotations": dict(alert.annotations),
        "state": alert.state.value,
        "activeAt": rfc3339(alert.active_at),
        **since,
        "value": scientific(alert.value),
    }
