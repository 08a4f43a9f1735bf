"""Silences and acknowledgements in memory."""

from __future__ import annotations

from dataclasses import replace

from alerts.acknowledgements import Acknowledgement
from alerts.matching.labels import Matcher
from alerts.silences import Silence
from controlplane.alerting.silence_state import SilenceStates

ONE = Silence("a", (Matcher("app", "=", "shop"),), 1.0, 2.0, "ada", "")


def test_a_silence_is_changed_in_its_place() -> None:
    silence_state = SilenceStates()
    silence_state.put([ONE, replace(ONE, id="b")])
    silence_state.put([longer := replace(ONE, ends_at=9.0)])
    assert (silence_state.silence("a"), silence_state.silence("c")) == (longer, None)
    assert [silence.id for silence in silence_state.silences] == ["a", "b"]


def test_what_is_loaded_takes_the_place_of_all_that_was_there() -> None:
    silence_state = SilenceStates()
    silence_state.put([ONE])
    silence_state.acknowledge(Acknowledgement("f", 1.0, "ada", 2.0))
    silence_state.load([replace(ONE, id="b")], [])
    assert [silence.id for silence in silence_state.silences] == ["b"]
    assert silence_state.acknowledgements == ()
