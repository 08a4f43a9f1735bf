"""What a client of /metrics may ask for."""

from __future__ import annotations

import pytest

from alerts.matching.labels import Matcher
from controlplane.api.routes import ops
from controlplane.errors import BadRequest


def test_selectors_are_those_of_promql() -> None:
    (found,) = ops._selectors(['up{app=~"a|b"}'])
    assert set(found) == {Matcher("__name__", "=", "up"), Matcher("app", "=~", "a|b")}


@pytest.mark.parametrize("text", ["", "up{", "sum(up)", "up[5m]", '{app=""}'])
def test_what_is_no_selector_is_a_mistake_of_the_client(text: str) -> None:
    with pytest.raises(BadRequest):
        ops._selectors([text])


@pytest.mark.parametrize(
    ("header", "accepted"),
    [("", False), ("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=0, br", False), ("x-gzip-like", False)],
)
def test_a_page_is_compressed_for_clients_that_can_read_it(header: str, accepted: bool) -> None:
    assert ops._accepts_gzip(header) == accepted
