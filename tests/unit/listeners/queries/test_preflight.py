"""Preflight: fail-open in every case, and a refusal with remedies."""

import threading
from types import SimpleNamespace

import pytest

from listeners.protocol.errors import AgentError, TransportError
from listeners.queries import preflight
from listeners.queries.preflight import (
    NEW_QUERY,
    Preflight,
    QueryNotStarted,
    checked_mode,
    query_id_at,
    refusal_message,
)
from listeners.spark.guard import StartRefused
from tests.unit.listeners.local_files import LocalFiles, write_checkpoint

REFUSAL = {
    "verdict": "not_allowed",
    "findings": [
        {"check": "shape.filters", "severity": "info", "message": "filters changed", "remedy": []},
        {
            "check": "shape.sources.count",
            "severity": "error",
            "message": "2 sources became 1",
            "remedy": ["Put the sources back."],
        },
    ],
    "against": {"run_id": "0123456789abcdef", "at": 1.0},
}


@pytest.fixture
def ask(monkeypatch):
    """`ask(answer)`: the outcome of a start when the server gives that answer; a callable is called."""
    monkeypatch.setattr(
        preflight, "request_body", lambda app, planned, name, query_id, redact: {"app": app, "name": name}
    )
    monkeypatch.setattr(preflight, "query_id_at", lambda session, checkpoint, open_files: checkpoint)
    planned = SimpleNamespace(checkpoint=lambda: ask.checkpoint)
    monkeypatch.setattr(preflight, "Planned", lambda writer, method, args, kwargs: planned)
    start = SimpleNamespace(
        session=SimpleNamespace(_jsparkSession=object()), writer=None, method="start", args=(), kwargs={}
    )

    def ask(answer, seconds=20.0, session=None):
        def server(body, left):
            assert body == {"app": "app", "name": "orders"} and 0 < left <= seconds
            return answer() if callable(answer) else answer

        start.session = session or start.session
        Preflight("app", server, None, None, seconds).before_start(start, "orders")

    ask.checkpoint = "q1"
    return ask


def test_disallowed_start_is_refused_with_findings_and_override(ask):
    with pytest.raises(QueryNotStarted) as refused:
        ask(REFUSAL)
    assert str(refused.value) == (
        "the query 'orders' was not started: it would not restart from its checkpoint (compared with run 01234567)\n"
        "- 2 sources became 1\n"
        "  Put the sources back.\n"
        "To start it anyway, set CONTROLPLANE_PREFLIGHT=report."
    )
    assert isinstance(refused.value, StartRefused) and isinstance(refused.value, AgentError)


@pytest.mark.parametrize(
    "answer",
    [
        {"verdict": "allowed", "findings": []},
        {"verdict": "consequences", "findings": REFUSAL["findings"]},
        {"verdict": "unknown"},
        {},
        None,
        [REFUSAL],
        "not_allowed",
    ],
)
def test_any_other_answer_lets_the_query_start(ask, answer):
    ask(answer)


def test_error_lets_the_query_start_with_one_log_line(ask, caplog):
    def fail():
        raise TransportError("no answer from http://server:\n refused")

    ask(fail)
    (record,) = caplog.records
    assert record.message == "preflight: no answer from http://server: refused; the query starts"


def test_hanging_server_lets_the_query_start_after_the_timeout(ask, caplog):
    free = threading.Event()
    ask(lambda: free.wait(60) and REFUSAL, seconds=0.05)
    free.set()
    assert "no answer within" in caplog.text


def test_connect_client_is_not_delayed(ask, caplog):
    ask(REFUSAL, session=SimpleNamespace())
    assert "Spark Connect" in caplog.text


@pytest.mark.parametrize(
    "hostile",
    [
        {"verdict": "not_allowed"},
        {"verdict": "not_allowed", "findings": "x", "against": 3},
        {"verdict": "not_allowed", "findings": [3, {"message": None, "remedy": 5}], "against": {"run_id": 7}},
    ],
)
def test_malformed_refusal_is_still_a_message(hostile):
    assert "was not started" in refusal_message(hostile, None)


def test_long_refusal_is_a_short_message():
    many = [{"severity": "error", "message": "x" * 5000, "remedy": ["y" * 5000] * 9}] * 50
    assert len(refusal_message({"verdict": "not_allowed", "findings": many}, "q")) < 15_000


def test_unknown_mode_refuses_nothing(caplog):
    assert [checked_mode(text) for text in (None, "", "Block", "off", "blok")] == [
        "report",
        "report",
        "block",
        "off",
        "report",
    ]
    assert "CONTROLPLANE_PREFLIGHT" in caplog.text


def test_new_checkpoint_is_not_compared(ask):
    """A deleted checkpoint was refused, with the advice to delete it."""
    ask.checkpoint = NEW_QUERY
    ask(REFUSAL)


def opened(root):
    return query_id_at(None, str(root), lambda session, location: LocalFiles(root))


def test_query_id_is_that_of_the_checkpoint_s_metadata(tmp_path):
    write_checkpoint(tmp_path / "c")
    (tmp_path / "c/metadata").write_text('{"id":"5e6f"}')
    assert opened(tmp_path / "c") == "5e6f"


def test_deleted_and_temporary_checkpoints_begin_a_new_query(tmp_path):
    (tmp_path / "empty/offsets").mkdir(parents=True)
    assert [opened(tmp_path / "gone"), opened(tmp_path / "empty")] == [NEW_QUERY, NEW_QUERY]
    assert query_id_at(None, None, None) == NEW_QUERY


@pytest.mark.parametrize("content", ["", "[]", "{}", None])
def test_query_id_of_a_damaged_checkpoint_is_unknown(tmp_path, content):
    write_checkpoint(tmp_path)
    (tmp_path / "metadata").unlink() if content is None else (tmp_path / "metadata").write_text(content)
    assert opened(tmp_path) is None
