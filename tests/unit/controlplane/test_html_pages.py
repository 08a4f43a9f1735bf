"""Whatever a page is given is text in it."""

from __future__ import annotations

from pathlib import Path

from controlplane.html_pages import page_environment

PAGE = '{% extends "base.html" %}{% block title %}{{ name }}{% endblock %}{% block main %}{{ name }}|{{ number }}{% endblock %}'


def test_markup_is_escaped_and_characters_that_are_not_drawn_are_shown(tmp_path: Path) -> None:
    (tmp_path / "own.html").write_text(PAGE)
    page = page_environment(tmp_path).get_template("own.html").render(name="<b>\u202ea\x07\u00a0b", number=3)
    assert "<b>" not in page
    assert page.count("&lt;b&gt;\ufffda\ufffd\u00a0b") == 2
    assert "|3" in page and "default-src 'none'" in page
