"""`label_replace` and `label_join`: one label made from others."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from alerts.errors import PatternError
from alerts.matching.labels import Labels
from alerts.matching.regex import compile_pattern
from alerts.promql.errors import Unanswerable

#: A label made here may be this long; patterns are tried on such texts.
MAX_VALUE = 256
#: In how many ways `re` may try a pattern on such a text: three `.*`, and a few choices.
MAX_WAYS = 8 * MAX_VALUE**3

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_REFERENCE = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))")
#: What makes choices in a pattern; escapes and sets go first, so that what is in them is passed over.
_CHOICE = re.compile(
    r"""\\. | \[\^?\]?(?:[^\]\\]|\\.)*\] | \(\?(?:P?<\w+>|[a-z]*[:)])
      | (?P<end>\))?(?P<many>[*+?]|\{(?P<least>\d+)(?P<to>,?)(?P<most>\d*)\}) | (?P<or>\|)""",
    re.VERBOSE | re.DOTALL,
)


def valid_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def join(target: str, separator: str, *sources: str) -> Callable[[Labels], Labels]:
    """Sets `target` to the values of `sources`, `separator` between them."""
    for name in (target, *sources):
        if not valid_name(name):
            raise Unanswerable(f"invalid label name in label_join(): {name!r}")
    return lambda labels: _with(labels, target, separator.join(labels.get(name, "") for name in sources))


def replacement(target: str, template: str, source: str, pattern: str) -> Callable[[Labels], Labels]:
    """Sets `target` to `template`, with $1 or ${name} from the pattern, where it matches all of `source`."""
    if not valid_name(target):
        raise Unanswerable(f"invalid label name in label_replace(): {target!r}")
    groups = _capturing(pattern)

    def replaced(labels: Labels) -> Labels:
        value = labels.get(source, "")
        if len(value) > MAX_VALUE:
            raise Unanswerable(f"label_replace() reads labels of {MAX_VALUE} characters, not {len(value)}")
        found = groups.fullmatch(value)
        return labels if found is None else _with(labels, target, _expanded(template, found))

    return replaced


def _with(labels: Labels, name: str, value: str) -> Labels:
    """An empty value is no label."""
    if len(value) > MAX_VALUE:
        raise Unanswerable(f"a label may have {MAX_VALUE} characters, {name} would have {len(value)}")
    others = {key: text for key, text in labels.items() if key != name}
    return {**others, name: value} if value else others


def _capturing(pattern: str) -> re.Pattern[str]:
    """The pattern for `re`, if that cannot be made to try for ever; alerts.matching.regex has judged its syntax."""
    try:
        compile_pattern(pattern)
        ways = _ways(pattern)
        compiled = re.compile(re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", pattern), re.DOTALL | re.ASCII)
    except (PatternError, re.error) as mistake:
        raise Unanswerable(f"invalid regular expression in label_replace(): {pattern} ({mistake})") from None
    if ways > MAX_WAYS:
        raise Unanswerable(f"the regular expression repeats too much for label_replace(): {pattern}")
    return compiled


def _ways(pattern: str) -> float:
    """At most so many ways to try the pattern."""
    return math.prod(_choices(found) for found in _CHOICE.finditer(pattern))


def _choices(found: re.Match[str]) -> float:
    """How many ways this part of a pattern adds; a group that is repeated counts as endless."""
    if found["or"] or found["many"] == "?":
        return 2
    if not found["many"]:
        return 1
    if found["end"]:
        return math.inf
    if found["least"] and not found["to"]:
        return 1
    return int(found["most"]) - int(found["least"]) + 1 if found["most"] else MAX_VALUE


def _expanded(template: str, found: re.Match[str]) -> str:
    def one(reference: re.Match[str]) -> str:
        name = reference[1] or reference[2]
        if name is None:
            return "$"
        if name.isdigit():
            return (found[int(name)] or "") if int(name) <= found.re.groups else ""
        return (found[name] or "") if name in found.re.groupindex else ""

    return _REFERENCE.sub(one, template)
