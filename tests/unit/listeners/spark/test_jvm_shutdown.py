"""The JVM's shutdown hook: only a signal is reported."""

import threading
from types import SimpleNamespace

import pytest

from listeners.spark import jvm_shutdown
from listeners.spark.jvm_shutdown import on_signal


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
