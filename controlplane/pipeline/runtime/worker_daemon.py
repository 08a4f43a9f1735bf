"""PySpark's worker daemon (`pyspark.daemon`) without the traceback of workers that end after their session.

When a session ends, idle workers see an end of file and try to report it. Over a Unix socket that fails at
once, and the traceback would be the last output of a successful job. Spark starts this module as
`spark.python.daemon.module`, see `controlplane.pipeline.runtime.session`.
"""

from __future__ import annotations

from typing import Any

from pyspark import daemon

_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> Any:
    """The worker's exit code; 1 where the other end of the socket is closed."""
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
