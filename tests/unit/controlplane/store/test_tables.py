"""Text that any database and any reader of JSON can hold."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from controlplane.store.tables import storable

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT)
def test_any_text_becomes_storable(text: str) -> None:
    kept = storable(text)
    assert len(kept) == len(text)
    assert "\x00" not in kept
    kept.encode("utf-8")
    json.dumps(kept, ensure_ascii=False).encode("utf-8")


@given(st.text())
def test_storable_text_stays_as_it_is(text: str) -> None:
    assert storable(text.replace("\x00", "")) == text.replace("\x00", "")
