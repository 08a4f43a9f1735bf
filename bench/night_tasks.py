"""Clicks and seconds of each task of a night on call, in Chromium on the running demonstration.

The seconds begin when the first page is drawn and end when the answer is on the screen; a restart is timed until it is
verified. There is no peer: no other tool answers these questions of Structured Streaming.

    python bench/night_tasks.py [--pictures FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402

from tests.spark.demonstration import FIRST_FIGURES, Demo  # noqa: E402
from tests.spark.night_tasks import TASKS, OnCall, ready  # noqa: E402
from tests.ui import browser  # noqa: E402
from tests.webhook_receiver import running_webhook  # noqa: E402

ALERTS = 420


def measured(demo: Demo, pictures: Path | None) -> dict[str, Any]:
    """Clicks, seconds and, where it failed, the error of each task."""
    found: dict[str, Any] = {}
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser.need_chromium(), args=browser.FLAGS)
        for task in TASKS:
            page = launched.new_page(viewport={"width": 1440, "height": 900})
            page.set_default_timeout(browser.TIMEOUT_MILLISECONDS)
            night = OnCall(page, f"http://127.0.0.1:{demo.ui_port}", demo)
            try:
                task.answer(night)
                error = None
            except Exception as problem:  # the other tasks are still measured
                error = f"{type(problem).__name__}: {str(problem)[:300]}"
            seconds = round(night.seconds(), 2)
            found[task.question] = {"clicks": night.clicks, "at_most": task.at_most, "seconds": seconds}
            found[task.question] |= {"error": error} if error else {}
            print(task.question, found[task.question], flush=True)
            if pictures:
                page.screenshot(path=pictures / f"{task.question.replace(' ', '-')}.png")
            page.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=Path, help="write a screenshot of each answer to this folder")
    options = parser.parse_args()
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running_webhook() as receiver:
        demo = Demo(Path(folder), "--webhook", receiver.url)
        try:
            demo.until(demo.shows_figures, FIRST_FIGURES, demo.queries)
            demo.until(lambda: ready(demo), ALERTS, demo.pages)
            tasks = measured(demo, options.pictures)
        finally:
            demo.close()
    good = [task for task in tasks.values() if "error" not in task]
    result = {
        "bench": "night_tasks",
        "tasks": tasks,
        "failed": len(tasks) - len(good),
        "within_clicks": sum(task["clicks"] <= task["at_most"] for task in good),
        "slowest_seconds": max(task["seconds"] for task in tasks.values()),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
