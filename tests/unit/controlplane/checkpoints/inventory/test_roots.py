"""Where the server may look: below its roots, and nowhere else, however the path is spelt."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.checkpoints.inventory.roots import refusal, refused_by_name, resolved

BUCKET = ("s3a://lake/checkpoints", "hdfs://nn:8020/ck")


@pytest.mark.parametrize(
    "url", ["s3a://lake/checkpoints/orders", "hdfs://nn:8020/ck/a/b", "S3A://lake/checkpoints/x/"]
)
def test_checkpoints_below_a_root_are_allowed(url: str) -> None:
    assert refusal(url, BUCKET) is None


@pytest.mark.parametrize(
    "url",
    [
        "s3a://lake/checkpoints",
        "s3a://lake/checkpoints/",
        "s3a://lake/checkpoints2/orders",
        "s3a://other/checkpoints/orders",
        "s3://lake/checkpoints/orders",
        "s3a://lake/checkpoints/../secret",
        "s3a://lake/checkpoints/%2e%2e/secret",
        "s3a://lake/checkpoints/a\x00b",
        "s3a://lake/checkpoints/a\nb",
        "s3a://lake/checkpoints/a::file:///etc/passwd",
        "s3a://lake/checkpoints/a?versionId=1",
        "simplecache::s3a://lake/checkpoints/a",
        "hdfs://nn:8020/ck\\..\\x/a",
        "hdfs://nn/ck/a",
        "http://lake/checkpoints/a",
        "/lake/checkpoints/a",
        "file:///etc/passwd",
        "github://org:repo@/x",
        "[",
        "http://[::1/",
        "",
    ],
)
def test_whatever_else_is_refused_with_a_reason(url: str) -> None:
    assert refusal(url, BUCKET)
    assert refused_by_name(url, BUCKET)


@pytest.mark.parametrize("url", ["/lake/orders", "file:///lake/orders", "/elsewhere"])
def test_refusal_by_name_does_not_call_the_file_system(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.realpath", list[str]().pop)
    assert refused_by_name(url, ("/lake",)) is None, "what it is below only the file system tells"
    assert refused_by_name("/lake/a/../../etc", ("/lake",))
    assert refused_by_name("orders", ("/lake",))
    assert refused_by_name("s3a://lake/orders", ("/lake",))


def test_without_roots_nothing_is_allowed() -> None:
    assert "--checkpoint-root" in str(refusal("/tmp/c", ()))


def test_links_of_local_paths_are_followed_before_it_is_decided(tmp_path: Path) -> None:
    root, outside = tmp_path / "lake", tmp_path / "outside"
    (root / "orders").mkdir(parents=True)
    outside.mkdir()
    (root / "way-out").symlink_to(outside)
    (tmp_path / "alias").symlink_to(root)
    roots = (str(tmp_path / "alias"),)
    for spelling in ("", "file:", "file://"):
        assert refusal(f"{spelling}{root}/orders", roots) is None
        assert refusal(f"{spelling}{root}/way-out", roots)
        assert refusal(f"{spelling}{outside}", roots)
    assert refusal("orders", roots), "a path that is not absolute is somebody else's"
    assert resolved(f"file://{tmp_path}/alias/orders") == str((root / "orders").resolve())
    assert resolved("s3a://lake/x") == "s3a://lake/x"


@given(st.text(max_size=60))
def test_no_text_at_all_leads_out(text: str) -> None:
    why = refusal(f"/nowhere/lake/{text}", ("/nowhere/lake",))
    assert why is None or isinstance(why, str)
    assert refusal(text, ("/nowhere/lake",)) is not None or text.startswith(("/nowhere/lake/", "file:"))
