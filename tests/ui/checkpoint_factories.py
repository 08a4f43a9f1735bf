"""Checkpoints as the server answers them: `checkpoint`, `finding`, `store`, `found`, and a fleet's worth of them."""

from __future__ import annotations

from typing import Any

from tests.ui.factories import HOSTILE, NOW, query_id, rfc3339

Json = dict[str, Any]


def checkpoint(number: int = 1, now: float = NOW, **overrides: Any) -> Json:
    """Of a query that would go on with batch 1234."""
    return {
        "query_id": query_id(number),
        "app": "orders",
        "query": f"query-{number}",
        "checkpoint": f"s3://lake/checkpoints/query-{number}",
        "verdict": "ok",
        "summary": "A start resumes at batch 1234.",
        "collected_at": rfc3339(now - 42),
        "logs_read_at": None,
        "collector": "agent",
        "why": "started",
        "spark_version": "4.3.0",
        "target_spark": "4.3.0",
        "last_planned_batch": 1233,
        "last_committed_batch": 1233,
        "next_batch": 1234,
        "bytes": 96_400_000,
        "files": 812,
        "counts": {"error": 0, "warning": 0, "info": 0},
        "collecting": False,
        "stale": False,
        "trouble": None,
        **overrides,
    }


def finding(**overrides: Any) -> Json:
    """A file of state that is gone."""
    return {
        "check": "state.version-file-missing",
        "severity": "error",
        "effect": "fails",
        "message": "batch 4411 cannot load its state: 1 file missing, first state/0/1/4411.delta: it is not there",
        "evidence": {"version": 4411, "files": ["state/0/1/4411.delta: it is not there"]},
        "when": "in the first batch",
        "condition": "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS",
        "remedy": [
            "restore the named files from a backup",
            "or run the newest batch again, which writes it anew; the plan first: "
            "`controlplane repair s3://lake/checkpoints/orders-enriched --dry-run`",
        ],
        **overrides,
    }


def note(**overrides: Any) -> Json:
    quiet = {"severity": "info", "effect": "none", "when": "", "condition": "", "evidence": {}}
    texts = {
        "check": "log.inflight",
        "message": "batch 4411 was planned and not committed: it runs again, with the same input",
        "remedy": [
            "with a sink that does not know batches by their number, look whether it took a part of it"
        ],
    }
    return finding(**{**quiet, **texts, **overrides})


def harm(**overrides: Any) -> Json:
    return finding(
        **{
            "check": "sink.metadata-ahead",
            "severity": "warning",
            "effect": "data",
            "message": "the sink has batches 4409 to 4411 already: it will skip them, and their new rows are lost",
            "when": "never: Spark does not notice",
            "condition": "",
            "remedy": ["move _spark_metadata/4409 and later away, out of the output"],
            "evidence": {"batches": [4409, 4410, 4411]},
            **overrides,
        }
    )


def store(partition: int, **overrides: Any) -> Json:
    return {
        "operator": 0,
        "partition": partition,
        "store": "default",
        "newest_version": 4411,
        "newest_snapshot": 4400,
        "expected_version": 4411,
        "files": 23,
        "bytes": 410_000 + partition * 7000,
        **overrides,
    }


def found(of: Json, now: float = NOW, **overrides: Any) -> Json:
    """The whole answer about one checkpoint."""
    durations = range(9, -1, -1)
    growth = [
        {"at": rfc3339(now - age * 7200), "bytes": 96_400_000 - age * age * 640_000, "files": 812 - age * 14}
        for age in durations
    ]
    return {
        "checkpoint": of,
        "findings": [],
        "stores": [store(partition) for partition in range(8)],
        "growth": growth,
        "shape": {
            "compared_at": rfc3339(now - 7200),
            "run_id": "00000002-aaaa-4bbb-8ccc-ddddeeeeffff",
            "previous_run_id": "00000001-aaaa-4bbb-8ccc-ddddeeeeffff",
            "verdict": "allowed",
            "findings": [],
        },
        **overrides,
    }


def change(**overrides: Any) -> Json:
    return {
        "check": "aggregation.keys",
        "severity": "warning",
        "message": "the grouping keys of operator 0 were (user), now (user, country)",
        "rule": "aggregation.keys",
        "remedy": "put the keys back, or take a new checkpoint",
        **overrides,
    }


def fleet(queries: list[Json], now: float) -> dict[str, Json]:
    """What is known of the checkpoints of these queries, by query id, worst first."""
    known = {query["query_id"]: _healthy(query, now) for query in queries}
    for number, worse in ((1, _broken(now)), (2, _unknown()), (3, _risky(now)), (50, _hostile())):
        if query_id(number) in known:
            answer = known[query_id(number)]
            answer |= {**worse, "checkpoint": {**answer["checkpoint"], **worse["checkpoint"]}}
    order = ("broken", "unreadable", "risky", "unknown", "ok")
    return dict(sorted(known.items(), key=lambda item: order.index(item[1]["checkpoint"]["verdict"])))


def _healthy(query: Json, now: float) -> Json:
    name = query["name"]
    of = checkpoint(
        now=now,
        query_id=query["query_id"],
        query=name,
        app=query["app"],
        checkpoint=f"s3://lake/checkpoints/{query['app']}/{query['query_id'][:8]}",
    )
    return found(of, now)


def _broken(now: float) -> Json:
    return {
        "checkpoint": {
            "verdict": "broken",
            "summary": "Batch 4411 cannot load its state: state/0/1/4411.delta is not there.",
            "checkpoint": "s3://lake/checkpoints/orders-enriched",
            "why": "failed",
            "last_planned_batch": 4411,
            "last_committed_batch": 4410,
            "next_batch": 4411,
            "counts": {"error": 1, "warning": 1, "info": 1},
        },
        "findings": [finding(), harm(), note()],
        "stores": [
            *(store(n) for n in range(6)),
            store(6, newest_version=4410),
            store(7, newest_version=None, newest_snapshot=None, files=0, bytes=0),
        ],
        "shape": {
            "compared_at": rfc3339(now - 7200),
            "run_id": "00000002-aaaa-4bbb-8ccc-ddddeeeeffff",
            "previous_run_id": "00000001-aaaa-4bbb-8ccc-ddddeeeeffff",
            "verdict": "consequences",
            "findings": [change()],
        },
    }


def _risky(now: float) -> Json:
    summary = "It runs, but the sink skips batches 4409 to 4411."
    return {
        "checkpoint": {"verdict": "risky", "summary": summary, "stale": True, "next_batch": 4409},
        "findings": [harm()],
    }


def _unknown() -> Json:
    nothing: Json = dict.fromkeys(("collected_at", "collector", "why", "bytes", "files", "next_batch"))
    nothing |= {"last_planned_batch": None, "last_committed_batch": None, "spark_version": None}
    trouble = "the agent is silent and the path is not below an allowed root"
    of = {"verdict": "unknown", "summary": "", "trouble": trouble, **nothing}
    return {"checkpoint": of, "findings": [], "stores": [], "growth": [], "shape": None}


def _hostile() -> Json:
    planted = f"controlplane doctor x; {HOSTILE}"
    bad = finding(
        check=HOSTILE, message=HOSTILE, condition=HOSTILE, when=HOSTILE, remedy=[HOSTILE, f"`{planted}`"],
        evidence={HOSTILE: HOSTILE},
    )  # fmt: skip
    quiet = note(check=HOSTILE, message=HOSTILE, remedy=[HOSTILE])
    of = {"verdict": "broken", "summary": HOSTILE, "checkpoint": f"s3://{HOSTILE}", "collector": HOSTILE}
    changed = {"verdict": HOSTILE, "findings": [change(message=HOSTILE, rule=HOSTILE)], "run_id": HOSTILE}
    return {
        "checkpoint": {**of, "trouble": HOSTILE, "spark_version": HOSTILE},
        "findings": [bad, quiet],
        "stores": [store(0, store=HOSTILE)],
        "shape": changed,
    }
