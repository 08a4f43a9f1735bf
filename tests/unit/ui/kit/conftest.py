"""Fixtures of the page tests that cached reads need too: a fake client on a fake fleet."""

from tests.ui.conftest import client, world

__all__ = ["client", "world"]
