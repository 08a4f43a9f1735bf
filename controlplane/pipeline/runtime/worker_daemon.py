"""Spark's daemon of Python workers, as `pyspark.daemon` has it, but quiet where its last word finds nobody.

When a session ends, idle workers learn of it by an end of file and try to say so. Over a Unix socket that fails at
once, and the traceback would be the last line of a job that did all it should. Spark starts this module where
`spark.python.daemon.module` says so, see `controlplane.pipeline.runtime.session`.
"""

from __future__ import annotations

from typing import Any

from pyspark import daemon

_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> Any:
    """The exit code of a worker that was told to end; 1: nobody hears it any more."""
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
