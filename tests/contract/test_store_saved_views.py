"""Saved views of the Fleet page, on every store."""

from __future__ import annotations

import pytest

from controlplane.errors import Conflict
from controlplane.store.dashboard import saved_views as rows
from controlplane.store.dashboard.saved_views import SavedView
from tests.stores import StoreHarness


def view(name: str, parameters: str = "") -> SavedView:
    return SavedView(name, parameters, "ada", 5.0)


def test_a_view_replaces_the_one_of_its_name_and_is_deleted_once(harness: StoreHarness) -> None:
    harness.write(rows.put, view("payments", "app=pay"))
    harness.write(rows.put, view("All failed", "status=failed"))
    harness.write(rows.put, view("payments", "app=pay&app=web"))
    wanted = [view("All failed", "status=failed"), view("payments", "app=pay&app=web")]
    assert harness.read(rows.all_views) == wanted
    assert harness.write(rows.delete, "payments") is True
    assert harness.write(rows.delete, "payments") is False
    assert harness.read(rows.all_views) == wanted[:1]


def test_a_view_too_many_is_refused_and_a_known_one_is_still_replaced(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MAX_VIEWS", 2)
    for name in ("a", "b"):
        harness.write(rows.put, view(name))
    with pytest.raises(Conflict, match="delete one first"):
        harness.write(rows.put, view("c"))
    harness.write(rows.put, view("b", "app=x"))
    assert harness.read(rows.all_views) == [view("a"), view("b", "app=x")]
