"""Spark's declarative pipelines (`spark-pipelines run`): what is known of a flow that Spark itself starts.

The command is a Connect client that asks the server for a run. The server starts the flows, so the agent sees no
start; their events reach it as those of any other query of the session.
"""

from __future__ import annotations

import sys
from typing import Any

#: Only the command imports it; a file of definitions does not.
COMMAND_MODULE = "pyspark.pipelines.spark_connect_pipeline"


def runs_pipeline() -> bool:
    """Whether this process is `spark-pipelines run`."""
    return COMMAND_MODULE in sys.modules


def flow_facts() -> dict[str, Any]:
    """Facts of a flow; empty in any other program. A run reads what is available and ends (Spark 4.1 to 4.3)."""
    return {"trigger": "available_now"} if runs_pipeline() else {}
