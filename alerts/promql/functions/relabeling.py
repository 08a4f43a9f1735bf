"""`label_replace` and `label_join`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from alerts.errors import PatternError
from alerts.matching.labels import Labels
from alerts.matching.regex import compile_replacement
from alerts.promql.errors import OperationError
from alerts.promql.syntax.nodes import Call, Node, StringLiteral, children

#: Characters of a label value made here; nested calls could otherwise grow it without bound.
MAX_LABEL_VALUE = 4096


def is_label_name(name: str) -> bool:
    """Whether a name is a valid label name: any text that UTF-8 can hold."""
    return bool(name) and not any("\ud800" <= char <= "\udfff" for char in name)


def mistakes(node: Node) -> Iterator[str]:
    """Why calls of `label_replace` and `label_join` whose arguments are literals can never be evaluated."""
    for child in children(node):
        yield from mistakes(child)
    if not isinstance(node, Call) or node.function not in _RELABELINGS:
        return
    texts = [argument.value for argument in node.arguments if isinstance(argument, StringLiteral)]
    if len(texts) < len(node.arguments) - 1:
        return
    place = f"{node.place.line}:{node.place.column}"
    try:
        _RELABELINGS[node.function](*texts)
    except OperationError as error:
        yield f"{place}: {error}"
    if node.function == "label_replace" and len(texts[1]) > MAX_LABEL_VALUE and "$" not in texts[1]:
        yield f"{place}: a label may have {MAX_LABEL_VALUE} characters, {texts[0]} would have {len(texts[1])}"


def label_join(target: str, separator: str, *sources: str) -> Callable[[Labels], Labels]:
    """Return a function that sets `target` to the values of `sources`, joined by `separator`."""
    for name in (target, *sources):
        if not is_label_name(name):
            raise OperationError(f"invalid label name in label_join(): {name!r}")
    return lambda labels: _with(labels, target, separator.join(labels.get(name, "") for name in sources))


def label_replace(target: str, template: str, source: str, pattern: str) -> Callable[[Labels], Labels]:
    """Return a function that sets `target` to the expanded `template` where `pattern` matches all of `source`."""
    if not is_label_name(target):
        raise OperationError(f"invalid label name in label_replace(): {target!r}")
    try:
        replace = compile_replacement(pattern, template)
    except PatternError as error:
        raise OperationError(f"invalid regular expression in label_replace(): {pattern} ({error})") from None

    def replaced(labels: Labels) -> Labels:
        value = replace(labels.get(source, ""))
        return labels if value is None else _with(labels, target, value)

    return replaced


def _with(labels: Labels, name: str, value: str) -> Labels:
    """The labels with `name` set; an empty value removes it."""
    if len(value) > MAX_LABEL_VALUE:
        raise OperationError(f"a label may have {MAX_LABEL_VALUE} characters, {name} would have {len(value)}")
    others = {key: text for key, text in labels.items() if key != name}
    return {**others, name: value} if value else others


_RELABELINGS: Mapping[str, Callable[..., Callable[[Labels], Labels]]] = {
    "label_join": label_join,
    "label_replace": label_replace,
}
