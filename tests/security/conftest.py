"""Fixtures of the security tests: those of the acceptance tests, and the browser of the page tests."""

from tests.acceptance.conftest import admin, server
from tests.ui.conftest import chromium

__all__ = ["admin", "chromium", "server"]
