"""The Spark session of a job: the active one, the one spark-submit configured, else a local one.

Called by every job of the pipeline. Python workers use the driver's interpreter; times are UTC.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from controlplane.errors import ControlPlaneError
from controlplane.pipeline.runtime.shipping import is_local, ship_packages
from controlplane.runtime.java import java_environment

SPARK_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOG_LEVEL = "spark.log.level"
#: Settings of workers on the driver's machine. Over TCP, each task would wait 40 ms for an acknowledgement
#: that the kernel delays. Spark 4.1 and newer; older versions ignore the first.
LOCAL_WORKER_SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "controlplane.pipeline.runtime.worker_daemon",
}
#: Marks sessions created here: no other session is stopped.
OWNED_SETTING = "spark.controlplane.job"
LOG4J_FILE = Path(__file__).with_name("log4j2.properties")
#: Variables in which spark-submit passes the master.
SUBMIT_VARIABLES = ("MASTER", "SPARK_MASTER")


#: Uninformative lines of an error.
NOISE_PREFIXES = ("An error occurred while calling", "at ")
WRAPPER_SUFFIX = "Exception thrown in awaitResult:"


class SparkFailed(ControlPlaneError):
    """Spark could not be started, or a Spark job failed; the message contains the cause."""

    status, code = 500, "spark"


def get_session(
    app_name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The active session, else a new one on `master`, else on spark-submit's master, else on `local[*]`.

    `conf` overrides the default settings. SparkFailed when Spark does not start.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.setdefault(name, sys.executable)
    os.environ.update(java_environment() or {})
    builder: Any = SparkSession.builder.appName(app_name)
    chosen = master or ("" if _submitted() else "local[*]")
    if chosen:
        builder = builder.master(chosen)
    settings = {**SPARK_SETTINGS, LOG_LEVEL: "ERROR", **_driver_settings(chosen), **(conf or {})}
    if SparkContext._active_spark_context is None:
        settings[OWNED_SETTING] = "true"
    level = settings[LOG_LEVEL]
    if chosen:
        del settings[LOG_LEVEL]  # Spark would print that it is set; the log4j2 file is as quiet already
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        made: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise SparkFailed(f"Spark did not start on {chosen or 'its master'}: {error_line(error)}") from None
    ship_packages(made.sparkContext)
    made.sparkContext.setLogLevel(level)
    return made


def _driver_settings(master: str) -> dict[str, str]:
    """Settings of a local driver and its workers. Empty where spark-submit configures them."""
    if not master:
        return {}
    # Log settings for the time before the session can set the level.
    quiet = {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG4J_FILE.as_uri()}"}
    return quiet | LOCAL_WORKER_SETTINGS if is_local(master) else quiet


def close_session(spark: SparkSession | None = None) -> None:
    """Stop a session, or the active one if there is any, unless it was created elsewhere."""
    ended = spark or SparkSession.getActiveSession()
    if ended is not None and ended.sparkContext.getConf().get(OWNED_SETTING) == "true":
        ended.stop()


@contextmanager
def spark_errors(operation: str) -> Iterator[None]:
    """Raise Spark's errors as SparkFailed, in one line. `operation`: what failed."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(f"{operation}: {error_line(error)}") from None


def _submitted() -> bool:
    """Whether spark-submit started this process: its JVM is running and knows the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or any(name in os.environ for name in SUBMIT_VARIABLES)


def error_line(error: BaseException) -> str:
    """The informative line of an error: py4j and Spark print pages."""
    lines = [line.strip().removeprefix(": ").removeprefix("Caused by: ") for line in str(error).splitlines()]
    informative = [
        line
        for line in lines
        if line and not line.startswith(NOISE_PREFIXES) and not line.endswith(WRAPPER_SUFFIX)
    ]
    return (informative[0] if informative else type(error).__name__)[:300]
