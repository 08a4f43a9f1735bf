"""The agent's threads without Spark: every event arrives once, every command is executed once."""

import json
import threading
import time
import tracemalloc

import pytest

from listeners.agent import AgentThreads, Identity
from listeners.delivery.inbox import Inbox
from listeners.delivery.spool import Spool
from listeners.delivery.transport import HttpTransport, ServerAcknowledgement
from listeners.protocol import wire
from listeners.protocol.errors import TooLarge, TransportError
from listeners.spark.engine import SparkOutage

APP = wire.App("or%ders", "local-1")


def wait_for(condition, timeout=90.0):
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, "not seen in time"
        time.sleep(0.01)
    return value


class ScriptedTransport:
    """Refuses as scripted (one entry for each send), then accepts and keeps everything."""

    def __init__(self, *refusals):
        self.refusals, self.taken, self.results = list(refusals), [], {}
        self.commands = []

    def send(self, lines, timeout):
        refusal = self.refusals.pop(0) if self.refusals else None
        if callable(refusal):
            refusal = refusal(lines)
        if refusal is not None:
            raise refusal
        self.taken += [json.loads(line) for line in lines]
        return ServerAcknowledgement(self.taken[-1]["seq"], 0)

    def poll(self, agent, wait):
        if self.commands:
            return [self.commands.pop(0)]
        time.sleep(0.01)
        return []

    def answer(self, command_id, result):
        self.results.setdefault(command_id, []).append(result)

    def data(self, kind):
        return [event["data"] for event in self.taken if event["type"] == kind]


@pytest.fixture
def made(tmp_path):
    agents = []

    def make(transport, execute=lambda command: wire.CommandResult("succeeded"), **extra):
        inbox = Inbox()
        agent = AgentThreads(
            Identity(APP, {"team": "a"}), inbox, transport, tmp_path, {"app": "orders"}, execute, **extra
        )
        agents.append(agent)
        agent.start()
        return agent, inbox

    yield make
    for agent in agents:
        agent.stop(0.5)


def test_events_carry_the_identity_and_count_up(made):
    transport = ScriptedTransport()
    _, inbox = made(transport)
    inbox.put("progress", '{"batchId":1}', at=5.0)
    wait_for(lambda: transport.data("progress"))
    event = next(wire.decode_event(json.dumps(e)) for e in transport.taken if e["type"] == "progress")
    assert (
        event.app == APP
        and event.labels == {"team": "a"}
        and event.at == 5.0
        and event.data == {"batchId": 1}
    )
    assert [e["seq"] for e in transport.taken] == list(range(1, len(transport.taken) + 1))


def test_reports_wait_for_the_next_request_and_anything_else_is_sent_at_once(made, monkeypatch):
    monkeypatch.setattr("listeners.agent.PACE_SECONDS", 600.0)
    transport = ScriptedTransport()
    agent, inbox = made(transport)
    wait_for(lambda: transport.taken)
    inbox.put("progress", '{"batchId":1}')
    time.sleep(1.0)
    assert not transport.data("progress")
    inbox.put("terminated", "{}")
    wait_for(lambda: transport.data("terminated"))
    assert transport.data("progress") == [{"batchId": 1}]
    inbox.put("progress", '{"batchId":2}')
    agent.stop(20.0)
    assert [report["batchId"] for report in transport.data("progress")] == [1, 2]


def test_refusals_neither_lose_nor_reorder_events(made):
    transport = ScriptedTransport(*[TransportError("away", retry_after=0.01)] * 4)
    _, inbox = made(transport)
    for i in range(1000):
        inbox.put("progress", '{"batchId":%d}' % i)
    wait_for(lambda: len(transport.data("progress")) == 1000)
    assert [p["batchId"] for p in transport.data("progress")] == list(range(1000))


def test_oversized_batch_is_split_and_its_oversized_event_dropped(made):
    def refuse_poison(lines):
        return TooLarge("413") if any(b"poison" in line for line in lines) else None

    transport = ScriptedTransport(*[refuse_poison] * 100)
    agent, inbox = made(transport)
    for data in ('{"a":1}', '{"a":"poison"}', '{"a":3}'):
        inbox.put("progress", data)
    wait_for(lambda: len(transport.data("progress")) == 2)
    assert agent.losses() == {"too_large": 1}
    agent.request_probe()
    assert wait_for(lambda: transport.data("dropped")) == [{"reason": "too_large", "count": 1}]


def test_command_delivered_twice_is_executed_once_and_answered_twice(made):
    carried_out = []

    def execute(command):
        carried_out.append(command.id)
        return wire.CommandResult("succeeded", "done")

    transport = ScriptedTransport()
    command = wire.Command("c1", "stop", "q")
    transport.commands.append(command)
    made(transport, execute)
    wait_for(lambda: transport.results.get("c1"))
    transport.commands.append(command)
    wait_for(lambda: len(transport.results["c1"]) == 2)
    assert carried_out == ["c1"]


def test_running_command_is_not_started_again(made):
    go, begun = threading.Event(), []

    def execute(command):
        begun.append(command.id)
        go.wait(10)
        return wire.CommandResult("succeeded")

    transport = ScriptedTransport()
    transport.commands += [wire.Command("c1", "stop", "q")] * 3
    made(transport, execute)
    wait_for(lambda: begun and not transport.commands)
    go.set()
    wait_for(lambda: transport.results.get("c1"))
    assert begun == ["c1"]


def test_orphaned_events_are_delivered_under_their_own_agent_id(made, tmp_path):
    dead = "11111111-1111-1111-1111-111111111111"
    left = Spool(tmp_path / dead, {"app": "orders"})
    left.append([(9, json.dumps({"seq": 9, "agent": dead, "type": "progress", "data": {}}).encode())])
    left.close()
    transport = ScriptedTransport()
    made(transport)
    wait_for(lambda: any(e.get("agent") == dead for e in transport.taken))
    wait_for(lambda: not (tmp_path / dead).exists())


def test_secrets_in_failure_texts_are_masked(made):
    transport = ScriptedTransport()
    _, inbox = made(transport, redact=lambda text: text.replace("hunter2", "***"))
    inbox.put("terminated", '{"id":"q","exception":"password=hunter2"}')
    assert wait_for(lambda: transport.data("terminated")) == [{"id": "q", "exception": "password=***"}]


@pytest.mark.parametrize("type", ["progress", "started", "status", "inventory", "heartbeat"])
def test_secrets_in_any_event_are_masked(made, type):
    transport = ScriptedTransport()
    _, inbox = made(transport)
    inbox.put(type, '{"sources":[{"description":"JDBC[jdbc:postgresql://u:hunter2@db/x?password=hunter2]"}]}')
    found = wait_for(lambda: transport.data(type))
    assert "hunter2" not in json.dumps(found)
    assert "JDBC[jdbc:postgresql://db/x?password=" in json.dumps(found)


def test_stop_delivers_the_rest_and_deletes_the_spool(made, tmp_path):
    transport = ScriptedTransport()
    agent, inbox = made(transport)
    for i in range(50):
        inbox.put("progress", '{"batchId":%d}' % i)
    agent.stop(5.0)
    assert len(transport.data("progress")) == 50
    assert not (tmp_path / agent.identity.agent).exists()


def test_stop_without_a_server_is_quick_and_keeps_the_spool(made, tmp_path):
    transport = ScriptedTransport(*[TransportError("away")] * 1000)
    agent, inbox = made(transport)
    inbox.put("progress", "{}")
    began = time.monotonic()
    agent.stop(2.0)
    assert time.monotonic() - began < 4.0
    assert list((tmp_path / agent.identity.agent).glob("*.events"))


def test_missing_status_does_not_stop_the_heartbeat(made):
    def probe():
        raise RuntimeError("py4j is gone")

    transport = ScriptedTransport()
    made(transport, probe=probe)
    heartbeat = wait_for(lambda: transport.data("heartbeat"))[0]
    assert heartbeat["actions"] == "all" and heartbeat["spool"]["events"] >= 0


def test_heartbeat_reports_lost_executors_at_once(made, monkeypatch):
    monkeypatch.setattr("listeners.agent.HEARTBEAT_SECONDS", 3600.0)
    driver = {"executors": 2}
    transport = ScriptedTransport()
    agent, _ = made(transport, probe=lambda: {"queries": [], **driver}, figures=lambda: dict(driver))
    wait_for(lambda: transport.data("status"))
    driver["executors"] = 0
    agent.request_probe()
    wait_for(lambda: transport.data("heartbeat")[-1].get("executors") == 0)


def test_heartbeat_reports_a_dead_jvm_and_its_return_at_once(made):
    alive = threading.Event()

    def probe():
        if not alive.is_set():
            raise ConnectionRefusedError("refused")
        return {"queries": []}

    transport = ScriptedTransport()
    outage = SparkOutage("jvm_exited", "the driver's JVM has ended by signal 9", certain=True)
    agent, _ = made(transport, probe=probe, outage_of=lambda error: outage)
    found = wait_for(lambda: [h["unreachable"] for h in transport.data("heartbeat") if "unreachable" in h])[0]
    assert found["cause"] == "jvm_exited" and "signal 9" in found["detail"] and found["seconds"] >= 0
    assert transport.data("status") == []
    alive.set()
    agent.request_probe()
    wait_for(lambda: transport.data("status") and "unreachable" not in transport.data("heartbeat")[-1])


def test_heartbeats_continue_while_spark_hangs(made, monkeypatch):
    monkeypatch.setattr("listeners.agent.HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr("listeners.queries.reachability.SLOW_POLL_SECONDS", 0.05)
    released = threading.Event()

    def probe():
        released.wait(20)
        return {"queries": []}

    transport = ScriptedTransport()
    made(transport, probe=probe)
    found = wait_for(lambda: [h["unreachable"] for h in transport.data("heartbeat") if "unreachable" in h])
    assert found[0]["cause"] == "no_answer"
    released.set()
    wait_for(lambda: "unreachable" not in transport.data("heartbeat")[-1])


def test_events_arrive_without_a_usable_directory(tmp_path):
    (tmp_path / "file").write_text("")
    transport, inbox = ScriptedTransport(), Inbox()
    agent = AgentThreads(
        Identity(APP, {}), inbox, transport, tmp_path / "file", {}, lambda c: wire.CommandResult("failed")
    )
    agent.start()
    inbox.put("progress", "{}")
    wait_for(lambda: transport.data("progress"))
    agent.stop(1.0)


def test_event_that_cannot_be_encoded_is_counted_and_others_arrive(made):
    def redact(text):
        raise RecursionError

    transport = ScriptedTransport()
    agent, inbox = made(transport, redact=redact)
    inbox.put("terminated", '{"exception": "x"}')
    inbox.put("progress", "not\nJSON")
    inbox.put("progress", '{"a": "%s"}' % ("x" * 2_000_000))
    inbox.put("progress", "{}")
    wait_for(lambda: transport.data("progress"))
    assert transport.data("progress") == [{}] and transport.data("terminated") == []
    assert agent.losses() == {"malformed": 2, "too_large": 1}
    seqs = [event["seq"] for event in transport.taken]
    assert seqs == list(range(1, len(seqs) + 1))


def test_losses_are_saved_on_disk_until_reported(made, tmp_path):
    transport = ScriptedTransport(*[TransportError("away")] * 1000)
    agent, inbox = made(transport)
    noted = tmp_path / agent.identity.agent / "losses.json"
    inbox.count_lost("callback_error", 3)
    inbox.put("progress", "{}")
    wait_for(lambda: noted.exists() or agent._reported)
    agent.request_probe()
    wait_for(lambda: agent._reported == {"callback_error": 3} and not noted.exists())


def test_stop_reports_the_last_losses(made):
    transport = ScriptedTransport()
    agent, inbox = made(transport)
    wait_for(lambda: transport.data("heartbeat"))
    inbox.count_lost("callback_error", 2)
    agent.stop(5.0)
    assert transport.data("dropped") == [{"reason": "callback_error", "count": 2}]


def test_flood_without_a_server_stays_within_its_memory(made):
    transport = ScriptedTransport(*[TransportError("away", retry_after=0.01)] * 100_000)
    agent, inbox = made(transport)
    text = '{"pad":"%s"}' % ("x" * 3000)
    tracemalloc.start()
    try:
        for _ in range(10):
            for _ in range(600):
                inbox.put("progress", text + " ")
            wait_for(lambda: not inbox._items)
        wait_for(lambda: agent._spool.events >= 6000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30 * 1024 * 1024 and agent.losses() == {}


def test_hanging_disk_does_not_delay_the_end_of_the_program(made):
    transport = ScriptedTransport()
    agent, inbox = made(transport)
    wait_for(lambda: transport.data("heartbeat"))
    with agent._spool_lock:  # as a thread that waits for the disk
        inbox.put("progress", "{}")
        began = time.monotonic()
        agent.stop(1.0)
        assert time.monotonic() - began < 5.0


def test_http_transport_delivers_to_a_server(recorder, tmp_path):
    inbox = Inbox()
    agent = AgentThreads(
        Identity(APP, {}),
        inbox,
        HttpTransport(recorder.url, "t"),
        tmp_path,
        {},
        lambda c: wire.CommandResult("failed"),
    )
    agent.start()
    inbox.put("progress", "{}")
    recorder.wait_for(lambda: recorder.of_type("progress"), 20)
    agent.stop(2.0)
