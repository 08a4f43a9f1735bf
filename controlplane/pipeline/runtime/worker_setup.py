"""What each Python worker of Spark does once, before its first task of ours.

Called by the tasks of `controlplane.pipeline.eventlogs.import_job`.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def freeze_loaded_objects() -> None:
    """Take what is loaded out of the collector's sight.

    Spark's workers collect after every task (`pyspark/daemon.py`): with pandas and Arrow loaded 25 ms each time.
    """
    gc.collect()
    gc.freeze()
