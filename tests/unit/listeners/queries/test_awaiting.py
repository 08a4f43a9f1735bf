"""The waits: they continue through commanded ends, follow new runs and otherwise return as in Spark."""

import threading

import pytest

from listeners.protocol.errors import ConnectError, SessionGone
from listeners.queries import awaiting
from listeners.queries.registry import Registry
from tests.unit.listeners.fake_spark import ENGINE, JavaQuery, Query, Session, await_on_jvm


class Waiter(threading.Thread):
    """Runs a wait on another thread and keeps its outcome."""

    def __init__(self, act, *args):
        super().__init__(daemon=True)
        self._act, self._args, self.failure = act, args, None
        self.start()

    def run(self):
        try:
            self.result = self._act(*self._args)
        except Exception as failure:
            self.failure = failure

    def is_over(self, seconds=10.0):
        self.join(seconds)
        return not self.is_alive()


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def query(registry):
    made = Query(JavaQuery("q", "r1"))
    registry.started(made, None, Session(), ENGINE)
    return made


def wait_on(registry, query):
    return Waiter(awaiting.await_termination, registry, ENGINE, await_on_jvm, query)


def test_commanded_stop_keeps_the_wait_and_the_next_run_is_followed(registry, query):
    waiter, entry = wait_on(registry, query), registry.entry("q")
    registry.hold(entry)
    query._jsq.stop()
    assert not waiter.is_over(0.2)
    registry.started(Query(JavaQuery("q", "r2")), None, entry.session, ENGINE)
    assert not waiter.is_over(0.2)
    query._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


def test_failure_is_raised_unchanged(registry, query):
    waiter = wait_on(registry, query)
    failure = RuntimeError("poison")
    query._jsq.fail(failure)
    assert waiter.is_over() and waiter.failure is failure


def test_failure_on_probation_is_held_and_the_next_run_followed(registry, query):
    entry = registry.entry("q")
    entry.probation = "r1"
    waiter = wait_on(registry, query)
    query._jsq.fail(RuntimeError("poison"))
    assert not waiter.is_over(0.2)
    registry.started(Query(JavaQuery("q", "r2")), None, entry.session, ENGINE)
    query._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


def test_users_own_stop_releases_a_held_wait(registry, query):
    waiter = wait_on(registry, query)
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    assert not waiter.is_over(0.2)
    awaiting.stop_query(registry, ENGINE, lambda q: None, query)
    assert waiter.is_over()


def test_closing_the_registry_releases_every_wait(registry, query):
    waiter = wait_on(registry, query)
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    registry.close()
    assert waiter.is_over()


def test_timeout_argument_is_passed_to_spark(registry, query):
    seen = []
    awaiting.await_termination(registry, ENGINE, lambda q, t: seen.append(t), query, 5)
    assert seen == [5]


def test_a_query_with_unseen_start_is_waited_for_by_spark(registry):
    stranger = Query(JavaQuery("x", "rx"))
    waiter = wait_on(registry, stranger)
    stranger._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


class Manager:
    """`spark.streams`: remembers an end until it is reset, as in Spark."""

    def __init__(self, *queries):
        self._queries, self._jsqm, self.resets, self.key = list(queries), self, 0, 1
        self._reported: set = set()
        self._changed = threading.Condition()

    def active(self):
        return [query._jsq for query in self._queries if query._jsq.isActive()]

    def resetTerminated(self):
        self.resets += 1
        self._reported |= {id(query._jsq) for query in self._queries if not query._jsq.isActive()}

    def wait(self):
        for _ in range(2000):
            for query in self._queries:
                if not query._jsq.isActive() and id(query._jsq) not in self._reported:
                    if query._jsq.failure:
                        raise query._jsq.failure
                    return
            threading.Event().wait(0.01)


def wait_on_any(registry, manager):
    return Waiter(awaiting.await_any_termination, registry, ENGINE, lambda m: m.wait(), manager)


def test_await_any_continues_through_commanded_ends_and_returns_others(registry, query):
    other = Query(JavaQuery("p", "r9"))
    registry.started(other, None, Session(), ENGINE)
    manager = Manager(query, other)
    waiter = wait_on_any(registry, manager)
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    assert not waiter.is_over(0.3) and manager.resets >= 1
    other._jsq.fail(RuntimeError("poison"))
    assert waiter.is_over() and str(waiter.failure) == "poison"


def test_end_of_a_query_with_unseen_start_is_passed_on(registry, query):
    stranger = Query(JavaQuery("x", "rx"))
    waiter = wait_on_any(registry, Manager(query, stranger))
    registry.entry("q").commanded = True
    stranger._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


def test_wait_without_any_command_is_sparks_own(registry, query):
    waiter = wait_on_any(registry, Manager(query))
    query._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


def test_ends_reset_by_the_user_are_forgotten(registry, query):
    other = Query(JavaQuery("p", "r9"))
    registry.started(other, None, Session(), ENGINE)
    manager = Manager(query, other)
    other._jsq.stop()
    awaiting.reset_terminated(registry, ENGINE, lambda m: m.resetTerminated(), manager)
    waiter = wait_on_any(registry, manager)
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    assert not waiter.is_over(0.3)
    registry.close()


def test_earlier_end_in_another_session_ends_no_wait(registry, query):
    elsewhere = Query(JavaQuery("p", "r9"))
    registry.started(elsewhere, None, Session(key=2), ENGINE)
    elsewhere._jsq.stop()
    waiter = wait_on_any(registry, Manager(query))
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    assert not waiter.is_over(0.3)
    registry.close()


def test_failure_between_sparks_answer_and_the_reset_is_raised(registry, query):
    other = Query(JavaQuery("p", "r9"))
    registry.started(other, None, Session(), ENGINE)

    class Late(Manager):
        def resetTerminated(self):
            other._jsq.fail(RuntimeError("poison"))
            super().resetTerminated()

    waiter = wait_on_any(registry, Late(query, other))
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    assert waiter.is_over() and str(waiter.failure) == "poison"


def test_wait_on_a_run_replaced_by_the_program_ends_as_in_spark(registry, query):
    waiter = wait_on(registry, query)
    registry.started(Query(JavaQuery("q", "r2")), None, Session(), ENGINE)
    query._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


# -- Spark in another process, which may be unreachable --------------------------------------------


class Away(type(ENGINE)):
    """Spark does not answer; a wait raises this exception."""

    def is_outage(self, failure):
        return isinstance(failure, ConnectionError)

    def active_of(self, manager):
        raise ConnectError("no answer")


def raising(waited_on):
    raise ConnectionError("no answer")


def test_outage_in_a_wait_is_raised_and_holds_nothing(registry, query):
    entry = registry.entry("q")
    entry.probation = "r1"
    waiter = Waiter(awaiting.await_termination, registry, Away(), raising, query)
    assert waiter.is_over() and isinstance(waiter.failure, ConnectionError)
    assert not entry.held and entry.probation == "r1"


def test_await_any_during_an_outage_ends_as_in_pyspark(registry, query):
    registry.entry("q").commanded = True
    waiter = Waiter(awaiting.await_any_termination, registry, Away(), raising, Manager(query))
    assert waiter.is_over() and isinstance(waiter.failure, ConnectionError)


def test_query_that_cannot_be_asked_counts_as_running(registry, query, monkeypatch):
    def unknown():
        raise ConnectError("no answer")

    other = Query(JavaQuery("p", "r9"))
    registry.started(other, None, Session(), ENGINE)
    monkeypatch.setattr(registry.entry("q").run, "is_active", unknown)
    waiter = wait_on_any(registry, Manager(query, other))
    registry.hold(registry.entry("p"))
    other._jsq.stop()
    assert not waiter.is_over(0.3)
    registry.close()


def test_held_wait_ends_with_sparks_error_on_permanent_outage(registry, query, monkeypatch):
    class Mortal(type(ENGINE)):
        answer = None

        def permanent_outage(self, run):
            return self.answer

    monkeypatch.setattr(awaiting, "POLL_SECONDS", 0.02)
    engine = Mortal()
    waiter = Waiter(awaiting.await_termination, registry, engine, await_on_jvm, query)
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    assert not waiter.is_over(0.3)
    engine.answer = SessionGone("over")
    assert waiter.is_over() and waiter.failure is engine.answer
    assert not registry.entry("q").held


# -- ends followed by another start of the program -------------------------------------------------


def restarted_by_the_program(registry, query):
    """`p` is stopped and started again by the program; the manager remembers the end, as in Spark."""
    old, new = Query(JavaQuery("p", "r9")), Query(JavaQuery("p", "r10"))
    registry.started(old, None, Session(), ENGINE)
    registry.entry("q").commanded = True
    awaiting.stop_query(registry, ENGINE, Query.stop, old)
    registry.started(new, None, Session(), ENGINE)
    return Manager(query, old, new)


def test_await_any_returns_for_an_end_followed_by_another_start(registry, query):
    waiter = wait_on_any(registry, restarted_by_the_program(registry, query))
    assert waiter.is_over() and waiter.failure is None


def test_reset_forgets_such_an_end(registry, query):
    manager = restarted_by_the_program(registry, query)
    awaiting.reset_terminated(registry, ENGINE, lambda m: m.resetTerminated(), manager)
    waiter = wait_on_any(registry, manager)
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    assert not waiter.is_over(0.3)
    registry.close()


def test_failure_of_a_replaced_run_is_raised(registry, query):
    old = Query(JavaQuery("p", "r9"))
    registry.started(old, None, Session(), ENGINE)
    registry.entry("q").commanded = True
    old._jsq.fail(RuntimeError("poison"))
    registry.started(Query(JavaQuery("p", "r10")), None, Session(), ENGINE)
    waiter = wait_on_any(registry, Manager(query, old))
    assert waiter.is_over() and str(waiter.failure) == "poison"
