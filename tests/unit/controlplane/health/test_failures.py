"""What Spark's exceptions mean. The texts in `tests/data/failures` are Spark's own, stack frames cut."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.health.failure_catalogue import RULES, UNKNOWN, rule_of
from controlplane.health.failures import explain, headline
from tests.paths import DATA

TEXTS = DATA / "failures"
DELTA_GONE = "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"
FOREACH = "FOREACH_BATCH_USER_FUNCTION_ERROR"


def text(name: str) -> str:
    return (TEXTS / f"{name}.txt").read_text(encoding="utf-8")


def rows(name: str) -> list[list[str]]:
    """The fields of a table's lines."""
    lines = (TEXTS / name).read_text(encoding="utf-8").splitlines()
    return [line.replace("\\n", "\n").split("\t") for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    ("name", "error_class", "condition", "root_cause", "retry"),
    [
        ("state-delta-missing", DELTA_GONE, DELTA_GONE, "java.io.FileNotFoundException: File file:", "never"),
        (
            "foreach-batch-state-missing-as-raised",
            FOREACH,
            DELTA_GONE,
            "java.io.FileNotFoundException",
            "never",
        ),
        ("foreach-batch-value-error", FOREACH, FOREACH, "ValueError: boom in batch 0", "once"),
        ("foreach-batch-value-error-as-raised", None, FOREACH, "ValueError: boom in batch 0", "once"),
        (
            "foreach-batch-cast",
            FOREACH,
            "CAST_INVALID_INPUT",
            "pyspark.errors.exceptions.captured.Num",
            "never",
        ),
        ("python-worker-without-module", None, "PYTHON_EXCEPTION", "ModuleNotFoundError: No module", "never"),
        ("metadata-missing", None, "STREAMING_CHECKPOINT_MISSING_METADATA_FILE", None, "never"),
        ("commit-ahead", "CONCURRENT_STREAM_LOG_UPDATE", "CONCURRENT_STREAM_LOG_UPDATE", None, "never"),
        ("offset-log-empty", None, None, "java.lang.IllegalStateException: Incomplete log file", "never"),
        ("offset-log-empty-as-raised", None, None, None, "never"),
        ("spark-3.5-state-delta-missing", None, None, "java.io.FileNotFoundException: File hdfs", "never"),
    ],
)
def test_sparks_own_texts_are_understood(name, error_class, condition, root_cause, retry) -> None:
    failure = explain(text(name), error_class)
    assert (failure.condition, failure.retry) == (condition, retry)
    assert (failure.root_cause or "").startswith(root_cause or "")
    assert (failure.root_cause is None) == (root_cause is None)
    assert failure.text == text(name)


@pytest.mark.parametrize(("retry", "condition", "text"), rows("chains.tsv"))
def test_the_innermost_reporting_condition_counts(retry: str, condition: str, text: str) -> None:
    failure = explain(text)
    assert (failure.condition, failure.retry) == (condition, retry)


@pytest.mark.parametrize(("retry", "expected", "message"), rows("messages.tsv"))
def test_messages_without_a_condition_are_known_by_their_text(
    retry: str, expected: str, message: str
) -> None:
    failure = explain(
        f"org.apache.spark.SparkException: Job aborted\n\tat x.y(Z.scala:1)\nCaused by: {message}"
    )
    assert (failure.condition, failure.retry) == (None, retry)
    assert expected in failure.advice


@pytest.mark.parametrize(
    ("cause", "retry", "advice"),
    [
        ("Rename destination file:/ck/commits/.3.crc already exists.", "once", "`.crc`"),
        ("other", "never", "other driver"),
    ],
)
def test_a_file_in_the_way_is_no_second_driver(cause: str, retry: str, advice: str) -> None:
    text = "org.apache.spark.SparkConcurrentModificationException: Multiple streaming queries are concurrently using file:/ck."
    found = explain(
        f"{text}\n\tat x.y(Z.scala:1)\nCaused by: org.apache.hadoop.fs.FileAlreadyExistsException: {cause}",
        "_LEGACY_ERROR_TEMP_2207",
    )
    assert found.retry == retry and advice in found.advice


def test_the_names_in_a_plan_dump_are_no_conditions() -> None:
    plan = (
        "boom\n=== Streaming Query ===\nCurrent Offsets: {}\nProject [STATE_STORE_X]\n\n\tat a.b(C.scala:1)\n"
    )
    assert explain(plan).condition is None
    assert explain(plan + "Caused by: [DIVIDE_BY_ZERO] x").condition == "DIVIDE_BY_ZERO"


def test_sparks_own_answer_counts_where_the_text_names_no_condition() -> None:
    assert explain("no brackets here", "CONCURRENT_STREAM_LOG_UPDATE").retry == "never"
    assert explain(None, "STREAM_FAILED").condition is None


def test_the_message_is_one_line_without_envelope_and_sqlstate() -> None:
    as_raised = explain(text("offset-log-empty-as-raised")).message
    assert as_raised == "Failed to read log file file:/data/checkpoints/e/offsets/3. Incomplete log file"
    assert explain(text("commit-ahead")).message.endswith("Multiple streaming jobs detected for 2.")
    assert explain(text("foreach-batch-value-error-as-raised")).message == "ValueError: boom in batch 0"


def test_a_headline_reports_what_is_inside_a_wrapper_and_only_then() -> None:
    assert (
        headline(explain(text("foreach-batch-value-error"), FOREACH))
        == f"{FOREACH} (ValueError: boom in batch 0)"
    )
    assert headline(explain(text("state-delta-missing"))) == DELTA_GONE
    assert headline(explain("plain boom")) == "plain boom"


@pytest.mark.parametrize(
    ("name", "error_class", "kind"),
    [
        ("state-delta-missing", None, DELTA_GONE),
        ("foreach-batch-value-error", FOREACH, FOREACH),
        ("foreach-batch-state-missing-as-raised", FOREACH, DELTA_GONE),
        ("spark-3.5-state-delta-missing", None, "state-file-missing"),
        ("offset-log-empty", None, "log-torn"),
        ("python-worker-without-module", None, "missing-class"),
    ],
)
def test_series_name_a_failure_by_its_condition_else_by_what_its_messages_report(
    name: str, error_class: str | None, kind: str
) -> None:
    assert explain(text(name), error_class).kind == kind


def test_a_failure_of_which_nothing_is_known_is_of_the_kind_unknown() -> None:
    assert explain("plain boom").kind == explain(None).kind == "unknown"
    assert explain("boom", "STREAM_FAILED").kind == "unknown"
    assert len(explain("x", "A_" * 500).kind) == 200


def test_a_failure_without_text_is_still_a_failure() -> None:
    failure = explain(None)
    assert (failure.message, failure.retry, failure.advice) == ("no exception text", "once", UNKNOWN.advice)


def test_an_endless_text_is_read_at_both_ends() -> None:
    endless = (
        "[STREAM_FAILED] outer\n" + "\tat a.b(C.scala:1)\n" * 100_000 + "Caused by: x: [DIVIDE_BY_ZERO] y"
    )
    assert explain(endless).condition == "DIVIDE_BY_ZERO"


@given(st.text() | st.none(), st.text() | st.none())
def test_any_text_at_all_is_explained(strange: str | None, error_class: str | None) -> None:
    failure = explain(strange, error_class)
    assert failure.retry in ("now", "once", "never")
    assert failure.advice


def test_every_rule_has_advice_of_one_sentence() -> None:
    for rule in RULES:
        assert rule.retry in ("now", "later", "once", "never")
        assert rule.advice[0].isupper() and rule.advice.endswith(".") and "\n" not in rule.advice, rule.names


#: A condition is ours by its name, its parent's, or by what it states.
OURS_BY_NAME = re.compile(
    "STREAM|STATE_?STORE|STATEFUL|CHECKPOINT|CHANGELOG|WATERMARK|MICRO_?BATCH|STDS_|REAL_TIME|OFFSET"
    "|WITH_STATE|STATE_REPARTITION|STATE_REWRITER|TWS|FOREACH|EVENT_TIME|KAFKA"
)
OURS_BY_TEXT = re.compile(
    "stream(?!line)|state ?store|stateful|watermark|checkpoint|micro-?batch", re.IGNORECASE
)
#: They speak of streams or checkpoints, but name no trouble of their own: what is inside counts.
ONLY_WRAPPERS = {
    "_LEGACY_ERROR_TEMP_2059",  # end of a stream of bytes
    "_LEGACY_ERROR_TEMP_2131",  # a listener could not be registered
    "_LEGACY_ERROR_TEMP_3011",  # an RDD without a context; it names Spark Streaming as one way to get there
}


def sparks_conditions() -> dict[str, str]:
    """What each condition and sub-condition of the Spark that is installed states."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        pytest.skip("pyspark is not installed: pip install 'spark-controlplane[pipeline]'")
    printed: dict[str, str] = {}
    for jar in Path(spec.origin).parent.glob("jars/spark-common-utils_*.jar"):
        with zipfile.ZipFile(jar) as archive:
            printed.update(_flat(json.loads(archive.read("error/error-conditions.json"))))
    return printed


def _flat(tree: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, condition in tree.items():
        yield name, " ".join(condition.get("message", []))
        for sub, within in condition.get("subClass", {}).items():
            yield f"{name}.{sub}", " ".join(within.get("message", []))


def of_streams() -> list[str]:
    printed = sparks_conditions()
    return sorted(
        n for n, expected in printed.items() if OURS_BY_NAME.search(n) or OURS_BY_TEXT.search(expected)
    )


def test_every_condition_of_streaming_and_state_is_classified() -> None:
    conditions = of_streams()
    assert len(conditions) > 240
    assert [name for name in conditions if rule_of(name) is None] == []


def test_no_condition_of_streaming_is_known_only_as_one_of_the_unnamed() -> None:
    unnamed = rule_of("_LEGACY_ERROR_TEMP_9999")
    assert unnamed is not None
    assert {n for n in of_streams() if rule_of(n) is unnamed} - ONLY_WRAPPERS == set()


def test_no_rule_names_a_condition_of_state_or_streams_that_spark_does_not_have() -> None:
    known = sparks_conditions()
    named = {
        name
        for rule in RULES
        for name in rule.names
        if name.startswith(("STATE", "STREAM", "STDS", "CANNOT_LOAD"))
    }
    assert [n for n in sorted(named) if not any(k == n or k.startswith(n.rstrip("*")) for k in known)] == []


def test_advice_on_state_providers_is_only_for_what_a_provider_lacks() -> None:
    assert "RocksDB" in explain("[UNSUPPORTED_FEATURE.STATE_STORE_TTL] x").advice
    assert "RocksDB" not in explain("[UNSUPPORTED_FEATURE.SET_VARIABLE_USING_SET] x").advice


POLICY = {
    "now": """
        STATE_STORE_OPERATION_OUT_OF_ORDER STATE_STORE_UNEXPECTED_EMPTY_FILE_IN_ROCKSDB_ZIP
        DELTA_SCHEMA_CHANGED_WITH_VERSION
    """,
    "once": """
        CANNOT_LOAD_STATE_STORE.HDFS_STORE_PROVIDER_OUT_OF_MEMORY
        CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY
        CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.COMMIT_LOG
        STREAMING_ASYNC_OPERATION_FAILED CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED
        FOREACH_USER_FUNCTION_ERROR
    """,
    "never": """
        CANNOT_LOAD_STATE_STORE.CANNOT_READ_MISSING_SNAPSHOT_FILE
        CANNOT_LOAD_STATE_STORE.AUTO_SNAPSHOT_REPAIR_FAILED
        CANNOT_LOAD_STATE_STORE.INVALID_CHECKPOINT_LINEAGE
        CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_READER_VERSION STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE
        STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE STATE_STORE_INVALID_CONFIG_AFTER_RESTART
        STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY
        STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA STREAMING_CHECKPOINT_MISSING_METADATA_FILE
        STREAMING_QUERY_EVOLUTION_ERROR.DUPLICATE_SOURCE_NAMES CONCURRENT_STREAM_LOG_UPDATE
        UNSUPPORTED_FEATURE.STATE_STORE_TTL EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED
        UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK PIPELINED_SHUFFLE_UNSUPPORTED
        AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY _LEGACY_ERROR_TEMP_1181 _LEGACY_ERROR_TEMP_2263
    """,
}


@pytest.mark.parametrize(("retry", "conditions"), POLICY.items(), ids=POLICY)
def test_the_policy_on_each_named_condition_is_as_decided(retry: str, conditions: str) -> None:
    assert {explain(f"[{name}] x").retry for name in conditions.split()} == {retry}
