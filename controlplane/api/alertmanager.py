"""Alerts, silences and the configuration in the format of Alertmanager's API v2. Pure.

The format is that of `api/v2/openapi.yaml` of prometheus/alertmanager, which amtool and karma read. Pending alerts are
not shown, as Alertmanager receives an alert only when it fires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from alerts.errors import MatcherError
from alerts.grouping import Group
from alerts.matching.labels import Matcher, matches
from alerts.matching.regex import compile_pattern
from alerts.notify.catalogue import KINDS
from alerts.notify.config import PROMETHEUS_SECTIONS
from alerts.notify.configuration.settings import plain
from alerts.notify.global_fields import GLOBAL
from alerts.notify.http.fields import address_problem
from alerts.notify.masking import masked
from alerts.notify.model import Config
from alerts.promql.functions.relabeling import is_label_name
from alerts.silences import Silence, SilenceState
from alerts.state import AlertState, ends_at
from alerts.yaml.parser import parse as parse_yaml
from controlplane.alerting.received_alerts import PostedAlert
from controlplane.alerting.views import AlertView
from controlplane.api.alerting import MAX_MATCHERS, matchers_of, seconds
from controlplane.errors import BadRequest
from listeners.protocol.wire import rfc3339

Json = dict[str, Any]
MAX_LABELS = 200
#: The Alertmanager version whose API is served. Clients request the version and reject old ones.
VERSION = "0.25.0"
#: The metric from which karma reads the version.
BUILD_INFO = f"""# HELP alertmanager_build_info The version of Alertmanager's API that is served here.
# TYPE alertmanager_build_info gauge
alertmanager_build_info{{version="{VERSION}"}} 1
"""
#: Order of silences: active, pending, expired.
ORDER = (SilenceState.ACTIVE, SilenceState.PENDING, SilenceState.EXPIRED)


class PostableMatcher(BaseModel):
    model_config = ConfigDict(strict=True)

    name: str = Field(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")
    value: str
    isRegex: bool
    isEqual: bool = True


class PostableSilence(BaseModel):
    """A silence as amtool sends it; with `id` it changes that silence."""

    model_config = ConfigDict(strict=True)

    id: str | None = None
    matchers: list[PostableMatcher] = Field(min_length=1, max_length=MAX_MATCHERS)
    startsAt: str
    endsAt: str
    createdBy: str = Field(max_length=200)
    comment: str = Field(max_length=2000)


class PostableAlert(BaseModel):
    """An alert as Prometheus and amtool send it. Fields that it does not name are ignored, as in Alertmanager."""

    model_config = ConfigDict(strict=True)

    labels: dict[str, str] = Field(min_length=1, max_length=MAX_LABELS)
    annotations: dict[str, str] = Field(default={}, max_length=MAX_LABELS)
    startsAt: str | None = None
    endsAt: str | None = None
    generatorURL: str = ""


@dataclass(frozen=True)
class Filter:
    """The filter of a request for alerts, by Alertmanager's parameters."""

    matchers: tuple[Matcher, ...] = ()
    active: bool = True
    silenced: bool = True
    inhibited: bool = True
    receives: Callable[[str], bool] = lambda receiver: True

    def passes(self, view: AlertView) -> bool:
        if view.alert.state is not AlertState.FIRING or not matches(self.matchers, view.alert.labels):
            return False
        if not view.muted:
            return self.active
        return (self.silenced or not view.silenced_by) and (self.inhibited or not view.inhibited_by)


def filter_of(
    texts: Iterable[str], active: bool, silenced: bool, inhibited: bool, receiver: str | None
) -> Filter:
    """The filter of these parameters; BadRequest for an invalid matcher or receiver pattern."""
    asked = Filter(matchers_of("filter", texts), active, silenced, inhibited)
    if not receiver:
        return asked
    try:
        return replace(asked, receives=compile_pattern(receiver))
    except MatcherError as error:
        raise BadRequest(f"receiver: {error}") from None


# -- alerts ----------------------------------------------------------------------------------------


def alerts(views: Iterable[AlertView], asked: Filter, page_url: str, now: float) -> list[Json]:
    """Firing alerts that pass the filter, by fingerprint."""
    found = [v for v in views if asked.passes(v) and any(map(asked.receives, v.receivers))]
    return [alert(view, page_url, now) for view in sorted(found, key=lambda v: v.alert.fingerprint)]


def alert(view: AlertView, page_url: str, now: float) -> Json:
    item = view.alert
    return {
        "labels": dict(item.labels),
        "annotations": dict(item.annotations),
        "fingerprint": item.fingerprint,
        "startsAt": rfc3339(item.active_at if item.fired_at is None else item.fired_at),
        "endsAt": rfc3339(ends_at(item, now, interval=0.0)),
        "updatedAt": rfc3339(now),
        "generatorURL": item.generator_url or f"{page_url}/alerts?alert={item.fingerprint}",
        "receivers": [{"name": name} for name in view.receivers],
        "status": {
            "state": "suppressed" if view.muted else "active",
            "silencedBy": list(view.silenced_by),
            "inhibitedBy": [other.fingerprint for other in view.inhibited_by],
            "mutedBy": [],
        },
    }


def groups(
    found: Iterable[Group], views: Iterable[AlertView], asked: Filter, page_url: str, now: float
) -> list[Json]:
    """Groups with an alert that passes the filter, by their labels."""
    passing = {view.alert.fingerprint: view for view in views if asked.passes(view)}
    named = sorted(found, key=lambda g: (sorted(g.labels.items()), g.receiver, g.key))
    shown = (_group(g, passing, page_url, now) for g in named if asked.receives(g.receiver))
    return [group for group in shown if group["alerts"]]


def _group(group: Group, passing: Mapping[str, AlertView], page_url: str, now: float) -> Json:
    inside = (passing[key] for key in sorted(group.alerts) if key in passing)
    return {
        "labels": dict(group.labels),
        "receiver": {"name": group.receiver},
        "alerts": [alert(view, page_url, now) for view in inside],
    }


def posted_alerts(document: Any, app: str | None, now: float) -> tuple[list[PostedAlert], list[str]]:
    """The valid alerts of a body, and what is wrong with the others. `app`: the only application they may name."""
    if not isinstance(document, list):
        raise BadRequest("the body must be a list of alerts")
    found, mistakes = [], []
    for number, item in enumerate(document):
        try:
            found.append(_posted(PostableAlert.model_validate(item), app))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            mistakes.append(f"alert {number}: {'.'.join(map(str, first['loc']))}: {first['msg']}"[:300])
        except BadRequest as error:
            mistakes.append(f"alert {number}: {error}"[:300])
    return found, mistakes


def _posted(item: PostableAlert, app: str | None) -> PostedAlert:
    labels = {name: value for name, value in item.labels.items() if value}
    if invalid := [name for name in (*labels, *item.annotations) if not is_label_name(name)]:
        raise BadRequest(f"invalid label name {invalid[0][:80]!r}")
    if not labels:
        raise BadRequest("at least one label pair required")
    if app is not None and labels.get("app") != app:
        raise BadRequest(f"this token posts alerts of the application {app!r} only")
    starts_at, ends_at = _time("startsAt", item.startsAt), _time("endsAt", item.endsAt)
    if starts_at is not None and ends_at is not None and starts_at > ends_at:
        raise BadRequest("start time must be before end time")
    url = item.generatorURL if address_problem(item.generatorURL) is None else ""
    return PostedAlert(labels, item.annotations, starts_at, ends_at, url)


def _time(what: str, text: str | None) -> float | None:
    """A time; None where it is absent or Go's zero time, which stands for absent."""
    return None if not text or text.startswith("0001-01-01T") else seconds(what, text)


# -- silences --------------------------------------------------------------------------------------


def silences(found: Iterable[Silence], texts: Iterable[str], now: float) -> list[Json]:
    """Silences that match the filter by Alertmanager's rules, in Alertmanager's order."""
    wanted = set(matchers_of("filter", texts))
    shown = [item for item in found if wanted <= set(item.matchers)]
    return [silence(item, now) for item in sorted(shown, key=lambda item: _place(item, now))]


def _place(item: Silence, now: float) -> tuple[int, float]:
    state = item.state(now)
    times = {SilenceState.ACTIVE: item.ends_at, SilenceState.PENDING: item.starts_at}
    return ORDER.index(state), times.get(state, -item.ends_at)


def silence(item: Silence, now: float) -> Json:
    return {
        "id": item.id,
        "matchers": [_matcher(matcher) for matcher in item.matchers],
        "startsAt": rfc3339(item.starts_at),
        "endsAt": rfc3339(item.ends_at),
        "updatedAt": rfc3339(item.updated_at),
        "createdBy": item.created_by,
        "comment": item.comment,
        "status": {"state": item.state(now).value},
    }


def _matcher(matcher: Matcher) -> Json:
    kind, equal = matcher.operator.endswith("~"), matcher.operator.startswith("=")
    return {"name": matcher.name, "value": matcher.value, "isRegex": kind, "isEqual": equal}


def silence_of(posted: PostableSilence, old: Silence | None, now: float) -> Silence:
    """The posted silence; `old` is the silence to change. BadRequest names the invalid field."""
    starts_at = seconds("startsAt", posted.startsAt) or 0.0
    if old is not None and rfc3339(starts_at) == rfc3339(old.starts_at):
        starts_at = old.starts_at  # the client saw it rounded to milliseconds
    elif old is None:
        starts_at = max(starts_at, now)
    return Silence(
        id="",
        matchers=tuple(_matcher_of(matcher) for matcher in posted.matchers),
        starts_at=starts_at,
        ends_at=seconds("endsAt", posted.endsAt) or 0.0,
        created_by=posted.createdBy,
        comment=posted.comment,
        updated_at=now,
    )


OPERATORS = {(True, False): "=", (False, False): "!=", (True, True): "=~", (False, True): "!~"}


def _matcher_of(posted: PostableMatcher) -> Matcher:
    try:
        return Matcher(posted.name, OPERATORS[posted.isEqual, posted.isRegex], posted.value)
    except MatcherError as error:
        raise BadRequest(f"matchers: the pattern of {posted.name[:80]} is invalid: {error}") from None


# -- status ----------------------------------------------------------------------------------------


def status(config: Config, ours: str, began_at: float) -> Json:
    """The body of `status`; `ours`: this server's own version."""
    info = dict.fromkeys(("buildDate", "buildUser", "goVersion", "revision"), "")
    return {
        "cluster": {"status": "disabled", "peers": []},
        "versionInfo": {"version": VERSION, "branch": f"spark-controlplane {ours}", **info},
        "config": {"original": written(config)},
        "uptime": rfc3339(began_at),
    }


def written(config: Config) -> str:
    """The configuration as its author wrote it, without secrets; Alertmanager can read it."""
    tree, _ = parse_yaml(config.original)
    document = plain(tree) if tree is not None else {}
    document = {name: value for name, value in document.items() if name not in PROMETHEUS_SECTIONS}
    if document.get("global"):
        general = {name: value for name, value in document["global"].items() if name != "external_labels"}
        document["global"] = masked(GLOBAL, general)
    if "route" not in document:
        document["route"] = {"receiver": config.route.receiver}
        document.setdefault("receivers", [{"name": name} for name in config.receivers])
    document["receivers"] = [_receiver(receiver) for receiver in document.get("receivers") or []]
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)
    return text


def _receiver(receiver: Json) -> Json:
    """A receiver with the secrets of its integrations replaced."""
    return {
        name: [masked(KINDS[name].schema, item) for item in value or []] if name in KINDS else value
        for name, value in receiver.items()
    }
