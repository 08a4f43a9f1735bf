"""A trial notification reaches every integration, and is resolved where ends are notified."""

from __future__ import annotations

import pytest

from alerts.errors import ReceiverError
from alerts.notify.receivers.limits import LimitedReceiver
from alerts.notify.receivers.recorder import Recorder
from controlplane.alerting.trial import TrialResult, send_trial, trial_message
from tests.unit.controlplane.alerting.parts import NOW, Broken

TRIAL = trial_message("team", "ann", "http://here", NOW)


def test_start_and_end_are_sent_where_ends_are_notified() -> None:
    both, starts = Recorder("team/slack[0]"), Recorder("team/email[0]", sends_resolved=False)
    assert send_trial((both, starts), TRIAL) == (TrialResult("team/slack[0]"), TrialResult("team/email[0]"))
    assert [message.status for message in both.messages] == ["firing", "resolved"]
    assert [message.status for message in starts.messages] == ["firing"]
    assert len({message.group_key for message in both.messages}) == 1


def test_a_failure_is_named_and_hides_no_other() -> None:
    refused, fine = Recorder("a", failures=[ReceiverError("wrong token", False)]), Recorder("c")
    results = send_trial((refused, Broken("b"), fine), TRIAL)
    assert [(result.name, result.error) for result in results] == [
        ("a", "wrong token"),
        ("b", "the receiver failed with RuntimeError: no such thing"),
        ("c", None),
    ]


def test_a_trial_is_sent_to_a_receiver_that_is_left_alone() -> None:
    inner = Recorder("a", failures=[ReceiverError("limited", True, 429, 900.0)])
    limited = LimitedReceiver(inner)
    with pytest.raises(ReceiverError):
        limited.send(TRIAL)
    assert send_trial((limited,), TRIAL) == (TrialResult("a"),)


def test_the_message_states_that_nothing_is_wrong_and_each_is_a_group_of_its_own() -> None:
    (alert,) = TRIAL.alerts
    assert "nothing is wrong" in alert.annotations["summary"]
    assert "ann" in alert.annotations["description"]
    assert trial_message("team", "ann", "", NOW + 1).group_key != TRIAL.group_key
    assert send_trial((), TRIAL) == ()
