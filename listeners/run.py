"""`python -m listeners.run program.py [args…]`: an unmodified PySpark program, with the agent attached.

Wraps `SparkSession.Builder.getOrCreate`, so that the first session of the program gets the agent, and
then runs the program as `__main__`. Settings come from the environment (see `listeners.attach`).
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from types import TracebackType
from typing import Any, Callable

from listeners import attach as attaching
from listeners import classic
from listeners.patching import Patches


def main(arguments: list[str] | None = None) -> int:
    """Run the program; its exit code and exceptions are passed on unchanged."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or not os.path.isfile(arguments[0]):
        what = "no program is named" if not arguments else f"{arguments[0]} is not a file"
        print(f"controlplane run: {what}; give a Python program and its arguments", file=sys.stderr)
        return 2
    hook()
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except Exception as error:
        _tell(error)
        traceback.print_exception(type(error), error, own_frames(error, arguments[0]))
        return 1
    return 0


def _tell(error: Exception) -> None:
    """For the record; the agent itself stays until the process ends, which other threads may delay."""
    attachment = attaching.current()
    if attachment is not None:
        attachment.exception = classic.text_of(error)


def hook() -> Patches:
    """Attach as soon as the program has made its session."""
    from pyspark.sql import SparkSession

    patches = Patches()
    patches.wrap(SparkSession.Builder, "getOrCreate", _attached)
    return patches


def _attached(original: Callable[..., Any], builder: Any, *args: Any, **kwargs: Any) -> Any:
    session = original(builder, *args, **kwargs)
    attaching.attach(session)
    return session


def own_frames(error: BaseException, program: str) -> TracebackType | None:
    """The traceback from the program's first frame on, as `python program.py` prints it."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != program:
        frames = frames.tb_next
    return frames or error.__traceback__


if __name__ == "__main__":
    sys.exit(main())
