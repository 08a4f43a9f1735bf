"""Escape text from others (names, reasons, exceptions, labels) so that it is shown and never interpreted.

The pages call it before such text goes into anything that Streamlit renders as Markdown (titles, alerts,
tooltips, labels). Prefer `st.text`, `st.code` or a table cell with `visible` where there is a choice.
Backslashes alone are not enough: after parsing, Streamlit's front end still turns `:streamlit:`, bare
addresses and `->` inside plain text into images, links and arrows. An invisible word joiner prevents that.
"""

from __future__ import annotations

import re

WORD_JOINER = "\u2060"
ELLIPSIS = "…"

# Control characters, and the marks that reorder the text after them on the screen (U+202E and similar).
_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# What a spreadsheet takes for a formula; not a number, and not a dash alone.
_FORMULA = re.compile(r"[=@]|[+-](?![\d.]*$)")
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_REWRITTEN = re.compile(
    r"(?<=:)(?=[a-z][\w+-]*:)"  # :shortcode:
    r"|(?<=[a-z]:)(?=//)|(?<=www)(?=\.)|(?<=@)"  # http://…, www.…, a@b.c
    r"|(?<=[-<>~=])(?=[-<>=])",  # -- -> <- >= and the like
    re.IGNORECASE,
)


def visible(text: object) -> str:
    """The text with each hidden control character replaced by U+FFFD; line breaks stay."""
    return _HIDDEN.sub("\ufffd", str(text))


def one_line(text: object) -> str:
    """Like `visible`, on one line. A table can be saved as CSV: a text that a spreadsheet would calculate stays text."""
    line = _on_one_line(text)
    return f"{WORD_JOINER}{line}" if _FORMULA.match(line) else line


def _on_one_line(text: object) -> str:
    return " ".join(visible(text).split())


def no_icon(text: object) -> str:
    """Like `one_line`; a leading `:material/…:` stays text, which a table's button would draw as an icon."""
    return re.sub(r"^:(?=material/)", f":{WORD_JOINER}", one_line(text))


def plain(text: object) -> str:
    """Markdown that renders as exactly this text, on one line."""
    return _PUNCTUATION.sub(r"\\\1", _REWRITTEN.sub(WORD_JOINER, _on_one_line(text)))


def truncate(text: object, limit: int) -> str:
    """Like `visible`, with at most `limit` characters; the last is an ellipsis where text was cut off."""
    shown = visible(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}{ELLIPSIS}"
