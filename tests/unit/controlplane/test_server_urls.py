"""One server, several that stand in for each other, several with names."""

from __future__ import annotations

import pytest

from controlplane.server_urls import named_servers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, {}),
        ("http://a:1", {}),
        ("http://a:1,http://b:2", {}),
        ("eu=http://a:1/", {"eu": "http://a:1"}),
        ("eu=http://a:1,http://b:2; us=https://c", {"eu": "http://a:1,http://b:2", "us": "https://c"}),
    ],
)
def test_servers_by_name(text: str | None, expected: dict[str, str]) -> None:
    assert named_servers(text) == expected


@pytest.mark.parametrize("text", ["http://a;http://b", "eu=http://a;http://b", "eu=http://a;eu=http://b"])
def test_a_mixture_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="server"):
        named_servers(text)
