"""Parsing the texts of Spark's own objects."""

import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from listeners.spark.classic import ENGINE, is_made_up, jvm_end
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


def gateway(process=None, port=1):
    where = SimpleNamespace(address="127.0.0.1", port=port)
    return SimpleNamespace(proc=process, gateway_parameters=where)


@pytest.mark.parametrize(
    ("code", "detail", "by_sigterm"),
    [(137, "exit code 137", False), (-9, "signal 9", False), (-15, "signal 15", True), (143, "143", True)],
)
def test_end_of_the_jvm_process_is_certain(code, detail, by_sigterm) -> None:
    found = jvm_end(gateway(SimpleNamespace(poll=lambda: code)))
    assert found is not None and found.cause == "jvm_exited" and found.certain
    assert detail in found.detail and found.by_sigterm is by_sigterm


def test_jvm_that_listens_has_not_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with socket.create_server(("127.0.0.1", 0)) as listening, process:
        assert jvm_end(gateway(process, listening.getsockname()[1])) is None
        assert jvm_end(gateway(None, listening.getsockname()[1])) is None


def test_refused_port_of_a_jvm_that_started_python_means_its_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    found = jvm_end(gateway(None, port))
    assert found is not None and found.certain and "refuses connections" in found.detail
