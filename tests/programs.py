"""Outside programs that tests need: where one is missing the test is skipped, or fails where everything is required."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def required(program: str, package: str) -> str:
    """The path of a program; `package` is Debian's name of its package."""
    found = shutil.which(program)
    return found or missing(f"no {program}: apt-get install -y {package}")


def missing(reason: str) -> NoReturn:
    """Skip the test with the reason; with CONTROLPLANE_REQUIRE_ALL=1 fail."""
    if os.environ.get("CONTROLPLANE_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
