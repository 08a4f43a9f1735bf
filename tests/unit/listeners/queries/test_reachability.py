"""Reachability: which outcomes of polls mean that Spark does not answer."""

import pytest

from listeners.queries.reachability import Reachability
from listeners.spark.engine import SparkOutage

AWAY = SparkOutage("server_away", "the Spark Connect server did not answer: connection refused")
ENDED = SparkOutage("jvm_exited", "the driver's JVM has ended with exit code 137", certain=True)


class Polls:
    """Polls of one agent: `now` is its clock, `outage` the meaning of each error."""

    def __init__(self):
        self.now, self.outage = 100.0, AWAY
        self.reachability = Reachability(lambda error: self.outage, lambda: self.now)

    def fail(self, seconds=0.0):
        self.reachability.poll_begins()
        self.now += seconds
        return self.reachability.poll_failed(RuntimeError("x"))

    def answer(self):
        self.reachability.poll_begins()
        return self.reachability.poll_answered()

    @property
    def reported(self):
        return self.reachability.facts().get("unreachable")


@pytest.fixture
def polls():
    return Polls()


def test_answered_polls_report_nothing(polls):
    assert polls.answer() is False and polls.reported is None


def test_broken_connection_counts_when_the_next_poll_confirms_it(polls):
    assert polls.fail() is False and polls.reachability.is_doubtful() and polls.reported is None
    polls.now += 1
    assert polls.fail(2) is True and not polls.reachability.is_doubtful()
    assert polls.reported == {"seconds": 3.0, "cause": "server_away", "detail": AWAY.detail}
    assert polls.fail() is False


def test_missing_answer_does_not_replace_a_broken_connection_until_spark_answers(polls):
    polls.fail(), polls.fail()
    polls.outage = SparkOutage("no_answer", "Deadline Exceeded")
    polls.fail(75)
    assert polls.reported == {"seconds": 75.0, "cause": "server_away", "detail": AWAY.detail}
    polls.answer(), polls.fail(), polls.fail()
    assert polls.reported["cause"] == "no_answer"


def test_single_broken_connection_is_forgotten(polls):
    polls.fail()
    assert polls.answer() is True and not polls.reachability.is_doubtful()
    polls.fail()
    assert polls.reported is None


def test_exit_of_the_jvm_needs_no_second_poll(polls):
    polls.outage = ENDED
    assert polls.fail() is True and polls.reported["cause"] == "jvm_exited"
    assert polls.reachability.outage == ENDED


def test_error_that_spark_answers_is_no_outage(polls):
    polls.fail(), polls.fail()
    polls.outage = None
    assert polls.fail() is True and polls.reported is None


def test_poll_without_an_answer_is_reported_while_it_waits(polls):
    polls.reachability.poll_begins()
    polls.now += 10
    assert polls.reported is None
    polls.now += 25
    assert polls.reported["seconds"] == 35.0 and polls.reported["cause"] == "no_answer"
    polls.reachability.poll_answered()
    assert polls.reported is None
