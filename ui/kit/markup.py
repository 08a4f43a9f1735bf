"""Makes text from others inert: names, reasons, exception texts and labels are shown, never interpreted.

The pages call it before such text goes into anything that Streamlit renders as Markdown (titles, alerts,
tooltips, labels). Where there is a choice use `st.text`, `st.code` or a table cell with `visible` instead.
Backslashes alone are not enough: after parsing, Streamlit's front end still turns `:streamlit:`, bare
addresses and `->` inside plain text into images, links and arrows. An invisible word joiner breaks those.
"""

from __future__ import annotations

import re

WORD_JOINER = "\u2060"

# Controls, and the marks that reorder what follows them on the screen (U+202E and its kin).
_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_REWRITTEN = re.compile(
    r"(?<=:)(?=[a-z][\w+-]*:)"  # :shortcode:
    r"|(?<=[a-z]:)(?=//)|(?<=www)(?=\.)|(?<=@)"  # http://…, www.…, a@b.c
    r"|(?<=[-<>~=])(?=[-<>=])",  # -- -> <- >= and the like
    re.IGNORECASE,
)


def visible(text: object) -> str:
    """The text with every hidden control character replaced by a replacement mark; line breaks stay."""
    return _HIDDEN.sub("\ufffd", str(text))


def one_line(text: object) -> str:
    """As `visible`, on one line."""
    return " ".join(visible(text).split())


def no_icon(text: object) -> str:
    """As `one_line`; a leading `:material/…:`, which a table's button would draw as an icon, stays text."""
    return re.sub(r"^:(?=material/)", f":{WORD_JOINER}", one_line(text))


def plain(text: object) -> str:
    """Markdown that renders as exactly this text, on one line."""
    return _PUNCTUATION.sub(r"\\\1", _REWRITTEN.sub(WORD_JOINER, one_line(text)))
