"""One-time set-up of a Python worker before its first task.

Called by the tasks of `controlplane.pipeline.eventlogs.import_job`.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def freeze_loaded_objects() -> None:
    """Exclude loaded objects from garbage collection.

    Spark's workers collect after every task (`pyspark/daemon.py`): with pandas and Arrow loaded, 25 ms each
    time.
    """
    gc.collect()
    gc.freeze()
