"""`info()`: join the data labels of info metrics to the series that they describe.

An info series describes the series with the same identifying labels, `instance` and `job`. Its other labels are
data labels; a second argument chooses among them and may name another metric than `target_info`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.errors import OperationError
from alerts.promql.label_sets import Integers, LabelColumn
from alerts.promql.limits import paced
from alerts.promql.rows import SampleRows
from alerts.promql.series import METRIC_NAME, is_stale
from alerts.promql.syntax.nodes import Place, Selector
from alerts.promql.windows import Windows

IDENTIFYING = ("instance", "job")
_DEFAULT = Matcher(METRIC_NAME, "=", "target_info")
Key = tuple[str, ...]


def info_selector(given: Selector | None, place: Place) -> Selector:
    """The selector of the info series: its names and data labels, `target_info` unless it names a metric."""
    matchers = given.matchers if given else ()
    named = any(matcher.name == METRIC_NAME for matcher in matchers)
    return Selector(matchers if named else (_DEFAULT, *matchers), place)


def joined(rows: SampleRows, infos: Windows, matchers: Sequence[Matcher]) -> SampleRows:
    """`rows` with the data labels of `infos`, at each step those of the newest info series of each metric."""
    names = [matcher for matcher in matchers if matcher.name == METRIC_NAME]
    wanted = {matcher.name for matcher in matchers if matcher.name != METRIC_NAME}
    required = {m.name for m in matchers if m.name != METRIC_NAME and not matches([m], {})}
    by_key = _by_key(infos)
    times = _times(infos)
    parts: list[tuple[Labels, int, np.ndarray]] = []
    for row, own in paced(enumerate(rows.labels)):
        if matches(names, own):  # an info metric describes itself
            parts.append((own, row, rows.present[row]))
            continue
        described = by_key.get(_key(own), {})
        for chosen, steps in _combinations(described, times, rows.present[row]):
            data = _data([infos.samples.labels[i] for i in chosen], own, wanted)
            if required <= data.keys():
                parts.append(({**own, **data}, row, steps))
    result = rows.take([row for _, row, _ in parts])
    present = np.array([steps for _, _, steps in parts], bool).reshape(len(parts), rows.steps)
    labels = LabelColumn.of((own for own, _, _ in parts), rows.labels.sets)
    return SampleRows(labels, result.values, present).where(present).merged()


def _key(labels: Labels) -> Key:
    return tuple(labels.get(name, "") for name in IDENTIFYING)


def _by_key(infos: Windows) -> dict[Key, dict[str, list[int]]]:
    """Rows of the info series by identifying labels, then by metric."""
    found: dict[Key, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, labels in enumerate(infos.samples.labels):
        found[_key(labels)][labels.get(METRIC_NAME, "")].append(row)
    return found


def _times(infos: Windows) -> Integers:
    """The time of each info series' last sample, below all times where it has none."""
    last = infos.end - 1
    present = infos.has_at_least(1) & ~is_stale(infos.value(last))
    return np.where(present, infos.time(last), np.iinfo(np.int64).min)


def _combinations(
    described: dict[str, list[int]], times: Integers, present: np.ndarray
) -> Iterable[tuple[tuple[int, ...], np.ndarray]]:
    """Which info series describe a row together, and at which of its steps."""
    newest = [_newest(rows, times, present) for rows in described.values()]
    at_step: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for step in np.flatnonzero(present).tolist():
        at_step[tuple(int(row[step]) for row in newest if row[step] >= 0)].append(step)
    for chosen, steps in at_step.items():
        mask = np.zeros(len(present), bool)
        mask[steps] = True
        yield chosen, mask


def _newest(rows: Sequence[int], times: Integers, present: np.ndarray) -> Integers:
    """The row with the newest sample at each step, -1 where there is none. Raises OperationError for two."""
    found = times[list(rows)]
    best = found.max(axis=0)
    there = best > np.iinfo(np.int64).min
    if (there & present & ((found == best).sum(axis=0) > 1)).any():
        raise OperationError("found duplicate series for info metric")
    return np.where(there, np.asarray(rows)[found.argmax(axis=0)], -1)


def _data(infos: Sequence[Labels], labels: Labels, wanted: set[str]) -> dict[str, str]:
    """The data labels of info series that the described series has not. Raises OperationError on a conflict."""
    data: dict[str, str] = {}
    for series in infos:
        for name, value in series.items():
            if name == METRIC_NAME or name in labels or (wanted and name not in wanted):
                continue
            if data.setdefault(name, value) != value:
                raise OperationError(f"conflicting label: {name}")
    return data
