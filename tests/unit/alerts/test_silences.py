"""Silences: their life, what they cover, and how one is changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alerts.matching.labels import parse_matchers
from alerts.silences import Silence, SilenceState, expire, silenced_by, update, validation_errors


def silence(
    selector: str = 'team="data"', starts: float = 100.0, ends: float = 200.0, name: str = "s1"
) -> Silence:
    return Silence(name, parse_matchers(selector), starts, ends, "ann", "deploy")


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (99, SilenceState.PENDING),
        (100, SilenceState.ACTIVE),
        (199, SilenceState.ACTIVE),
        (200, SilenceState.EXPIRED),
    ],
)
def test_a_silence_is_active_from_its_start_until_just_before_its_end(
    now: float, state: SilenceState
) -> None:
    assert silence().state(now) is state


def test_a_silence_covers_what_passes_all_its_matchers_while_it_is_active() -> None:
    both = [
        silence('team="data",query=~"ord.*"'),
        silence('team="data"', name="s2"),
        silence(starts=150, name="s3"),
    ]
    assert silenced_by(both, {"team": "data", "query": "orders"}, 120) == ("s1", "s2")
    assert silenced_by(both, {"team": "ops", "query": "orders"}, 120) == ()
    assert silenced_by(both, {"team": "data"}, 250) == ()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (silence("{}"), "needs at least one matcher"),
        (silence('team=~".*",env!="prod"'), "must not match the empty string"),
        (silence(starts=200, ends=200), "end after it starts"),
        (silence(starts=10, ends=50), "end in the future"),
        (replace(silence(), created_by=""), "needs a creator"),
    ],
)
def test_a_silence_that_cannot_be_meant_is_refused_with_the_reason(given: Silence, text: str) -> None:
    assert text in " ".join(validation_errors(given, now=90))


def test_a_sound_silence_has_no_objections() -> None:
    assert validation_errors(silence(), now=90) == ()


def test_ending_a_silence_early_ends_it_now_and_one_that_is_over_stays_as_it_was() -> None:
    assert expire(silence(), 150).ends_at == 150
    assert expire(silence(), 50).state(50) is SilenceState.EXPIRED
    assert expire(silence(), 500) == silence()


def test_the_end_of_an_active_silence_may_be_moved_in_place() -> None:
    (item,) = update(silence(), replace(silence(name=""), ends_at=400), 150)
    assert (item.id, item.ends_at, item.updated_at) == ("s1", 400, 150)


def test_other_matchers_end_the_old_silence_and_begin_a_new_one() -> None:
    old, new = update(silence(), silence('team="ops"', name=""), 150)
    assert (old.id, old.ends_at) == ("s1", 150)
    assert (new.id, new.starts_at, new.ends_at) == ("", 150, 200)


def test_a_silence_that_is_over_is_begun_anew() -> None:
    (item,) = update(silence(), replace(silence(name=""), ends_at=900), 500)
    assert (item.id, item.starts_at) == ("", 500)
