"""axe-core on every page in both themes: no serious finding, no console error, no failed request on a deep link.

axe-core comes from npm at test time; `npm` and its registry are needed, or AXE_CORE names the file `axe.min.js`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.ui import factories, incident_factories
from tests.ui.browser import TIMEOUT_MILLISECONDS
from tests.ui.fake_server import FakeServer

pytestmark = [pytest.mark.browser, pytest.mark.long]

AXE_VERSION = "4.14.1"
PAGES = (
    "/",
    f"/query?query_id={factories.query_id(1)}",
    "/checkpoints",
    "/applications",
    "/incidents",
    f"/incidents?incident={incident_factories.SINK}",
    "/alerts",
    "/rules",
    "/actions",
    "/server",
)
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core."""
    if given := os.environ.get("AXE_CORE"):
        return Path(given).read_text(encoding="utf-8")
    folder = tmp_path_factory.mktemp("axe")
    npm, options = shutil.which("npm"), ("--silent", "--no-audit", "--no-fund", f"axe-core@{AXE_VERSION}")
    if (
        npm is None
        or subprocess.run([npm, "install", *options], cwd=folder, timeout=120, check=False).returncode
    ):
        if os.environ.get("CONTROLPLANE_REQUIRE_ALL") == "1":
            pytest.fail("axe-core could not be installed with npm")
        pytest.skip("axe-core could not be installed: apt-get install -y npm (or set AXE_CORE)")
    return (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_finding_or_an_error(
    chromium: Any, stage: tuple[FakeServer, str], axe: str, scheme: str
) -> None:
    now, incidents = time.time(), stage[0].world.incidents
    incidents.known = [incident_factories.incident(now), incident_factories.of_driver(now)]
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(TIMEOUT_MILLISECONDS)
    page, errors = context.new_page(), []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("response", lambda answer: errors.append(answer.url) if answer.status >= 400 else None)
    for path in PAGES:
        page.goto(stage[1] + path)
        page.get_by_text("as of").first.wait_for()
        page.get_by_role("heading", level=1).wait_for()
        page.locator('[data-testid="stSkeleton"]').first.wait_for(state="detached")
        page.evaluate(axe)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        serious = [(each["id"], each["nodes"][0]["target"]) for each in found if each["impact"] in SERIOUS]
        assert (path, serious, errors) == (path, [], [])
    context.close()
