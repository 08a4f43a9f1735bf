"""The waits: through commanded ends, along with new runs, and out again as Spark does it."""

import threading

import pytest

from listeners.protocol.errors import ConnectError, SessionGone
from listeners.queries import awaiting
from listeners.queries.registry import Registry
from tests.unit.listeners.fake_spark import ENGINE, JavaQuery, Query, Session, await_on_jvm


class Waiter(threading.Thread):
    """Runs a wait aside and keeps how it came out."""

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


def test_a_commanded_stop_is_waited_through_and_the_next_run_followed(registry, query):
    waiter, entry = wait_on(registry, query), registry.entry("q")
    registry.hold(entry)
    query._jsq.stop()
    assert not waiter.is_over(0.2)
    registry.started(Query(JavaQuery("q", "r2")), None, entry.session, ENGINE)
    assert not waiter.is_over(0.2)
    query._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


def test_a_failure_is_raised_as_it_is(registry, query):
    waiter = wait_on(registry, query)
    failure = RuntimeError("poison")
    query._jsq.fail(failure)
    assert waiter.is_over() and waiter.failure is failure


def test_a_failure_on_probation_is_held_and_the_next_run_followed(registry, query):
    entry = registry.entry("q")
    entry.probation = "r1"
    waiter = wait_on(registry, query)
    query._jsq.fail(RuntimeError("poison"))
    assert not waiter.is_over(0.2)
    registry.started(Query(JavaQuery("q", "r2")), None, entry.session, ENGINE)
    query._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


def test_the_users_own_stop_frees_a_held_wait(registry, query):
    waiter = wait_on(registry, query)
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    assert not waiter.is_over(0.2)
    awaiting.stop(registry, ENGINE, lambda q: None, query)
    assert waiter.is_over()


def test_closing_the_registry_frees_every_wait(registry, query):
    waiter = wait_on(registry, query)
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    registry.close()
    assert waiter.is_over()


def test_a_timeout_argument_is_sparks_business(registry, query):
    seen = []
    awaiting.await_termination(registry, ENGINE, lambda q, t: seen.append(t), query, 5)
    assert seen == [5]


def test_a_query_that_we_did_not_see_start_is_sparks_business(registry):
    stranger = Query(JavaQuery("x", "rx"))
    waiter = wait_on(registry, stranger)
    stranger._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


class Manager:
    """`spark.streams`: remembers an end until it is reset, as Spark does."""

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
    return Waiter(awaiting.await_any, registry, ENGINE, lambda m: m.wait(), manager)


def test_waiting_for_any_goes_on_through_commanded_ends_and_tells_others(registry, query):
    other = Query(JavaQuery("p", "r9"))
    registry.started(other, None, Session(), ENGINE)
    manager = Manager(query, other)
    waiter = wait_on_any(registry, manager)
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    assert not waiter.is_over(0.3) and manager.resets >= 1
    other._jsq.fail(RuntimeError("poison"))
    assert waiter.is_over() and str(waiter.failure) == "poison"


def test_an_end_of_a_query_we_did_not_start_is_passed_on(registry, query):
    stranger = Query(JavaQuery("x", "rx"))
    waiter = wait_on_any(registry, Manager(query, stranger))
    registry.entry("q").commanded = True
    stranger._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


def test_without_any_command_the_wait_is_sparks(registry, query):
    waiter = wait_on_any(registry, Manager(query))
    query._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


def test_ends_that_the_user_reset_are_forgotten(registry, query):
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


def test_a_query_of_another_session_that_ended_long_ago_ends_no_wait(registry, query):
    elsewhere = Query(JavaQuery("p", "r9"))
    registry.started(elsewhere, None, Session(key=2), ENGINE)
    elsewhere._jsq.stop()
    waiter = wait_on_any(registry, Manager(query))
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    assert not waiter.is_over(0.3)
    registry.close()


def test_a_failure_between_sparks_answer_and_our_reset_is_still_raised(registry, query):
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


def test_a_wait_on_a_run_that_the_program_replaced_ends_as_in_spark(registry, query):
    waiter = wait_on(registry, query)
    registry.started(Query(JavaQuery("q", "r2")), None, Session(), ENGINE)
    query._jsq.stop()
    assert waiter.is_over() and waiter.failure is None


# -- where Spark is another process and may be away ------------------------------------------------


class Away(type(ENGINE)):
    """Spark cannot be asked; a wait says so by this exception."""

    def is_outage(self, failure):
        return isinstance(failure, ConnectionError)

    def active_of(self, manager):
        raise ConnectError("no answer")


def raising(waited_on):
    raise ConnectionError("no answer")


def test_an_outage_in_a_wait_is_raised_as_pyspark_does_and_holds_nobody(registry, query):
    entry = registry.entry("q")
    entry.probation = "r1"
    waiter = Waiter(awaiting.await_termination, registry, Away(), raising, query)
    assert waiter.is_over() and isinstance(waiter.failure, ConnectionError)
    assert not entry.held and entry.probation == "r1"


def test_a_wait_for_any_begins_although_spark_cannot_be_asked_and_ends_as_pyspark_does(registry, query):
    registry.entry("q").commanded = True
    waiter = Waiter(awaiting.await_any, registry, Away(), raising, Manager(query))
    assert waiter.is_over() and isinstance(waiter.failure, ConnectionError)


def test_a_query_of_which_nothing_can_be_learned_counts_as_running(registry, query, monkeypatch):
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


def test_a_held_wait_ends_with_what_spark_answers_once_it_is_gone(registry, query, monkeypatch):
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


# -- ends that the program has followed by another start -------------------------------------------


def restarted_by_the_program(registry, query):
    """`p` is stopped and started again by the program itself; the manager that Spark would have."""
    old, new = Query(JavaQuery("p", "r9")), Query(JavaQuery("p", "r10"))
    registry.started(old, None, Session(), ENGINE)
    registry.entry("q").commanded = True
    awaiting.stop(registry, ENGINE, Query.stop, old)
    registry.started(new, None, Session(), ENGINE)
    return Manager(query, old, new)


def test_waiting_for_any_tells_of_an_end_that_the_program_has_followed_by_another_start(registry, query):
    waiter = wait_on_any(registry, restarted_by_the_program(registry, query))
    assert waiter.is_over() and waiter.failure is None


def test_a_reset_forgets_such_an_end(registry, query):
    manager = restarted_by_the_program(registry, query)
    awaiting.reset_terminated(registry, ENGINE, lambda m: m.resetTerminated(), manager)
    waiter = wait_on_any(registry, manager)
    registry.hold(registry.entry("q"))
    query._jsq.stop()
    assert not waiter.is_over(0.3)
    registry.close()


def test_the_failure_of_a_run_that_the_program_has_replaced_is_raised(registry, query):
    old = Query(JavaQuery("p", "r9"))
    registry.started(old, None, Session(), ENGINE)
    registry.entry("q").commanded = True
    old._jsq.fail(RuntimeError("poison"))
    registry.started(Query(JavaQuery("p", "r10")), None, Session(), ENGINE)
    waiter = wait_on_any(registry, Manager(query, old))
    assert waiter.is_over() and str(waiter.failure) == "poison"
