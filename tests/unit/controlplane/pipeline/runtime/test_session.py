"""What Spark throws, reported in one line."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException

from controlplane.pipeline.runtime.session import SparkFailed, error_line, spark_errors
from controlplane.pipeline.runtime.shipping import is_local

WRAPPED = """An error occurred while calling o60.parquet.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.Utils.awaitResult(Utils.scala:1)
Caused by: java.lang.RuntimeException: file:/lake/a.parquet is not a Parquet file
"""


@pytest.mark.parametrize(
    "error",
    [Py4JError(WRAPPED), AnalysisException("file:/lake/a.parquet is not a Parquet file")],
    ids=["py4j", "spark"],
)
def test_an_error_of_spark_is_one_line_that_names_the_file(error: Exception) -> None:
    with pytest.raises(SparkFailed) as raised, spark_errors("it cannot be read"):
        raise error
    printed = str(raised.value)
    assert printed.startswith("it cannot be read: ") and "/lake/a.parquet is not a Parquet file" in printed
    assert len(printed.splitlines()) == 1


def test_an_error_without_a_message_is_shown_by_its_type() -> None:
    assert error_line(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://local:7077", False),
        ("yarn", False),
    ],
)
def test_a_master_on_this_machine_is_known(master: str, local: bool) -> None:
    assert is_local(master) is local
