"""`controlplane preflight`: exit codes for a pipeline, words for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.cli.main import run
from tests.unit.controlplane.shapes.shapes import aggregate, files, key, reported

SHAPES = {
    "old": reported(aggregate()),
    "same": reported(aggregate()),
    "partitions": reported(aggregate(), conf={**reported()["conf"], "spark.sql.shuffle.partitions": "10"}),
    "keys": reported(aggregate(keys=[key("k", "long")])),
    "files": reported(
        aggregate(), sink=files(), outputMode="append", watermarks=[{"column": "t", "delay": "1 h"}]
    ),
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    for name, document in SHAPES.items():
        (tmp_path / name).write_text(json.dumps(document))
    (tmp_path / "torn").write_text('{"v": 1, "sour')
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "list").write_text("[]")
    (tmp_path / "folder").mkdir()
    (tmp_path / "deep").write_text("[" * 100_000)
    return tmp_path


def preflight(saved: Path, new: str, *more: str, old: str = "old") -> int:
    return run(["preflight", "--old", str(saved / old), "--new", str(saved / new), *more])


@pytest.mark.parametrize(
    ("new", "code", "text"),
    [
        ("same", 0, "allowed: no changes"),
        ("partitions", 1, "allowed with consequences: 1 change"),
        ("keys", 4, "not allowed: 1 change"),
        ("files", 4, "not allowed: "),
    ],
)
def test_the_exit_code_is_the_verdict(saved: Path, capsys: Any, new: str, code: int, text: str) -> None:
    assert preflight(saved, new) == code
    assert capsys.readouterr().out.startswith(text)


def test_each_change_has_rule_effect_and_remedy(saved: Path, capsys: Any) -> None:
    preflight(saved, "keys")
    assert capsys.readouterr().out.splitlines()[1:] == [
        "not allowed  aggregation.keys  aggregate (operator 0): the keys were (k string) and are (k long)",
        "    Spark: fails in the first batch with STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE. "
        "Spark compares number and types of the keys with those in the state.",
        "    Do: Revert the change, or start on a new checkpoint and rebuild the state.",
    ]


def test_json_is_one_document_with_all_findings(saved: Path, capsys: Any) -> None:
    assert preflight(saved, "keys", "--json") == 4
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["effect"]) == ("not_allowed", "fails")
    assert document["findings"][0]["rule"] == "aggregation.keys"
    assert document["findings"][0]["condition"] == "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"


@pytest.mark.parametrize("file", ["torn", "bytes", "list", "deep", "absent", "folder"])
def test_a_file_without_a_shape_is_one_line_and_a_code_of_its_own(
    saved: Path, capsys: Any, file: str
) -> None:
    assert preflight(saved, file) == preflight(saved, "same", old=file) == 3
    reported = capsys.readouterr()
    assert reported.out == "" and len(reported.err.splitlines()) == 2
    assert all(file in line for line in reported.err.splitlines())


@pytest.mark.parametrize("arguments", [[], ["--old", "x"], ["--old", "x", "--new", "y", "--odd"]])
def test_a_mistake_in_the_call_is_never_taken_for_a_verdict(arguments: list[str], capsys: Any) -> None:
    assert run(["preflight", *arguments]) == 2
    assert capsys.readouterr().out == ""


def test_names_from_outside_cannot_move_the_terminal(saved: Path, capsys: Any) -> None:
    (saved / "odd").write_text(json.dumps(reported(aggregate(), name="a\x1b[2Jb")))
    assert preflight(saved, "odd") == 0
    assert "\x1b" not in capsys.readouterr().out
