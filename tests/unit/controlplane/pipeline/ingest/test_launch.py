"""What is said where Spark's own process ends under the job."""

from __future__ import annotations

import threading

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from controlplane.pipeline.ingest.ingest_job import IngestFailed
from controlplane.pipeline.ingest.launch import _jvm_alive


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "refused"),
        Py4JNetworkError("no answer"),
        Py4JError("o1.count"),
        EOFError(),
    ],
    ids=["refused", "network", "call", "end"],
)
@pytest.mark.parametrize(("reported", "why"), [(False, "out of memory, or killed"), (True, "it was stopped")])
def test_a_jvm_that_ended_is_reported_in_one_line(error: Exception, reported: bool, why: str) -> None:
    stopping = threading.Event()
    if reported:
        stopping.set()
    with pytest.raises(IngestFailed, match=why), _jvm_alive(stopping):
        raise error


def test_an_error_of_the_disk_is_not_mistaken_for_it() -> None:
    with pytest.raises(FileNotFoundError), _jvm_alive(threading.Event()):
        raise FileNotFoundError("x")
