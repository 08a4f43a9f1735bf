"""Cached reads: one request per TTL, and the last good answer while the server is unreachable."""

import pytest

from tests.ui.conftest import FakeClient
from tests.ui.fake_server import World
from ui.kit import cached_reads
from ui.kit.answers import CachedRead, LastGoodAnswers, ServerUnreachable, TokenRefused


def test_many_readers_cause_one_request(client: FakeClient, world: World) -> None:
    for _ in range(20):
        assert cached_reads.fleet().error is None
    assert world.reads == 1


def test_an_error_is_cached_too(client: FakeClient) -> None:
    client.error = ServerUnreachable("no connection")
    assert cached_reads.fleet().kind == "unreachable"
    client.error = None
    assert cached_reads.fleet().kind == "unreachable"


def test_the_last_good_answer_stays_while_the_server_is_unreachable(client: FakeClient) -> None:
    good = cached_reads.fleet()
    client.error = ServerUnreachable("no connection")
    cached_reads.clear()
    stale = cached_reads.fleet()
    assert stale.body == good.body
    assert stale.at == good.at
    assert stale.stale
    assert stale.error == "no connection"


def test_a_forbidden_answer_is_no_longer_shown(client: FakeClient) -> None:
    cached_reads.fleet()
    client.error = TokenRefused("the server refused the token (401)")
    cached_reads.clear()
    reading = cached_reads.fleet()
    assert reading.body is None
    assert reading.kind == "token"


def test_a_query_absent_from_the_answer_is_missing(client: FakeClient) -> None:
    assert cached_reads.query("nobody").kind == "missing"


def test_the_number_of_last_good_answers_is_bounded() -> None:
    memory = LastGoodAnswers(size=2)
    for number in range(3):
        memory.remember((number,), CachedRead({"n": number}, 1.0))
    failed = CachedRead(None, 2.0, "unreachable", "unreachable")
    assert memory.remember((0,), failed).body is None
    assert memory.remember((2,), failed).body == {"n": 2}


def test_the_role_is_the_servers_for_this_token(client: FakeClient) -> None:
    assert cached_reads.role() == "operator"


def test_viewers_share_one_answer_and_not_copies_of_it(client: FakeClient) -> None:
    assert cached_reads.fleet().body is cached_reads.fleet().body


def test_a_range_is_requested_on_the_grid_and_covers_the_period(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[tuple[float, float, float]] = []

    def series(query: str, start: float, end: float, step: float) -> dict[str, object]:
        requested.append((start, end, step))
        return {}

    monkeypatch.setattr(client, "series", series, raising=False)
    cached_reads.series("up", 900.0, 15.0)
    cached_reads.series("up", 60.0, 15.0, 1_795_000_001.0)
    (start, end, _), fixed = requested
    assert end % 15 == 0
    assert end - start == 900
    assert fixed == (1_794_999_945.0, 1_795_000_005.0, 15.0)
