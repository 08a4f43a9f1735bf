"""The JVM's end: only a signal is reported by its hook, and how a JVM has ended is certain or unknown."""

import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from listeners.spark import jvm_shutdown
from listeners.spark.jvm_shutdown import jvm_end, on_signal


class Jvm:
    """A JVM with threads of these names; `hooks` are its shutdown hooks."""

    def __init__(self, *names):
        self.hooks = []
        text = "[" + ", ".join(f"Thread[#{n},{name},9,system]" for n, name in enumerate(names)) + "]"
        traces = SimpleNamespace(keySet=lambda: SimpleNamespace(toString=lambda: text))

        class Thread:
            def __init__(self, runnable):
                self.runnable = runnable

            @staticmethod
            def getAllStackTraces():
                return traces

        runtime = SimpleNamespace(addShutdownHook=self.hooks.append, removeShutdownHook=self.hooks.remove)
        self.java = SimpleNamespace(
            lang=SimpleNamespace(Thread=Thread, Runtime=SimpleNamespace(getRuntime=lambda: runtime))
        )


@pytest.mark.parametrize(
    ("thread", "reasons"),
    [
        ("SIGTERM handler", ["sigterm"]),
        ("SIGHUP handler", ["sigterm"]),
        ("SIGINT handler", ["sigint"]),
        ("stream execution thread for SIGTERM", []),
        ("DestroyJavaVM", []),
    ],
)
def test_only_a_signal_is_reported(thread, reasons):
    jvm, reported = Jvm("main", thread), []
    remove = on_signal(jvm, reported.append)
    jvm.hooks[0].runnable.run()
    assert reported == reasons
    remove()
    assert jvm.hooks == []


def test_report_that_fails_does_not_raise_into_the_jvm():
    jvm = Jvm("SIGTERM handler")
    on_signal(jvm, lambda reason: 1 / 0)
    jvm.hooks[0].runnable.run()


def test_report_that_hangs_does_not_keep_the_jvm(monkeypatch):
    monkeypatch.setattr(jvm_shutdown, "REPORT_SECONDS", 0.05)
    jvm, released, finished = Jvm("SIGTERM handler"), threading.Event(), threading.Event()

    def report(reason):
        released.wait(20)
        finished.set()

    on_signal(jvm, report)
    jvm.hooks[0].runnable.run()
    assert not finished.is_set()
    released.set()
    assert finished.wait(20)


def gateway(process=None, port=1):
    where = SimpleNamespace(address="127.0.0.1", port=port)
    return SimpleNamespace(proc=process, gateway_parameters=where)


@pytest.mark.parametrize(
    ("code", "detail", "by_sigterm"),
    [(137, "exit code 137", False), (-9, "signal 9", False), (-15, "signal 15", True), (143, "143", True)],
)
def test_end_of_the_jvm_process_is_certain(code, detail, by_sigterm) -> None:
    found = jvm_end(gateway(SimpleNamespace(poll=lambda: code, wait=lambda seconds: code)))
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


def test_jvm_whose_sockets_are_closed_already_is_awaited() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    ending = SimpleNamespace(poll=lambda: None, wait=lambda seconds: -9)
    found = jvm_end(gateway(ending, port))
    assert found is not None and found.certain and "signal 9" in found.detail


def test_jvm_that_closed_its_gateway_and_runs_on_has_not_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

    def wait(seconds: float) -> int:
        raise subprocess.TimeoutExpired("java", seconds)

    assert jvm_end(gateway(SimpleNamespace(poll=lambda: None, wait=wait), port)) is None
