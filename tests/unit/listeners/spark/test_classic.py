"""Parsing the texts of Spark's own objects."""

import pytest

from listeners.spark.classic import ENGINE, is_made_up
from listeners.spark.plans import parse_delay

RELATION = "+- ~StreamingRelationV2 x, rate, y, [], [timestamp#0, value#1L], name=<Unassigned>"


@pytest.mark.parametrize(
    ("node", "seconds"),
    [
        ("41fd37fa-8e5a-4a9a-834d-71160b3822c4, timestamp#0: timestamp, 1 minutes 30 seconds", 90),
        ("timestamp#0: timestamp, 10 seconds", 10),
        ("timestamp#0: timestamp, 1 days 2 hours 0.5 seconds", 93600.5),
        ("timestamp#0: timestamp, 2 months", 62 * 86400),
        ("timestamp#0: timestamp, 0 seconds", 0),
    ],
)
def test_watermark_delay_is_read_from_the_plan(node: str, seconds: float) -> None:
    assert parse_delay(f"~Project [value#1L]\n:- ~EventTimeWatermark {node}\n{RELATION}") == seconds


def test_longest_of_several_watermark_delays_counts() -> None:
    node = ":- ~EventTimeWatermark ts#0: timestamp, %s\n"
    assert parse_delay(node % "5 minutes" + node % "1 hours" + node % "10 seconds") == 3600


@pytest.mark.parametrize(
    "plan",
    [
        "None",
        RELATION,
        "~EventTimeWatermark ts#0: timestamp, 3 fortnights\n",
        "~EventTimeWatermark ts#0: timestamp, 1.2.3 seconds\n",
    ],
)
def test_missing_or_unknown_watermark_has_no_delay(plan: str) -> None:
    assert parse_delay(plan) is None


MADE_UP = "file:/cks/d187e045-35ae-400c-834d-d5da5950caa6"


@pytest.mark.parametrize(
    ("checkpoint", "name", "location", "made_up"),
    [
        (MADE_UP, None, "/cks", True),
        (MADE_UP, "", "file:///cks/", True),
        ("s3a://b/cks/" + MADE_UP[-36:], None, "s3a://b/cks", True),
        (MADE_UP, "named", "/cks", False),
        (MADE_UP, None, None, False),  # the program chose this name itself
        (MADE_UP, None, "/other", False),
        ("file:/cks/orders", None, "/cks", False),
    ],
)
def test_a_directory_that_spark_makes_up_below_the_sessions_location_is_recognized(
    checkpoint: str, name: str, location: str, made_up: bool
) -> None:
    assert is_made_up(checkpoint, name, location) is made_up


class Answering:
    """A run that gives these answers in turn."""

    def __init__(self, *answers):
        self._answers = list(answers)

    def is_active(self):
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_jvm_is_unreachable_when_a_new_connection_fails_too() -> None:
    from py4j.protocol import Py4JError, Py4JNetworkError

    broken, refused = Py4JError("while calling isActive"), Py4JNetworkError("connection refused")
    assert ENGINE.permanent_outage(Answering(broken, refused)) is refused
    assert ENGINE.permanent_outage(Answering(ConnectionRefusedError(), refused)) is refused
    assert ENGINE.permanent_outage(Answering(broken, False)) is None
    assert ENGINE.permanent_outage(Answering(False)) is None
