"""Reads beyond a number do not wait for a store that hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.errors import StoreUnavailable
from controlplane.store.engine import default_url, open_engine
from controlplane.store.shared.bounded_reads import BoundedReads


def test_reads_are_limited_in_number_and_those_beyond_do_not_wait(tmp_path: Path) -> None:
    engine = open_engine(default_url(tmp_path))
    reads = BoundedReads(engine, count=1, wait_seconds=0.01)
    with reads.open() as connection:
        with pytest.raises(StoreUnavailable, match="too many reads"), reads.open():
            pass
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
    with reads.open() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
    engine.dispose()
