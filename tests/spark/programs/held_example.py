"""An example of Spark's from its wheel, whose sleep of 30 s lasts until a file exists.

held_example.py EXAMPLE FILE
"""

import runpy
import sys
import time
from pathlib import Path

example, released = sys.argv[1], Path(sys.argv[2])
sleep = time.sleep


def wait(seconds):
    while seconds == 30 and not released.exists():
        sleep(0.1)
    if seconds != 30:
        sleep(seconds)


time.sleep = wait
runpy.run_path(example, run_name="__main__")
