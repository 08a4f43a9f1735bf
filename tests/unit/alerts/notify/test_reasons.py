"""Whether a group is reported, and why: all the cases, in one table."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.notify.reasons import NotificationState, Reason, decide


def last(firing: str = "", resolved: str = "", at: float = 0.0) -> NotificationState:
    return NotificationState(frozenset(firing), frozenset(resolved), at)


@pytest.mark.parametrize(
    ("before", "firing", "resolved", "now", "reason"),
    [
        (None, "a", "", 0, Reason.FIRST),
        (None, "", "a", 0, Reason.NONE),
        (None, "", "", 0, Reason.NONE),
        (last("a"), "ab", "", 10, Reason.NEW),
        (last("a"), "b", "a", 10, Reason.NEW),
        (last("", "a"), "a", "", 10, Reason.FIRST),
        (last("a"), "", "a", 10, Reason.ALL_RESOLVED),
        (last("", "a"), "", "a", 10, Reason.NONE),
        (last("ab"), "a", "b", 10, Reason.SOME_RESOLVED),
        (last("a", "b"), "a", "b", 10, Reason.NONE),
        (last("a"), "a", "", 3600, Reason.NONE),
        (last("a"), "a", "", 3601, Reason.REPEAT),
        (last("ab"), "a", "", 10, Reason.NONE),
    ],
)
def test_the_reason(
    before: NotificationState | None, firing: str, resolved: str, now: float, reason: Reason
) -> None:
    decision = decide(before, firing, resolved, 3600, now)
    assert decision.reason is reason
    assert decision.notifies is (reason is not Reason.NONE)
    assert decision.explanation


def test_who_does_not_want_to_receive_of_ends_receives_of_none_but_the_log_is_cleared() -> None:
    assert decide(last("ab"), "a", "b", 3600, 10, sends_resolved=False).reason is Reason.NONE
    assert decide(last("a"), "", "a", 3600, 10, sends_resolved=False).reason is Reason.ALL_RESOLVED


def test_nothing_is_repeated_while_all_of_it_is_acknowledged() -> None:
    assert decide(last("ab"), "ab", "", 3600, 9000, acknowledged="ab").reason is Reason.NONE
    assert "acknowledged" in decide(last("ab"), "ab", "", 3600, 9000, acknowledged="ab").explanation
    assert decide(last("ab"), "ab", "", 3600, 9000, acknowledged="a").reason is Reason.REPEAT
    assert decide(last("ab"), "abc", "", 3600, 9000, acknowledged="ab").reason is Reason.NEW


sets = st.frozensets(st.sampled_from("abcd"), max_size=4)


@given(sets, sets, sets, sets, st.floats(0, 10_000))
def test_a_firing_alert_without_a_notification_is_always_notified(
    reported: Iterable[str], over: Iterable[str], firing: frozenset[str], resolved: frozenset[str], now: float
) -> None:
    decision = decide(
        NotificationState(frozenset(reported), frozenset(over), 0), firing, resolved - firing, 3600, now
    )
    if firing - frozenset(reported):
        assert decision.notifies
    if not decision.notifies and firing:
        assert now <= 3600
