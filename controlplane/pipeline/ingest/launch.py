"""The ingest job put together: session, lake, server, and our own agent, by which the job is seen as any other query.

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
    plan: IngestPlan, lake: str, server: str | None, master: str | None, stopping: threading.Event, say: Log
) -> IngestSummary:
    """Run the job until it ends or is told to stop. ControlPlaneError where it cannot run."""
    opened = Lake.open(lake, create=True)
    forwarder = Forwarder(_transport(server), stopping, say=say) if server is not None else None
    # Why a batch failed is told in a line; Spark would tell it by pages.
    spark = get_session(APP, master, {"spark.log.level": "FATAL"})
    attachment, batches = None, ingest_job.MicroBatches(opened, plan.window_seconds, forwarder, say)
    try:
        with _jvm_alive(stopping):
            own = ingest_job.stream_session(spark)
            attachment = _attached(own, server)
            return ingest_job.run_stream(own, plan, batches, stopping, say)
    finally:
        if attachment is not None:
            attachment.detach()
        with contextlib.suppress(Py4JError, OSError, EOFError):
            close_session(spark)


@contextlib.contextmanager
def _jvm_alive(stopping: threading.Event) -> Iterator[None]:
    """IngestFailed, in a line, where Spark's process ends under us: out of memory, or told to end as we are."""
    # py4j tells of each call that fails, by pages; we do once.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        yield
    except Py4JJavaError as error:
        raise IngestFailed(f"ingest ended: {error_line(error)}") from None
    except (Py4JError, OSError, EOFError) as error:
        if isinstance(error, OSError) and not isinstance(error, ConnectionError):
            raise
        why = "it was told to end" if stopping.is_set() else "out of memory, or killed"
        raise IngestFailed(
            f"Spark's process ended ({why}): nothing is lost, the next run does the batch again"
        ) from None


def _transport(server: str) -> HttpTransport:
    return HttpTransport(server, environment.find_token(), os.environ.get("CONTROLPLANE_CA_FILE"))


def _attached(spark: SparkSession, server: str | None) -> Attachment | NotAttached | None:
    """Told to a server, never to a landing zone: one that heard of its own reader would never come to rest."""
    told = server or os.environ.get("CONTROLPLANE_URL") or ""
    if not told.startswith(("http://", "https://")):
        return None
    return attach.attach(spark, server=told, app=APP, actions="none")
