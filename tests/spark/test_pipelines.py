"""Spark's declarative pipelines: `spark-pipelines run` of the wheel, with the agent on its path and nothing else changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.spark.deployment import Deployment, Feed, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]
FLOW = "spark_catalog.default.copied"
DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession


@dp.table
def copied():
    rows = SparkSession.getActiveSession().readStream.schema("key INT, value STRING")
    rows = rows.option("maxFilesPerTrigger", 1).json({folder!r})
    return rows.selectExpr("*", "java_method('java.lang.Thread', 'sleep', cast(200 AS BIGINT)) AS slept")


@dp.materialized_view
def counted():
    return SparkSession.getActiveSession().read.table("copied").groupBy("value").count()
"""


def start(deployment: Deployment, feed: Feed) -> subprocess.Popen[bytes]:
    """The pipeline's run, begun."""
    project = deployment.directory / "project"
    (project / "transformations").mkdir(parents=True)
    (project / "transformations/copied.py").write_text(DEFINITIONS.format(folder=str(feed.directory)))
    spec = {
        "name": "project",
        "storage": (project / "storage").as_uri(),
        "libraries": [{"glob": {"include": "transformations/**"}}],
        "configuration": {"spark.sql.shuffle.partitions": "1"},
    }
    (project / "spark-pipeline.yml").write_text(json.dumps(spec))
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"} | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'listeners/site'}:{ROOT}",
        "CONTROLPLANE_URL": deployment.url,
        "CONTROLPLANE_APP": "project",
        "CONTROLPLANE_TOKEN_FILE": str(deployment.data / "agent.token"),
        "CONTROLPLANE_SPOOL_DIR": str(deployment.directory / "spool"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with open(deployment.directory / "pipeline.log", "wb") as log:
        command = [str(Path(sys.executable).with_name("spark-pipelines")), "run"]
        process = subprocess.Popen(
            command, cwd=project, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    deployment.adopt(process)
    return process


def test_a_flow_is_followed_takes_no_command_and_finishes(deployment: Deployment, feed: Feed) -> None:
    for _ in range(29):
        feed.add(3)
    process = start(deployment, feed)
    wait_for(lambda: (deployment.queries().get(FLOW) or {}).get("batch_id") is not None, 300)
    for command in ("stop", "restart"):
        refused = deployment.cli(command, FLOW)
        assert refused.returncode == 1
        assert "it is a flow of a declarative pipeline" in refused.stdout
    assert process.wait(240) == 0, (deployment.directory / "pipeline.log").read_text()[-3000:]
    assert wait_for(lambda: deployment.queries()[FLOW]["status"] == "finished")
    flow = deployment.queries()[FLOW]
    assert flow["reason"] == "Finished: processed all available data in batches 0 to 29."
    assert [batch for _, batch in deployment.batches(flow["query_id"])] == list(range(30))
    assert list(deployment.queries()) == [FLOW]  # a materialized view is a batch job
