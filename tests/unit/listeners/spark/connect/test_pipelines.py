"""Flows of a declarative pipeline: recognized by the command's module, reported with the trigger that Spark gives them."""

import json
import sys

import pytest

from listeners.spark.connect import pipelines
from listeners.spark.connect.event_dedup import EventDeduplicator
from listeners.spark.connect.session import ConnectRun

IDS = "80cc4e9e-2e99-46a5-abf2-fd2776628b97", "1d06129d-6689-4411-9c16-9b0eaa3dd3dd"


def started():
    (event,) = EventDeduplicator().run_started(*IDS, "spark_catalog.default.copied")
    return json.loads(event.data)


def test_another_program_has_no_flows():
    assert not pipelines.runs_pipeline()
    assert "facts" not in started()
    assert ConnectRun(None, *IDS, "q").facts() == {}


def test_a_flow_reads_what_is_available(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, pipelines.COMMAND_MODULE, sys)
    assert pipelines.runs_pipeline()
    assert started()["facts"] == {"trigger": "available_now"}
    assert ConnectRun(None, *IDS, "q").facts() == {"trigger": "available_now"}
