"""The registry: runs follow each other, writers have generations, ends have causes."""

from listeners.queries.registry import MAX_QUERIES, Registry
from listeners.spark.engine import Start
from tests.unit.listeners.fake_spark import ENGINE, JavaQuery, Query, Session, Writer


def test_a_second_run_of_a_query_moves_every_handle_to_it():
    registry, session = Registry(), Session()
    handle, other = Query(JavaQuery("q", "r1")), Query(JavaQuery("q", "r1"))
    entry = registry.started(handle, None, session, ENGINE)
    assert registry.entry_of(other, ENGINE.run_id(other)) is entry
    again = JavaQuery("q", "r2")
    registry.hold(entry)
    assert registry.started(Query(again), None, session, ENGINE) is entry
    assert handle._jsq is again and other._jsq is again
    assert registry.entry_of_run("r1") is entry is registry.entry_of_run("r2")


def test_configuring_or_starting_a_writer_makes_its_next_generation():
    registry, writer = Registry(), Writer()
    assert registry.generation(writer) == 0
    assert registry.touch(writer) == 1
    assert registry.generation(writer) == 1


def test_repeating_a_start_makes_the_same_call_in_the_same_scheduler_pool():
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


def test_a_start_of_the_program_itself_leaves_older_handles_where_they_are():
    registry, session = Registry(), Session()
    old, new = Query(JavaQuery("q", "r1")), Query(JavaQuery("q", "r2"))
    entry = registry.started(old, None, session, ENGINE)
    registry.started(new, None, session, ENGINE)
    assert old._jsq.runId().toString() == "r1" and entry.run_id == "r2"
    assert (
        registry.entry_of(old, ENGINE.run_id(old)) is None
        and registry.entry_of(new, ENGINE.run_id(new)) is entry
    )


def test_only_so_many_ended_queries_are_kept_and_running_ones_always():
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


def test_a_run_on_probation_that_shows_a_batch_stands_on_its_own():
    registry = Registry()
    entry = registry.started(Query(JavaQuery("q", "r1")), None, Session(), ENGINE)
    entry.probation = "r1"
    registry.on_progress("r1")
    assert not registry.ended_on_probation("r1") and not entry.held


def test_a_run_that_ends_on_probation_is_held():
    registry = Registry()
    entry = registry.started(Query(JavaQuery("q", "r1")), None, Session(), ENGINE)
    entry.probation = "r1"
    assert registry.ended_on_probation("r1") and entry.held


def test_ends_that_commands_caused_are_not_the_programs_own_when_the_next_run_begins():
    registry, session = Registry(), Session()
    entry = registry.started(Query(JavaQuery("q", "r1")), None, session, ENGINE)
    registry.hold(entry)
    registry.started(Query(JavaQuery("q", "r2")), None, session, ENGINE)
    entry.probation = "r2"  # a command began it, and it failed before its first batch
    registry.started(Query(JavaQuery("q", "r3")), None, session, ENGINE)
    assert registry.replaced(1) == []
    registry.started(Query(JavaQuery("q", "r4")), None, session, ENGINE)
    assert [run.run_id for run in registry.replaced(1)] == ["r3"] and registry.replaced(2) == []
