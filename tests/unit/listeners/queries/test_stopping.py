"""Stopping at a gap, after a commit or at the deadline, and the sentence about the last batch."""

import threading

import pytest

from listeners.protocol.errors import CommandError, ConnectError
from listeners.queries import stopping
from listeners.queries.registry import Registry
from listeners.queries.stopping import COMMIT, DEADLINE, EPOCHS, GAP, StopResult, describe_stop, stop_evidence
from tests.unit.listeners.fake_spark import ENGINE, JavaQuery, Query, Session


def started():
    registry = Registry()
    return registry, registry.started(Query(JavaQuery("q", "r1")), None, Session(), ENGINE)


def test_busy_query_is_stopped_when_its_current_batch_is_reported():
    registry, entry = started()
    java = entry.run.jsq
    java.trigger_active, java.planned, java.committed = True, 5, 4
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(stopping.stop_run(registry, entry, True, 60.0)))
    thread.start()
    registry.on_progress("r1", 4)  # a late report of a batch committed before
    registry.on_progress("r1")  # an idle trigger
    registry.on_progress("r0", 9)  # another run
    thread.join(0.3)
    assert thread.is_alive() and java.isActive()
    java.committed = 5
    registry.on_progress("r1", 5)
    thread.join(10)
    assert outcome[0].moment == COMMIT and outcome[0].cut is None and not java.isActive()
    assert entry.awaited is None and entry.held


def test_gap_is_used_at_once():
    registry, entry = started()
    assert stopping.stop_run(registry, entry, True, 60.0).moment == GAP


def test_failure_during_the_drain_is_the_programs_own_and_wakes_it():
    registry, entry = started()
    java = entry.run.jsq
    java.trigger_active = True
    caught = []

    def stop():
        try:
            stopping.stop_run(registry, entry, True, 60.0)
        except CommandError as error:
            caught.append(error)

    thread = threading.Thread(target=stop)
    thread.start()
    java.fail(RuntimeError("poison"))
    java.trigger_active = False
    thread.join(10)
    assert [(error.code, error.refused) for error in caught] == [("not_running", True)] and not entry.held


def test_continuous_processing_is_not_drained():
    registry, entry = started()
    entry.run.jsq.facts = {"trigger": "continuous"}
    entry.run.jsq.trigger_active = True
    assert stopping.stop_run(registry, entry, True, 60.0).moment == EPOCHS


def test_unfinished_stop_reports_its_thread():
    registry, entry = started()
    entry.run.jsq.hangs = True
    with pytest.raises(CommandError) as caught:
        stopping.stop_run(registry, entry, False, 1.0)
    assert caught.value.code == "stop_timed_out" and "thread" in caught.value.evidence
    entry.run.jsq.fail(None)


class UnreachableRun:
    """A run whose server is unreachable from the moment of the stop."""

    def __init__(self, run, failure):
        self._run, self._failure, self.is_away = run, failure, False

    def __getattr__(self, name):
        return getattr(self._run, name)

    def is_active(self):
        if self.is_away:
            raise ConnectError("no answer")
        return self._run.is_active()

    is_over = is_active

    def stop(self):
        self.is_away = True
        if self._failure:
            raise self._failure


def test_lost_stop_holds_nothing():
    registry, entry = started()
    lost = ConnectError("connection reset")
    entry.run = UnreachableRun(entry.run, lost)
    with pytest.raises(ConnectError) as caught:
        stopping.stop_run(registry, entry, False, 1.0)
    assert caught.value is lost and not entry.held


def test_outage_before_the_stop_holds_nothing():
    registry, entry = started()
    entry.run = UnreachableRun(entry.run, None)
    entry.run.is_away = True
    with pytest.raises(ConnectError):
        stopping.stop_run(registry, entry, False, 1.0)
    assert not entry.held


def test_accepted_stop_is_held_although_its_end_is_unknown():
    registry, entry = started()
    entry.run = UnreachableRun(entry.run, None)
    with pytest.raises(CommandError) as caught:
        stopping.stop_run(registry, entry, False, 1.0)
    assert caught.value.code == "stop_timed_out" and entry.held


@pytest.mark.parametrize(
    ("stopped", "cut", "sentence"),
    [
        (StopResult(None, 0.1, 7, 7), None, "stopped after batch 7"),
        (StopResult(None, 0.1, None, None), None, "stopped; its last batch is not known"),
        (StopResult(GAP, 0.1, None, None), None, "stopped between two batches"),
        (StopResult(None, 0.1, 0, None), 0, "stopped in the middle of batch 0, which will run again"),
        (StopResult(GAP, 0.1, 8, 7), 8, "stopped as batch 8 began, which will run again"),
        (
            StopResult(COMMIT, 0.1, 8, 7),
            8,
            "stopped right after batch 7; there is no pause between its batches, so batch 8 had been planned and "
            "will run again",
        ),
        (
            StopResult(DEADLINE, 0.1, 8, 7),
            8,
            "stopped in the middle of batch 8, which will run again: the drain timed out",
        ),
        (
            StopResult(EPOCHS, 0.1, 3, 3, True),
            None,
            "stopped after epoch 3 (continuous processing cannot be drained); rows written since then will be "
            "written again",
        ),
        (
            StopResult(None, 0.1, None, None, True),
            None,
            "stopped before its first epoch ended; rows written since then will be written again",
        ),
    ],
)
def test_sentence_describes_the_last_batch(stopped, cut, sentence):
    assert (stopped.cut, describe_stop(stopped)) == (cut, sentence)


@pytest.mark.parametrize(
    ("moment", "committed", "drained"),
    [(GAP, 8, True), (COMMIT, 8, True), (COMMIT, 7, False), (DEADLINE, 8, False)],
)
def test_drained_means_that_no_batch_was_cut(moment, committed, drained):
    assert stop_evidence("r1", StopResult(moment, 0.1, 8, committed))["drained"] is drained


def test_stop_without_drain_has_no_drain_evidence():
    assert "drained" not in stop_evidence("r1", StopResult(None, 0.1, 8, 8))


def test_unreadable_logs_leave_drained_unknown():
    stopped = StopResult(COMMIT, 0.1, None, None)
    assert stop_evidence("r1", stopped)["drained"] is None and "if the next one had begun" in describe_stop(
        stopped
    )
