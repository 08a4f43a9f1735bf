"""The bills of materials hold every package of the lock files, with its hashes and its licence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.long
#: Packages of other platforms or Pythons, which the image does not have.
ABSENT = {"colorama", "tomli", "exceptiongroup", "pywin32", "async-timeout"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "packaging/bill_of_materials.py", str(target)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return target


def bill(dist: Path, lock: str) -> dict[str, Any]:
    (file,) = dist.glob(f"*-{lock}.cdx.json")
    return json.loads(file.read_text())


@pytest.mark.parametrize("lock", ["image", "server"])
def test_every_locked_package_is_listed_with_its_hashes_and_licence(dist: Path, lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    names = set(re.findall(r"^([a-z0-9][a-z0-9.-]*)==", text, flags=re.MULTILINE))
    components = {item["name"]: item for item in bill(dist, lock)["components"]}
    assert set(components) <= names
    assert names - set(components) <= ABSENT
    for name, item in components.items():
        assert item["purl"] == f"pkg:pypi/{name}@{item['version']}"
        assert item["licenses"], name
        assert {digest["content"] for digest in item["hashes"]} <= set(re.findall(r"[0-9a-f]{64}", text))
        assert item["hashes"], name


def test_only_the_image_with_spark_has_spark(dist: Path) -> None:
    with_spark, without = (
        {item["name"] for item in bill(dist, lock)["components"]} for lock in ("image", "server")
    )
    assert "pyspark" in with_spark - without
    assert without < with_spark


def test_a_bill_is_reproducible_and_states_what_depends_on_what(dist: Path) -> None:
    found = bill(dist, "server")
    assert found["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert found["metadata"]["component"]["bom-ref"] == "spark-controlplane"
    needs = {entry["ref"].split("@")[0]: entry.get("dependsOn", []) for entry in found["dependencies"]}
    assert any(ref.startswith("pkg:pypi/starlette@") for ref in needs["pkg:pypi/fastapi"])


def test_the_licences_ship_with_their_texts(dist: Path) -> None:
    (file,) = dist.glob("*-licenses.txt")
    text = file.read_text()
    assert re.search(r"^fastapi [\d.]+: MIT$", text, flags=re.MULTILINE)
    assert "Permission is hereby granted, free of charge" in text
