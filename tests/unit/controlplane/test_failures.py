"""What Spark's exceptions mean. The texts in `tests/data/failures` are Spark's own, stack frames cut."""

from __future__ import annotations

import json
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.failure_catalogue import RULES, UNKNOWN, rule_of
from controlplane.failures import explain, headline

TEXTS = Path(__file__).parents[2] / "data" / "failures"
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
def test_the_innermost_telling_condition_counts(retry: str, condition: str, text: str) -> None:
    failure = explain(text)
    assert (failure.condition, failure.retry) == (condition, retry)


@pytest.mark.parametrize(("retry", "words", "message"), rows("messages.tsv"))
def test_messages_without_a_condition_are_known_by_their_text(retry: str, words: str, message: str) -> None:
    failure = explain(
        f"org.apache.spark.SparkException: Job aborted\n\tat x.y(Z.scala:1)\nCaused by: {message}"
    )
    assert (failure.condition, failure.retry) == (None, retry)
    assert words in failure.advice


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


def test_a_headline_tells_what_is_inside_a_wrapper_and_only_then() -> None:
    assert (
        headline(explain(text("foreach-batch-value-error"), FOREACH))
        == f"{FOREACH} (ValueError: boom in batch 0)"
    )
    assert headline(explain(text("state-delta-missing"))) == DELTA_GONE
    assert headline(explain("plain boom")) == "plain boom"


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


def test_every_rule_says_what_to_do_in_a_sentence() -> None:
    for rule in RULES:
        assert rule.retry in ("now", "once", "never")
        assert rule.advice[0].isupper() and rule.advice.endswith(".") and "\n" not in rule.advice, rule.names


PREFIXES = ("STATE_STORE_", "CANNOT_LOAD_STATE_STORE", "STREAMING_", "CONCURRENT_STREAM", "STDS_", "STREAM_")


def sparks_conditions() -> list[str]:
    """All conditions, with their sub-conditions, of the Spark that is installed."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        pytest.skip("pyspark is not installed: pip install 'spark-controlplane[pipeline]'")
    names = []
    for jar in Path(spec.origin).parent.glob("jars/spark-common-utils*.jar"):
        with zipfile.ZipFile(jar) as archive:
            if "error/error-conditions.json" in archive.namelist():
                tree = json.loads(archive.read("error/error-conditions.json"))
                names += [f"{name}.{sub}" for name in tree for sub in tree[name].get("subClass", {})] + [
                    *tree
                ]
    return sorted(name for name in names if name.startswith(PREFIXES))


def test_every_condition_of_streaming_and_state_is_classified() -> None:
    conditions = sparks_conditions()
    assert len(conditions) > 100
    assert [name for name in conditions if rule_of(name) is None] == []


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
        UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK
    """,
}


@pytest.mark.parametrize(("retry", "conditions"), POLICY.items(), ids=POLICY)
def test_the_policy_on_each_named_condition_is_as_decided(retry: str, conditions: str) -> None:
    assert {explain(f"[{name}] x").retry for name in conditions.split()} == {retry}
