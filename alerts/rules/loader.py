"""Load Prometheus rule files into rule groups; report every error with line and column.

Accepts all fields of Prometheus 3 (`query_offset`, group `labels`, `keep_firing_for`). Pure: the caller
reads the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from alerts.errors import AlertsError
from alerts.rules.model import Rule, RuleGroup, RuleKind
from alerts.templates import expansion
from alerts.yaml.fields import FieldReader, Fields
from alerts.yaml.parser import parse as parse_yaml
from alerts.yaml.tree import DocumentError, Node, YamlScalar

Parse = Callable[[str], Any]

_GROUP_FIELDS = ("name", "interval", "limit", "query_offset", "labels", "rules")
_RULE_FIELDS = ("record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations")
_ALERT_ONLY = ("for", "keep_firing_for", "annotations")


def load(
    text: str, source: str = "", parse: Parse | None = None
) -> tuple[tuple[RuleGroup, ...], tuple[DocumentError, ...]]:
    """The groups of a rule file, and its errors in order of lines.

    Groups contain only valid rules; a caller that needs all of them rejects the file where there is any
    error. `parse` parses an expression; default: `alerts.promql.syntax.parser.parse`.
    """
    tree, mistakes = parse_yaml(text)
    loader = _Loader(source, parse or _promql())
    groups = loader.groups(tree) if tree is not None else ()
    return groups, tuple(sorted((*mistakes, *loader.errors)))


def _promql() -> Parse:
    from alerts.promql.syntax.parser import parse

    return parse


class _Loader(FieldReader):
    def __init__(self, source: str, parse: Parse):
        super().__init__()
        self._source, self._parse = source, parse

    def groups(self, tree: Node) -> tuple[RuleGroup, ...]:
        fields = self.mapping(tree, "a rule file", ("groups",))
        seen: set[str] = set()
        groups = []
        for node in self.items(fields, "groups"):
            group = self._group(node, seen)
            groups += [group] if group else []
        return tuple(groups)

    def _group(self, node: Node, seen: set[str]) -> RuleGroup | None:
        fields = self.mapping(node, "a group", _GROUP_FIELDS)
        name = self.string(fields, "name")
        if name is None or not name.value:
            if fields:
                self.add_error(node.mark, "a group needs a name")
        elif name.value in seen:
            self.add_error(name.mark, f"groupname: {name.value!r} is repeated in the same file")
        interval = self.seconds(fields, "interval")
        group = RuleGroup(
            name=name.value if name else "",
            rules=tuple(r for n in self.items(fields, "rules") if (r := self._rule(n))),
            interval=interval or None,
            limit=self.whole_number(fields, "limit") or 0,
            query_offset=self.seconds(fields, "query_offset") or 0.0,
            labels=self._labels(fields),
            source=self._source,
        )
        seen.add(group.name)
        return group if group.name else None

    def _rule(self, node: Node) -> Rule | None:
        before = len(self.errors)
        self._queries: list[Any] = []
        fields = self.mapping(node, "a rule", _RULE_FIELDS)
        if not fields:
            if len(self.errors) == before:
                self.add_error(node.mark, "one of record or alert must be set")
            return None
        kind, name = self._name(node, fields)
        expr = self.string(fields, "expr")
        if expr is None or not expr.value.strip():
            self.add_error(node.mark, "a rule needs an expr")
        parsed = self._expression(expr) if expr and expr.value.strip() else None
        rule = Rule(
            kind=kind,
            name=name,
            expr=expr.value.strip() if expr else "",
            node=parsed,
            for_=self.seconds(fields, "for") or 0.0,
            keep_firing_for=self.seconds(fields, "keep_firing_for") or 0.0,
            labels=self._labels(fields, expands=kind is RuleKind.ALERT),
            annotations=self._annotations(fields),
            line=node.mark.line,
            queries=tuple(self._queries),
        )
        return rule if len(self.errors) == before else None

    def _name(self, node: Node, fields: Fields) -> tuple[RuleKind, str]:
        record, alert = self.string(fields, "record"), self.string(fields, "alert")
        if record is not None and alert is not None:
            self.add_error(record.mark, "only one of record and alert must be set")
        named = alert or record
        if named is None or not named.value:
            self.add_error(node.mark, "one of record or alert must be set")
        if record is None:
            return RuleKind.ALERT, named.value if named else ""
        for field in _ALERT_ONLY:
            if field in fields:
                self.add_error(fields[field].mark, f"invalid field {field} in a recording rule")
        return RuleKind.RECORD, record.value

    def _expression(self, text: YamlScalar) -> Any:
        try:
            return self._parse(text.value)
        except AlertsError as error:
            line, column = getattr(error, "line", 1), getattr(error, "column", 1)
            self.add_error(text.place(line, column), f"expr: {getattr(error, 'message', None) or error}")
            return None

    def _labels(self, fields: Fields, expands: bool = False) -> Mapping[str, str]:
        labels = {}
        for key, value in self.pairs(fields, "labels"):
            if not key.value or key.value == "__name__":
                self.add_error(key.mark, f"{key.value!r} is not a valid label name")
            if expands:
                self._template(value)
            labels[key.value] = value.value
        return labels

    def _annotations(self, fields: Fields) -> Mapping[str, str]:
        annotations = {}
        for key, value in self.pairs(fields, "annotations"):
            if not key.value:
                self.add_error(key.mark, f"{key.value!r} is not a valid annotation name")
            self._template(value)
            annotations[key.value] = value.value
        return annotations

    def _template(self, text: YamlScalar) -> None:
        mistakes = expansion.template_errors(text.value)
        for mistake in mistakes:
            self.add_error(text.place(mistake.line, mistake.column), f"template: {mistake.message}")
        for expression in () if mistakes else expansion.queries(text.value):
            try:
                self._queries.append(self._parse(expression))
            except AlertsError as error:
                self.add_error(text.mark, f"template: query {expression[:80]!r}: {error}")
