"""Load an Alertmanager configuration file: routes, receivers and inhibition rules, or all its errors.

Pure: the caller reads the file, the templates and the secret files that it names. Fields that are not supported are
reported as errors, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from alerts.errors import MatcherError
from alerts.inhibition import InhibitRule, InhibitSource
from alerts.matching.labels import Matcher, parse_matchers
from alerts.notify.alertmanagers import ALERTING, ALERTMANAGER
from alerts.notify.alertmanagers import problem as alertmanager_problem
from alerts.notify.catalogue import KINDS
from alerts.notify.configuration.intervals import IntervalReader
from alerts.notify.configuration.schema import Schema, Settings
from alerts.notify.configuration.settings import SettingsReader
from alerts.notify.global_fields import GLOBAL
from alerts.notify.model import DEFAULT_RESOLVE_TIMEOUT_SECONDS, Config, IntegrationConfig, ReceiverConfig
from alerts.notify.remote_write import REMOTE_WRITE
from alerts.notify.remote_write import problem as remote_write_problem
from alerts.routing import AlertRoute, Timing, matchers_text, walk
from alerts.time_intervals import Schedule, TimeInterval
from alerts.yaml.fields import Fields
from alerts.yaml.parser import parse as parse_yaml
from alerts.yaml.tree import DocumentError, Node, YamlMapping, YamlScalar, YamlSequence

#: Sections of Prometheus' configuration, which Alertmanager does not have.
PROMETHEUS_SECTIONS = ("alerting", "remote_write")
_TOP = (
    *PROMETHEUS_SECTIONS,
    "global",
    "templates",
    "route",
    "receivers",
    "inhibit_rules",
    "time_intervals",
    "mute_time_intervals",
)
_ROUTE = (
    "receiver",
    "matchers",
    "match",
    "match_re",
    "group_by",
    "group_wait",
    "group_interval",
    "repeat_interval",
    "mute_time_intervals",
    "active_time_intervals",
    "continue",
    "routes",
)
#: The receiver of a configuration without routes: alerts go to other servers only.
NOBODY = "nobody"
_SOURCE = ("source_matchers", "source_match", "source_match_re")
_TARGET = ("target_matchers", "target_match", "target_match_re")
_INHIBIT = ("name", "sources", *_SOURCE, *_TARGET, "equal")


def load(text: str) -> tuple[Config | None, tuple[DocumentError, ...]]:
    """Parse a configuration. Returns None where there is any error, and all errors in order of lines."""
    tree, mistakes = parse_yaml(text)
    loader = _Loader()
    config = loader.config(tree, text) if tree is not None else None
    if tree is None and not mistakes:
        mistakes = (DocumentError(1, 1, "the configuration is empty; it needs a route and receivers"),)
    found = tuple(sorted({*mistakes, *loader.errors}))
    return (None if found else config), found


class _Loader(SettingsReader, IntervalReader):
    def __init__(self) -> None:
        super().__init__()
        self._intervals: dict[str, TimeInterval] = {}
        self._receiver_names: frozenset[str] = frozenset()

    def config(self, tree: Node, text: str) -> Config | None:
        fields = self.mapping(tree, "a configuration", _TOP)
        general = self.settings(fields.get("global", YamlMapping((), tree.mark)), "global", GLOBAL)
        receivers, alertmanagers = self._receivers(fields, general), self._alertmanagers(fields)
        remote_write = self._elements(fields, "remote_write", REMOTE_WRITE, remote_write_problem)
        self._receiver_names = frozenset(receivers)
        self._read_intervals(fields)
        rules = tuple(self._inhibit_rule(node) for node in self.items(fields, "inhibit_rules"))
        patterns = tuple(item.value for item in self.strings(fields, "templates"))
        route = fields.get("route")
        if route is None and not any(name in fields for name in PROMETHEUS_SECTIONS):
            if fields:
                self.add_error(tree.mark, "no routes provided")
            return None
        timeout = general["resolve_timeout"] or DEFAULT_RESOLVE_TIMEOUT_SECONDS
        if route is None:
            receivers = receivers or {NOBODY: ReceiverConfig(NOBODY)}
            root = AlertRoute("{}", next(iter(receivers)), group_by=(), timing=Timing())
        else:
            root = self._root(route)
        external = general["external_labels"]
        return Config(root, receivers, rules, text, patterns, timeout, alertmanagers, external, remote_write)

    def _read_intervals(self, fields: Fields) -> None:
        for name in ("time_intervals", "mute_time_intervals"):
            for node, interval in zip(self.items(fields, name), self.intervals(fields, name), strict=True):
                if interval.name in self._intervals:
                    self.add_error(node.mark, f"time interval {interval.name!r} is not unique")
                self._intervals[interval.name] = interval

    def _alertmanagers(self, fields: Fields) -> tuple[Settings, ...]:
        """The Alertmanagers to which alerts are also sent."""
        section = (
            self.mapping(fields["alerting"], "alerting", tuple(ALERTING)) if "alerting" in fields else {}
        )
        return self._elements(section, "alertmanagers", ALERTMANAGER, alertmanager_problem)

    def _elements(
        self, fields: Fields, name: str, schema: Schema, problem: Callable[[Settings], str | None]
    ) -> tuple[Settings, ...]:
        """A list of mappings that have the fields of `http_config` among theirs."""
        found = []
        for node in self.items(fields, name):
            before = len(self.errors)
            settings = self.settings(node, f"an element of {name}", schema)
            self._check_http(node, settings)
            if len(self.errors) == before and (wrong := problem(settings)):
                self.add_error(node.mark, f"{name}: {wrong}")
            found.append(settings)
        return tuple(found)

    # Receivers.

    def _receivers(self, fields: Fields, general: Settings) -> dict[str, ReceiverConfig]:
        found: dict[str, ReceiverConfig] = {}
        for node in self.items(fields, "receivers"):
            receiver = self.mapping(node, "a receiver", ("name", *KINDS))
            name = self.string(receiver, "name")
            if name is None or not name.value:
                self.add_error(node.mark, "a receiver needs a name")
                continue
            if name.value in found:
                self.add_error(name.mark, f"notification config name {name.value!r} is not unique")
            integrations = [
                self._integration(kind, name.value, number, item, general)
                for kind in KINDS
                for number, item in enumerate(self.items(receiver, kind))
            ]
            found[name.value] = ReceiverConfig(name.value, tuple(integrations))
        return found

    def _integration(
        self, kind: str, receiver: str, number: int, node: Node, general: Settings
    ) -> IntegrationConfig:
        before = len(self.errors)
        known, short = KINDS[kind], kind.removesuffix("_configs")
        settings = self.settings(node, f"an element of {kind}", known.schema, general)
        self._check_http(node, settings.get("http_config"))
        if len(self.errors) == before and (problem := known.problem(settings)):
            self.add_error(node.mark, f"{short}: {problem}")
        return IntegrationConfig(kind, f"{receiver}/{short}[{number}]", settings)

    def _check_http(self, node: Node, http: Mapping[str, Any] | None) -> None:
        if http is None:
            return
        ways = ("basic_auth", "authorization", "oauth2", "bearer_token")
        if sum(bool(http[name]) for name in ways) > 1:
            self.add_error(node.mark, f"http_config: at most one of {', '.join(ways)} may be set")
        if (http["authorization"] or {}).get("type", "").lower() == "basic":
            self.add_error(node.mark, "http_config: use basic_auth for the authorization type Basic")

    # Routes.

    def _root(self, node: Node) -> AlertRoute:
        fields = self.mapping(node, "a route", _ROUTE)
        for name in ("matchers", "match", "match_re"):
            if name in fields and not _is_empty(fields[name]):
                self.add_error(fields[name].mark, f"{name}: the root route must match every alert")
        if self.boolean(fields, "continue"):
            self.add_error(fields["continue"].mark, "continue: the root route has no routes beside it")
        for name in ("mute_time_intervals", "active_time_intervals"):
            if name in fields and not _is_empty(fields[name]):
                self.add_error(fields[name].mark, f"{name}: the root route must notify at any time")
        if isinstance(node, YamlMapping) and self.string(fields, "receiver") is None:
            self.add_error(node.mark, "the root route needs a receiver")
        base = AlertRoute("{}", "", group_by=(), timing=Timing())
        return self._filled(fields, base, (), "{}")

    def _route(self, node: Node, parent: AlertRoute) -> AlertRoute:
        fields = self.mapping(node, "a route", _ROUTE)
        matchers = self._matchers(fields, "matchers", "match", "match_re")
        key = f"{parent.key}/{matchers_text(matchers)}"
        return self._filled(fields, parent, matchers, key)

    def _filled(
        self, fields: Fields, parent: AlertRoute, matchers: tuple[Matcher, ...], key: str
    ) -> AlertRoute:
        """A route with unset fields inherited from its parent."""
        receiver = self.string(fields, "receiver")
        if receiver is not None and receiver.value and receiver.value not in self._receiver_names:
            self.add_error(receiver.mark, f"undefined receiver {receiver.value!r} used in route")
        times = parent.timing
        route = AlertRoute(
            key=key,
            receiver=(receiver.value if receiver else "") or parent.receiver,
            matchers=matchers,
            group_by=self._group_by(fields) if "group_by" in fields else parent.group_by,
            timing=Timing(
                self._time(fields, "group_wait", times.group_wait, 0.0),
                self._time(fields, "group_interval", times.group_interval, 0.001),
                self._time(fields, "repeat_interval", times.repeat_interval, 0.001),
            ),
            continues=bool(self.boolean(fields, "continue")),
            schedule=Schedule(
                self._named_intervals(fields, "mute_time_intervals"),
                self._named_intervals(fields, "active_time_intervals"),
            ),
        )
        return replace(route, routes=tuple(self._route(node, route) for node in self.items(fields, "routes")))

    def _named_intervals(self, fields: Fields, name: str) -> tuple[TimeInterval, ...]:
        found = []
        for text in self.strings(fields, name):
            if text.value not in self._intervals:
                self.add_error(text.mark, f"undefined time interval {text.value!r} used in route")
            else:
                found.append(self._intervals[text.value])
        return tuple(found)

    def _time(self, fields: Fields, name: str, inherited: float, least: float) -> float:
        seconds = self.seconds(fields, name, least)
        return inherited if seconds is None else seconds

    def _group_by(self, fields: Fields) -> tuple[str, ...] | None:
        names = list(self.strings(fields, "group_by"))
        if any(name.value == "..." for name in names):
            if len(names) > 1:
                self.add_error(
                    fields["group_by"].mark,
                    "group_by: '...' (all labels) cannot be combined with other labels",
                )
            return None
        for number, name in enumerate(names):
            if not name.value:
                self.add_error(name.mark, "group_by: a label name must not be empty")
            if name.value in [other.value for other in names[:number]]:
                self.add_error(name.mark, f"group_by: {name.value!r} is given twice")
        return tuple(name.value for name in names)

    # Matchers.

    def _matchers(self, fields: Fields, texts: str, equal: str, patterns: str) -> tuple[Matcher, ...]:
        """Matchers in the current form (a list) and the two deprecated forms (mappings of values and of patterns)."""
        found: list[Matcher] = []
        for text in self._matcher_texts(fields, texts):
            try:
                found.extend(parse_matchers(text.value))
            except MatcherError as error:
                self.add_error(text.place(1, error.column), f"{texts}: {error}")
        for name, operator in ((equal, "="), (patterns, "=~")):
            for key, value in self.pairs(fields, name):
                found.extend(self._pair(key, operator, value))
            self._refuse_null_patterns(fields, patterns)
        return tuple(found)

    def _refuse_null_patterns(self, fields: Fields, name: str) -> None:
        """A pattern without a value would match every alert without that label."""
        node = fields.get(name)
        for key, value in node.entries if isinstance(node, YamlMapping) else ():
            if isinstance(value, YamlScalar) and value.is_null:
                self.add_error(value.mark, f"{name}: {key.value} has no pattern")

    def _matcher_texts(self, fields: Fields, name: str) -> Sequence[YamlScalar]:
        node = fields.get(name)
        if isinstance(node, YamlScalar) and not node.is_null:
            return [node]
        return (
            list(self.strings(fields, name)) if isinstance(node, YamlSequence) else self._no_list(node, name)
        )

    def _no_list(self, node: Node | None, name: str) -> Sequence[YamlScalar]:
        if isinstance(node, YamlMapping):
            self.add_error(node.mark, f'{name}: expected a list of matchers such as [team="data"]')
        return []

    def _pair(self, key: YamlScalar, operator: str, value: YamlScalar) -> list[Matcher]:
        if not key.value:
            self.add_error(key.mark, "a label name must not be empty")
            return []
        try:
            return [Matcher(key.value, operator, value.value)]
        except MatcherError as error:
            self.add_error(value.mark, f"the pattern of {key.value} is invalid: {error}")
            return []

    def _inhibit_rule(self, node: Node) -> InhibitRule:
        fields = self.mapping(node, "an inhibition rule", _INHIBIT)
        sources = self._matchers(fields, *_SOURCE)
        targets = self._matchers(fields, *_TARGET)
        name, equal = self.string(fields, "name"), tuple(t.value for t in self.strings(fields, "equal"))
        further = tuple(self._inhibit_source(item) for item in self.items(fields, "sources"))
        if further and (sources or equal):
            self.add_error(
                node.mark, "sources cannot be combined with source_matchers, source_match or equal"
            )
        if further:
            (sources, equal), further = (further[0].matchers, further[0].equal), further[1:]
        return InhibitRule(sources, targets, equal, name.value if name else "", further)

    def _inhibit_source(self, node: Node) -> InhibitSource:
        fields = self.mapping(node, "an element of sources", ("matchers", "equal"))
        matchers = self._matchers(fields, "matchers", "", "")
        if all(matcher.matches({}) for matcher in matchers):
            self.add_error(node.mark, "a source needs a matcher that does not match the empty text")
        return InhibitSource(matchers, tuple(text.value for text in self.strings(fields, "equal")))


def _is_empty(node: Node) -> bool:
    if isinstance(node, YamlScalar):
        return node.is_null or not node.value
    return not (node.items if isinstance(node, YamlSequence) else node.entries)


def unused_receivers(config: Config) -> tuple[str, ...]:
    """Names of receivers that no route uses."""
    used = {route.receiver for route in walk(config.route)}
    return tuple(name for name in config.receivers if name not in used)
