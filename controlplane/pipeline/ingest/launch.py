"""Start the ingest job: session, lake, server, and the agent, which reports the job like any other query.

Called by `controlplane history ingest`; `controlplane.pipeline.ingest.ingest_job` does the work.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from controlplane.lake.lake import Lake
from controlplane.pipeline.ingest import ingest_job
from controlplane.pipeline.ingest.forwarding import Forwarder
from controlplane.pipeline.ingest.ingest_job import IngestFailed, IngestPlan, IngestSummary, Log
from controlplane.pipeline.runtime.session import close_session, error_line, get_session
from listeners import attach, environment
from listeners.attach import NotAttached
from listeners.attachment import Attachment
from listeners.delivery.transport import HttpTransport

APP = "controlplane"


def run_ingest(
    plan: IngestPlan, lake: str, server: str | None, master: str | None, stopping: threading.Event, log: Log
) -> IngestSummary:
    """Run the job until it ends or is stopped. ControlPlaneError where it cannot run."""
    opened = Lake.open(lake, create=True)
    forwarder = Forwarder(_transport(server), stopping, log=log) if server is not None else None
    # The job logs a batch's error in one line; Spark would log pages.
    spark = get_session(APP, master, {"spark.log.level": "FATAL"})
    attachment, batches = None, ingest_job.MicroBatches(opened, plan.window_seconds, forwarder, log)
    try:
        with _jvm_alive(stopping):
            own = ingest_job.stream_session(spark)
            attachment = _attached(own, server)
            return ingest_job.run_stream(own, plan, batches, stopping, log)
    finally:
        if attachment is not None:
            attachment.detach()
        with contextlib.suppress(Py4JError, OSError, EOFError):
            close_session(spark)


@contextlib.contextmanager
def _jvm_alive(stopping: threading.Event) -> Iterator[None]:
    """Raise IngestFailed in one line where Spark's process ends: out of memory, or stopped together with this
    process.
    """
    # py4j logs each failed call on several pages; the job logs one line.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        yield
    except Py4JJavaError as error:
        raise IngestFailed(f"ingest failed: {error_line(error)}") from None
    except (Py4JError, OSError, EOFError) as error:
        if isinstance(error, OSError) and not isinstance(error, ConnectionError):
            raise
        why = "it was stopped" if stopping.is_set() else "out of memory, or killed"
        raise IngestFailed(
            f"Spark's process ended ({why}): nothing is lost, the next run repeats the batch"
        ) from None


def _transport(server: str) -> HttpTransport:
    return HttpTransport(server, environment.find_token(), os.environ.get("CONTROLPLANE_CA_FILE"))


def _attached(spark: SparkSession, server: str | None) -> Attachment | NotAttached | None:
    """Attach to a server only, never to a landing zone: the job would ingest its own events without end."""
    url = server or os.environ.get("CONTROLPLANE_URL") or ""
    if not url.startswith(("http://", "https://")):
        return None
    return attach.attach(spark, server=url, app=APP, actions="none")
