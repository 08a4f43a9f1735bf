"""Collecting through fsspec: what is listed, what is read, and what is never opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.inventory import collector
from controlplane.checkpoints.inventory.collector import CannotOpen, collect
from controlplane.checkpoints.survey import collect_survey, survey_from_json, survey_to_json
from tests.served_s3 import DENIED, THROTTLED, Request, ServedS3

NOW = 1_795_160_000.0
OFFSETS = b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795160000000,"conf":{}}\n{"topic":{"0":5}}'


def on_s3(s3: ServedS3, batches: int = 3) -> str:
    """The bucket of a checkpoint `ck` with so many committed batches."""
    files = {"ck/metadata": b'{"id":"7f1a1c0e-0000-4000-8000-000000000001"}'}
    for batch in range(batches):
        files |= {f"ck/offsets/{batch}": OFFSETS, f"ck/commits/{batch}": b'v1\n{"nextBatchWatermarkMs":0}'}
    return s3.bucket(files)


def written(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_local_folder_is_listed_with_sizes_and_times_and_its_small_files_read(tmp_path: Path) -> None:
    written(tmp_path, metadata="{}", offsets__0="v1\n{}\n-", state__0__0__1="abc")
    os.utime(tmp_path / "metadata", (5, 5))
    held = collect(str(tmp_path), NOW)
    assert held.entries["metadata"].size == 2
    assert held.entries["metadata"].modified == 5.0
    assert held.entries["offsets"].folder
    assert held.contents["offsets/0"] == b"v1\n{}\n-"
    assert (held.collected_at, held.exists, held.complete, held.errors) == (NOW, True, True, ())


@pytest.mark.parametrize("url", ["{}", "file://{}", "file:{}", "{}/"])
def test_every_spelling_of_a_local_path_finds_the_same_files(tmp_path: Path, url: str) -> None:
    written(tmp_path, metadata="{}", offsets__0="x")
    assert set(collect(url.format(tmp_path), NOW).entries) == {"metadata", "offsets", "offsets/0"}


def test_any_file_system_of_fsspec_is_read_alike() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/checkpoints/one/metadata", b'{"id":"x"}')
    memory.pipe("/checkpoints/one/commits/0", b"v1\n{}")
    held = collect("memory://checkpoints/one", NOW)
    assert held.is_folder("commits")
    assert held.contents == {"metadata": b'{"id":"x"}', "commits/0": b"v1\n{}"}


def test_an_object_store_is_listed_at_once_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/checkpoints/two/metadata", b"{}")
    memory.pipe("/checkpoints/two/state/0/0/1.delta", b"x")
    walked = collect("memory://checkpoints/two", NOW)
    monkeypatch.setattr(collector, "OBJECT_STORES", {"memory"})
    found = collect("memory://checkpoints/two", NOW)
    assert set(found.entries) == set(walked.entries)
    assert found.contents == walked.contents


def test_a_relative_path_is_known_by_its_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "c", metadata="{}")
    monkeypatch.chdir(tmp_path)
    assert collect("c", NOW).root == str(tmp_path / "c")


def test_missing_path_does_not_exist_in_the_inventory(tmp_path: Path) -> None:
    held = collect(str(tmp_path / "nowhere"), NOW)
    assert (held.exists, dict(held.entries)) == (False, {})


def test_a_missing_backend_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, **options: Any) -> None:
        raise ImportError("no adlfs")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refuse)
    with pytest.raises(CannotOpen, match="abfss:// needs adlfs: pip install adlfs"):
        collect("abfss://box@account/checkpoint", NOW)


def test_an_unknown_scheme_is_one_line() -> None:
    with pytest.raises(CannotOpen, match="gopher://x: Protocol not known"):
        collect("gopher://x", NOW)


def test_pipes_are_not_opened_and_circles_of_links_end(tmp_path: Path) -> None:
    written(tmp_path, metadata="{}")
    (tmp_path / "offsets").mkdir()
    os.mkfifo(tmp_path / "offsets/0")
    (tmp_path / "offsets/again").symlink_to(tmp_path)
    (tmp_path / "offsets/gone").symlink_to(tmp_path / "nowhere")
    held = collect(str(tmp_path), NOW)
    assert not held.is_file("offsets/0")
    assert list(held.contents) == ["metadata"]


def test_a_path_is_no_pattern(tmp_path: Path) -> None:
    held = collect(str(written(tmp_path / "job[1]*?", metadata="{}", offsets__0="x")), NOW)
    assert held.contents == {"metadata": b"{}", "offsets/0": b"x"} and held.errors == ()


def test_unreadable_file_is_listed_in_errors_by_path(tmp_path: Path) -> None:
    class Locked(type(fsspec.filesystem("file"))):  # type: ignore[misc]
        def cat_file(self, path: str, *span: int | None, **options: object) -> bytes:
            if path.endswith("/0"):
                raise PermissionError(13, "Permission denied")
            return bytes(super().cat_file(path, *span, **options))

    root, errors = written(tmp_path, metadata="{}", offsets__0="x"), list[str]()
    read = dict(collector._read(Locked(), str(root), ["offsets/0", "metadata"], errors))
    assert read == {"metadata": b"{}"} and errors == ["offsets/0: Permission denied"]


def test_listing_beyond_the_limit_is_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_ENTRIES", 5)
    written(tmp_path, **{f"offsets__{n}": "x" for n in range(10)})
    held = collect(str(tmp_path), NOW)
    assert (len(held.entries), held.complete) == (5, False)


def test_a_survey_takes_along_the_input_folders_that_the_logs_name(tmp_path: Path) -> None:
    written(tmp_path, **{"in__a b.json": "{}", "in__c.json": "{}"})
    entry = 'v1\n{"path":"file:///before/in/a%20b.json","timestamp":1,"batchId":0}'
    written(tmp_path / "checkpoint", metadata="{}", sources__0__0=entry)
    held = collect_survey(str(tmp_path / "checkpoint"), NOW, relocations=[("/before", str(tmp_path))])
    assert [listed.root for listed in held.inputs] == [str(tmp_path / "in")]
    assert set(held.inputs[0].entries) == {"a b.json", "c.json"}
    assert held.inputs[0].contents == {}
    assert survey_from_json(survey_to_json(held)) == held


def test_an_input_folder_of_another_machine_is_not_asked_for(tmp_path: Path) -> None:
    entry = 'v1\n{"path":"file:///no/such/place/at/all/a.json","timestamp":1,"batchId":0}'
    written(tmp_path, metadata="{}", sources__0__0=entry)
    assert collect_survey(str(tmp_path), NOW).inputs == ()


def test_a_folder_of_a_partition_stands_for_the_one_above_it(tmp_path: Path) -> None:
    """Retention takes such folders away, and the query does not mind."""
    entry = f'v1\n{{"path":"file://{tmp_path}/in/day=1/a.json","timestamp":1,"batchId":0}}'
    written(tmp_path, **{"in__day=2__b.json": "{}"})
    written(tmp_path / "checkpoint", metadata="{}", sources__0__0=entry)
    (listed,) = collect_survey(str(tmp_path / "checkpoint"), NOW).inputs
    assert (listed.root, listed.exists, listed.guessed) == (str(tmp_path / "in"), True, True)


def test_output_and_input_may_be_named_as_they_were_before_the_copy(tmp_path: Path) -> None:
    written(tmp_path, checkpoint__metadata="{}", out___spark_metadata__0="v1", in__a="x")
    pairs = [("/before", str(tmp_path))]
    held = collect_survey(
        str(tmp_path / "checkpoint"),
        NOW,
        output="/before/out",
        inputs=["file:///before/in"],
        relocations=pairs,
    )
    assert held.output is not None and held.output.is_file("_spark_metadata/0")
    assert [listed.root for listed in held.inputs] == [str(tmp_path / "in")]


# -- S3 -----------------------------------------------------------------------------------------------


def test_a_checkpoint_on_s3_costs_one_listing_and_one_request_a_file(s3: ServedS3) -> None:
    bucket = on_s3(s3)
    s3.requests.clear()
    held = collect(f"s3a://{bucket}/ck", NOW)
    assert (held.exists, held.complete, held.errors) == (True, True, ())
    assert held.is_folder("commits") and held.contents["offsets/2"] == OFFSETS
    assert s3.methods() == ["LIST"] + ["GET"] * 7


def test_a_later_look_at_s3_sees_what_was_written_since(s3: ServedS3) -> None:
    bucket = on_s3(s3)
    collect(f"s3a://{bucket}/ck", NOW)
    s3.put(bucket, "ck/offsets/3", OFFSETS)
    s3.put(bucket, "ck/offsets/2", OFFSETS + b"00")
    held = collect(f"s3a://{bucket}/ck", NOW)
    assert held.errors == ()
    assert held.contents["offsets/3"] == OFFSETS and held.contents["offsets/2"] == OFFSETS + b"00"


def test_every_page_of_a_listing_is_read(s3: ServedS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
    bucket = s3.bucket({f"ck/state/0/{n}": b"x" for n in range(3)})
    s3.requests.clear()
    held = collect(f"s3://{bucket}/ck", NOW, contents=False)
    assert set(held.entries) == {"state", "state/0", "state/0/0", "state/0/1", "state/0/2"}
    assert s3.methods() == ["LIST", "LIST"]


def test_nothing_and_a_file_on_s3_are_no_checkpoints(s3: ServedS3) -> None:
    bucket = on_s3(s3)
    assert not collect(f"s3a://{bucket}/nowhere", NOW).exists
    assert collect(f"s3a://{bucket}/ck/metadata", NOW).errors == ("it is a file, not a folder",)
    assert collect("s3a://bucket-that-nobody-has/ck", NOW).errors == ("The specified bucket does not exist",)


def test_a_throttled_request_is_repeated(s3: ServedS3) -> None:
    bucket, seen = on_s3(s3), set[Request]()

    def first_time(request: Request) -> tuple[str, str, str] | None:
        return None if request in seen else (seen.add(request), THROTTLED)[1]

    s3.fails = first_time
    assert analyze(collect(f"s3a://{bucket}/ck", NOW)).verdict == "ok"


@pytest.mark.parametrize(
    ("part", "failure", "verdict", "message"),
    [
        ("list-type", THROTTLED, "unreadable", "The checkpoint cannot be listed: Please reduce your request rate."),
        ("", DENIED, "unreadable", "The checkpoint cannot be listed: Access Denied."),
        ("offsets/2", THROTTLED, "risky", "1 part could not be read, first offsets/2: Please reduce your request rate."),
    ],
)  # fmt: skip
def test_what_s3_refuses_is_unreadable_and_never_broken(
    s3: ServedS3, part: str, failure: tuple[str, str, str], verdict: str, message: str
) -> None:
    bucket = on_s3(s3)
    s3.fails = lambda request: failure if part in "/".join(request) else None
    report = analyze(collect(f"s3a://{bucket}/ck", NOW))
    assert report.verdict == verdict
    assert report.findings[0].message.startswith(message)
