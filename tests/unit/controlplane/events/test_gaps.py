"""Gaps: what was never reported is found, whatever comes late closes it, repeats are none."""

from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from controlplane.events import gaps
from controlplane.events.gaps import GRACE_SECONDS
from controlplane.records import NOTHING, Gap, ReportedBatches
from controlplane.store import rows


def reported(*batches, known=NOTHING, run_id="r", now=0.0):
    for batch in batches:
        known = gaps.record_report(known, run_id, batch, now)
    return known


def spans(known):
    return [(gap.first, gap.last) for gap in known.gaps]


def test_the_first_batch_received_of_is_where_it_begins():
    assert reported(41, 42) == ReportedBatches(42)


def test_a_hole_within_a_run_and_between_two_runs_is_a_gap():
    known = reported(5, 6, 9)
    known = reported(13, known=known, run_id="next", now=7.0)
    assert known.gaps == (Gap("r", 7, 8, 0.0), Gap("next", 10, 12, 7.0))


def test_a_repeated_or_rewound_batch_is_no_gap():
    assert reported(5, 6, 6, 5, 6, 7) == ReportedBatches(7)
    assert reported(5, 6, 7, 2, 3, 4, 5, 6, 7, 8) == ReportedBatches(8)


def test_what_arrives_late_closes_a_gap_from_any_side():
    assert spans(reported(1, 10, 2)) == [(3, 9)]
    assert spans(reported(1, 10, 9)) == [(2, 8)]
    assert spans(reported(1, 10, 5)) == [(2, 4), (6, 9)]
    assert spans(reported(1, 3, 2)) == []


def test_a_gap_is_counted_once_after_the_grace_period():
    known = reported(1, 5)
    known, early = gaps.count_overdue(known, GRACE_SECONDS - 1, None)
    known, then = gaps.count_overdue(known, GRACE_SECONDS, "processing_time")
    known, again = gaps.count_overdue(known, GRACE_SECONDS + 1, None)
    assert (early, then, again) == (0, 3, 0)
    late, more = gaps.count_overdue(reported(3, known=known), GRACE_SECONDS + 2, None)
    assert spans(late) == [(2, 2), (4, 4)] and more == 0


def test_in_continuous_mode_there_are_no_gaps():
    assert gaps.count_overdue(reported(1, 5), 1e9, "continuous") == (ReportedBatches(5), 0)


def test_many_gaps_are_bounded_and_the_newest_stay():
    known = reported(*range(1, 401, 2))
    assert len(known.gaps) == gaps.MAX_GAPS and spans(known)[-1] == (398, 398)


def test_gaps_that_are_pushed_out_before_the_grace_count_all_the_same():
    known, counted = NOTHING, 0
    for second in range(0, 600, 2):  # every second report is lost
        known, more = gaps.count_overdue(reported(second, known=known, now=second), second, "processing_time")
        counted += more
    known, rest = gaps.count_overdue(known, 10_000, "processing_time")
    assert counted + rest == 299
    assert gaps.count_overdue(known, 20_000, "processing_time")[1] == 0


def test_a_gap_that_counts_already_makes_space_for_one_that_does_not():
    known, _ = gaps.count_overdue(reported(*range(0, 99, 2)), GRACE_SECONDS, None)
    known = reported(101, 103, known=known, now=GRACE_SECONDS)
    assert len(known.gaps) == gaps.MAX_GAPS and known.dropped_uncounted == 0
    assert gaps.count_overdue(known, GRACE_SECONDS * 2, None)[1] == 3


def test_what_is_stored_comes_back():
    known = reported(*range(1, 201, 2))
    assert known.dropped_uncounted and rows.reported_batches(asdict(known)) == known
    assert rows.reported_batches(None) == NOTHING


@given(st.permutations(range(1, 12)), st.integers(0, 11))
def test_in_any_order_of_arrival_the_gaps_are_what_was_not_reported(order, count):
    known = reported(0, *order[:count])
    missing = set(range(known.high + 1)) - {0, *order[:count]}
    assert {b for first, last in spans(known) for b in range(first, last + 1)} == missing
