"""`label_replace` and `label_join`."""

from __future__ import annotations

from collections.abc import Callable

from alerts.errors import PatternError
from alerts.matching.labels import Labels
from alerts.matching.regex import compile_replacement
from alerts.promql.errors import OperationError

#: Characters of a label value made here; nested calls could otherwise grow it without bound.
MAX_LABEL_VALUE = 4096


def is_label_name(name: str) -> bool:
    """Whether a name is a valid label name: any text that UTF-8 can hold."""
    return bool(name) and not any("\ud800" <= char <= "\udfff" for char in name)


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
