"""Load an Alertmanager configuration file: routes, receivers and inhibition rules, or all its errors.

Pure: the caller reads the file and the secret files that it names. Alertmanager features that are not
supported are reported as errors, never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alerts.errors import MatcherError
from alerts.inhibition import InhibitRule
from alerts.matching.labels import Matcher, parse_matchers
from alerts.notify.receivers.webhook import address_problem
from alerts.routing import AlertRoute, Timing, matchers_text, walk
from alerts.yaml.fields import FieldReader, Fields
from alerts.yaml.parser import parse as parse_yaml
from alerts.yaml.tree import DocumentError, Node, YamlMapping, YamlScalar, YamlSequence

_TOP = ("global", "route", "receivers", "inhibit_rules")
_ROUTE = (
    "receiver",
    "matchers",
    "match",
    "match_re",
    "group_by",
    "group_wait",
    "group_interval",
    "repeat_interval",
    "continue",
    "routes",
)
_INHIBIT = (
    "name",
    "source_matchers",
    "source_match",
    "source_match_re",
    "target_matchers",
    "target_match",
    "target_match_re",
    "equal",
)
_WEBHOOK = ("url", "url_file", "send_resolved", "max_alerts", "timeout", "http_config")
_UNSUPPORTED = {
    "a configuration": ("templates", "time_intervals", "mute_time_intervals"),
    "a route": ("mute_time_intervals", "active_time_intervals"),
}
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OTHER_KIND = re.compile(r"[a-z]+_configs")


@dataclass(frozen=True)
class WebhookConfig:
    """A webhook of a receiver. `url_file`: file with the URL; `token_file`: file with the bearer token."""

    url: str = ""
    url_file: str = ""
    send_resolved: bool = True
    max_alerts: int = 0
    timeout: float = 10.0
    token: str = ""
    token_file: str = ""

    def __repr__(self) -> str:
        """Omits URL and token, which may be secrets."""
        return f"WebhookConfig(max_alerts={self.max_alerts}, timeout={self.timeout})"


@dataclass(frozen=True)
class ReceiverConfig:
    """A receiver by the name that routes use. It may have no webhooks."""

    name: str
    webhooks: tuple[WebhookConfig, ...] = ()


@dataclass(frozen=True)
class Config:
    """A configuration. `original`: its text, for Alertmanager's status API."""

    route: AlertRoute
    receivers: Mapping[str, ReceiverConfig]
    inhibit_rules: tuple[InhibitRule, ...] = ()
    original: str = ""


def load(text: str) -> tuple[Config | None, tuple[DocumentError, ...]]:
    """Parse a configuration. Returns None where there is any error, and all errors in order of lines."""
    tree, mistakes = parse_yaml(text)
    loader = _Loader()
    config = loader.config(tree, text) if tree is not None else None
    if tree is None and not mistakes:
        mistakes = (DocumentError(1, 1, "the configuration is empty; it needs a route and receivers"),)
    found = tuple(sorted({*mistakes, *loader.errors}))
    return (None if found else config), found


class _Loader(FieldReader):
    def config(self, tree: Node, text: str) -> Config | None:
        fields = self._fields(tree, "a configuration", _TOP)
        receivers = self._receivers(fields)
        rules = tuple(self._inhibit_rule(node) for node in self.items(fields, "inhibit_rules"))
        if "global" in fields:
            self.mapping(fields["global"], "global", ("resolve_timeout",))
        route = fields.get("route")
        if route is None:
            if fields:
                self.add_error(tree.mark, "no routes provided")
            return None
        root = self._root(route, receivers)
        return Config(root, receivers, rules, text)

    def _fields(self, node: Node, what: str, known: tuple[str, ...]) -> Fields:
        """As `mapping`, but reports fields of Alertmanager that are not supported."""
        later = _UNSUPPORTED.get(what, ())
        fields = self.mapping(node, what, (*known, *later))
        for name in later:
            if name in fields:
                self.add_error(fields[name].mark, f"{name}: not supported by this version")
        return fields

    # Receivers.

    def _receivers(self, fields: Fields) -> dict[str, ReceiverConfig]:
        found: dict[str, ReceiverConfig] = {}
        for node in self.items(fields, "receivers"):
            if isinstance(node, YamlMapping):
                self._name_other_kinds(node)
            known = ("name", "webhook_configs", *self._other_kinds(node))
            receiver = self.mapping(node, "a receiver", known)
            name = self.string(receiver, "name")
            if name is None or not name.value:
                self.add_error(node.mark, "a receiver needs a name")
                continue
            if name.value in found:
                self.add_error(name.mark, f"notification config name {name.value!r} is not unique")
            hooks = tuple(self._webhook(hook) for hook in self.items(receiver, "webhook_configs"))
            found[name.value] = ReceiverConfig(name.value, hooks)
        return found

    def _other_kinds(self, node: Node) -> tuple[str, ...]:
        keys = [key.value for key, _ in node.entries] if isinstance(node, YamlMapping) else []
        return tuple(key for key in keys if _OTHER_KIND.fullmatch(key) and key != "webhook_configs")

    def _name_other_kinds(self, node: YamlMapping) -> None:
        for key, _ in node.entries:
            if key.value in self._other_kinds(node):
                self.add_error(key.mark, f"{key.value}: not supported by this version; use webhook_configs")

    def _webhook(self, node: Node) -> WebhookConfig:
        fields = self.mapping(node, "a webhook", _WEBHOOK)
        url, url_file = self.string(fields, "url"), self.string(fields, "url_file")
        if fields and (url is None) == (url_file is None):
            self.add_error(node.mark, "a webhook must have either url or url_file")
        if url is not None and (problem := address_problem(url.value)):
            self.add_error(url.mark, f"url: {problem}")
        token, token_file = self._credentials(fields)
        sends = self.boolean(fields, "send_resolved")
        return WebhookConfig(
            url=url.value if url else "",
            url_file=url_file.value if url_file else "",
            send_resolved=True if sends is None else sends,
            max_alerts=self.whole_number(fields, "max_alerts") or 0,
            timeout=self.seconds(fields, "timeout") or 10.0,
            token=token,
            token_file=token_file,
        )

    def _credentials(self, fields: Fields) -> tuple[str, str]:
        """The bearer token of `http_config`, or the file that holds it."""
        if "http_config" not in fields:
            return "", ""
        http = self.mapping(fields["http_config"], "http_config", ("authorization", "follow_redirects"))
        if self.boolean(http, "follow_redirects"):
            self.add_error(http["follow_redirects"].mark, "follow_redirects: redirects are never followed")
        if "authorization" not in http:
            return "", ""
        known = ("type", "credentials", "credentials_file")
        given = self.mapping(http["authorization"], "authorization", known)
        kind = self.string(given, "type")
        if kind is not None and kind.value.lower() != "bearer":
            self.add_error(kind.mark, "type: only Bearer is supported")
        token, file = self.string(given, "credentials"), self.string(given, "credentials_file")
        if token is not None and any(ord(char) < 32 or ord(char) > 126 for char in token.value):
            self.add_error(token.mark, "credentials: only printable ASCII can be sent in a header")
        return token.value if token else "", file.value if file else ""

    # Routes.

    def _root(self, node: Node, receivers: Mapping[str, ReceiverConfig]) -> AlertRoute:
        fields = self._fields(node, "a route", _ROUTE)
        for name in ("matchers", "match", "match_re", "continue"):
            if name in fields:
                self.add_error(fields[name].mark, f"{name}: the root route must match every alert")
        if isinstance(node, YamlMapping) and self.string(fields, "receiver") is None:
            self.add_error(node.mark, "the root route needs a receiver")
        base = AlertRoute("{}", "", group_by=(), timing=Timing())
        return self._filled(fields, base, (), "{}", receivers)

    def _route(self, node: Node, parent: AlertRoute, receivers: Mapping[str, ReceiverConfig]) -> AlertRoute:
        fields = self._fields(node, "a route", _ROUTE)
        matchers = self._matchers(fields, "matchers", "match", "match_re")
        key = f"{parent.key}/{matchers_text(matchers)}"
        return self._filled(fields, parent, matchers, key, receivers)

    def _filled(
        self,
        fields: Fields,
        parent: AlertRoute,
        matchers: tuple[Matcher, ...],
        key: str,
        receivers: Mapping[str, ReceiverConfig],
    ) -> AlertRoute:
        """A route with unset fields inherited from its parent."""
        receiver = self.string(fields, "receiver")
        if receiver is not None and receiver.value not in receivers:
            self.add_error(receiver.mark, f"undefined receiver {receiver.value!r} used in route")
        times = parent.timing
        route = AlertRoute(
            key=key,
            receiver=receiver.value if receiver else parent.receiver,
            matchers=matchers,
            group_by=self._group_by(fields) if "group_by" in fields else parent.group_by,
            timing=Timing(
                self._time(fields, "group_wait", times.group_wait, 0.0),
                self._time(fields, "group_interval", times.group_interval, 0.001),
                self._time(fields, "repeat_interval", times.repeat_interval, 0.001),
            ),
            continues=bool(self.boolean(fields, "continue")),
        )
        children = tuple(self._route(node, route, receivers) for node in self.items(fields, "routes"))
        return _with_children(route, children)

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
            if not _LABEL_NAME.fullmatch(name.value):
                self.add_error(name.mark, f"group_by: {name.value!r} is not a valid label name")
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
        return tuple(found)

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
        if not _LABEL_NAME.fullmatch(key.value):
            self.add_error(key.mark, f"{key.value!r} is not a valid label name")
            return []
        try:
            return [Matcher(key.value, operator, value.value)]
        except MatcherError as error:
            self.add_error(value.mark, f"the pattern of {key.value} is invalid: {error}")
            return []

    def _inhibit_rule(self, node: Node) -> InhibitRule:
        fields = self.mapping(node, "an inhibition rule", _INHIBIT)
        sources = self._matchers(fields, "source_matchers", "source_match", "source_match_re")
        targets = self._matchers(fields, "target_matchers", "target_match", "target_match_re")
        if fields and not (sources and targets):
            self.add_error(node.mark, "an inhibition rule needs source_matchers and target_matchers")
        name = self.string(fields, "name")
        equal = tuple(text.value for text in self.strings(fields, "equal"))
        return InhibitRule(sources, targets, equal, name.value if name else "")


def _with_children(route: AlertRoute, children: tuple[AlertRoute, ...]) -> AlertRoute:
    return AlertRoute(
        route.key,
        route.receiver,
        route.matchers,
        route.group_by,
        route.timing,
        route.continues,
        children,
    )


def unused_receivers(config: Config) -> tuple[str, ...]:
    """Names of receivers that no route uses."""
    used = {route.receiver for route in walk(config.route)}
    return tuple(name for name in config.receivers if name not in used)
