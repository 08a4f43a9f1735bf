"""Make the collection of thousands of tests cheap: each pytest-xdist worker imports all of them.

The workers share the work of compiling the test modules, and the garbage collector rests until all tests are known.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.paths import ROOT


def begin(config: pytest.Config) -> None:
    """Compile this worker's share of the test modules; the others' compiled modules are then on the disk."""
    gc.disable()
    # Some build machines forbid it for the sake of small images; without it each worker compiles each module.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if "PYTEST_XDIST_WORKER" in os.environ:
        number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        for path in sorted((ROOT / "tests").rglob("test_*.py"))[number::workers]:
            _compile(path, config)


def end() -> None:
    """Collect garbage again, but for what was made so far: it stays until the end."""
    gc.enable()
    gc.freeze()


def _compile(path: Path, config: pytest.Config) -> None:
    """Rewrite and compile a test module as pytest does when it imports it, unless its compiled file is there."""
    folder = rewrite.get_cache_dir(path)
    compiled = folder / (path.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(path, compiled) is None and rewrite.try_makedirs(folder):
        source_hash, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, compiled)
