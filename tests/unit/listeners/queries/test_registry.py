"""The registry: runs, writer generations and the causes of ends."""

from listeners.queries.registry import MAX_QUERIES, Registry
from listeners.spark.engine import Start
from tests.unit.listeners.fake_spark import ENGINE, JavaQuery, Query, Session, Writer


def test_next_run_moves_every_handle_to_it():
    registry, session = Registry(), Session()
    handle, other = Query(JavaQuery("q", "r1")), Query(JavaQuery("q", "r1"))
    entry = registry.started(handle, None, session, ENGINE)
    assert registry.entry_of(other, ENGINE.run_id(other)) is entry
    again = JavaQuery("q", "r2")
    registry.hold(entry)
    assert registry.started(Query(again), None, session, ENGINE) is entry
    assert handle._jsq is again and other._jsq is again
    assert registry.entry_of_run("r1") is entry is registry.entry_of_run("r2")


def test_configuring_or_starting_a_writer_increments_its_generation():
    registry, writer = Registry(), Writer()
    assert registry.generation(writer) == 0
    assert registry.touch(writer) == 1
    assert registry.generation(writer) == 1


def test_repeated_start_makes_the_same_call_in_the_same_scheduler_pool():
    calls = []
    session = Session()
    start = Start(
        "start",
        lambda *a, **k: calls.append((a, k)),
        "writer",
        ("path",),
        {"x": 1},
        session,
        1,
        ENGINE,
        "pool",
    )
    start.repeat()
    assert calls == [(("writer", "path"), {"x": 1})]
    assert session.entered == ["pool"]


def test_programs_own_start_leaves_older_handles_in_place():
    registry, session = Registry(), Session()
    old, new = Query(JavaQuery("q", "r1")), Query(JavaQuery("q", "r2"))
    entry = registry.started(old, None, session, ENGINE)
    registry.started(new, None, session, ENGINE)
    assert old._jsq.runId().toString() == "r1" and entry.run_id == "r2"
    assert (
        registry.entry_of(old, ENGINE.run_id(old)) is None
        and registry.entry_of(new, ENGINE.run_id(new)) is entry
    )


def test_ended_queries_are_limited_and_running_ones_always_kept():
    registry, session = Registry(), Session()
    running = registry.started(Query(JavaQuery("running", "r")), None, session, ENGINE)
    for i in range(MAX_QUERIES + 10):
        query = Query(JavaQuery(f"q{i}", f"r{i}"))
        registry.started(query, None, session, ENGINE)
        query._jsq.stop()
    registry.trim()
    assert len(registry.entries()) <= MAX_QUERIES + 1
    assert registry.entry("running") is running and registry.entry("q0") is None
    assert registry.entry_of_run("r0") is None


def test_batch_ends_the_probation_of_a_run():
    registry = Registry()
    entry = registry.started(Query(JavaQuery("q", "r1")), None, Session(), ENGINE)
    entry.probation = "r1"
    registry.on_progress("r1")
    assert not registry.ended_on_probation("r1") and not entry.held


def test_run_that_ends_on_probation_is_held():
    registry = Registry()
    entry = registry.started(Query(JavaQuery("q", "r1")), None, Session(), ENGINE)
    entry.probation = "r1"
    assert registry.ended_on_probation("r1") and entry.held


def test_commanded_ends_are_not_remembered_as_the_programs_own():
    registry, session = Registry(), Session()
    entry = registry.started(Query(JavaQuery("q", "r1")), None, session, ENGINE)
    registry.hold(entry)
    registry.started(Query(JavaQuery("q", "r2")), None, session, ENGINE)
    entry.probation = "r2"  # a command started it, and it failed before its first batch
    registry.started(Query(JavaQuery("q", "r3")), None, session, ENGINE)
    assert registry.replaced(1) == []
    registry.started(Query(JavaQuery("q", "r4")), None, session, ENGINE)
    assert [run.run_id for run in registry.replaced(1)] == ["r3"] and registry.replaced(2) == []
