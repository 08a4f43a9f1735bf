"""Text from others is shown, never interpreted."""

import pytest

from ui.kit.markup import WORD_JOINER, no_icon, one_line, plain, visible


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("![x](http://evil)", rf"\!\[x\]\(http\:{WORD_JOINER}\/\/evil\)"),
        ("<img onerror>", r"\<img onerror\>"),
        (":red[x]", r"\:red\[x\]"),
        ("[a](javascript:alert(1))", r"\[a\]\(javascript\:alert\(1\)\)"),
        ("$latex$", r"\$latex\$"),
        (":smile:", rf"\:{WORD_JOINER}smile\:"),
        (":material/home:", r"\:material\/home\:"),
        ("# a\n- b", r"\# a \- b"),
        ("www.evil.example", rf"www{WORD_JOINER}\.evil\.example"),
        ("bob@evil.example", rf"bob\@{WORD_JOINER}evil\.example"),
        ("a -> b", rf"a \-{WORD_JOINER}\> b"),
        ("`code` | _i_ | **b**", r"\`code\` \| \_i\_ \| \*\*b\*\*"),
    ],
)
def test_no_markup_survives(text: str, markdown: str) -> None:
    assert plain(text) == markdown


def test_an_ordinary_name_carries_no_invisible_character() -> None:
    for name in ("orders-enriched_v2.1", "billing: daily", "10:30:00", "a/b/c", "größe"):
        assert WORD_JOINER not in plain(name)


def test_without_backslashes_and_joiners_the_text_is_unchanged() -> None:
    text = "".join(map(chr, range(32, 127)))
    assert plain(text).replace(WORD_JOINER, "").replace("\\", "") == one_line(text).replace("\\", "")


def test_hidden_and_reordering_characters_become_visible() -> None:
    assert visible("a\u202egpj.exe\x1b[31m\x00") == "a\ufffdgpj.exe\ufffd[31m\ufffd"
    assert visible("two\nlines\tkept") == "two\nlines\tkept"


def test_a_name_that_looks_like_an_icon_stays_a_name() -> None:
    assert no_icon(":material/delete: all") == f":{WORD_JOINER}material/delete: all"
    assert no_icon("orders:material/x:") == "orders:material/x:"


def test_one_line_folds_every_break() -> None:
    assert one_line(" a\n\tb \r c ") == "a b c"


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r\n=1", '=HYPERLINK("http://e")']
)
def test_a_cell_is_no_formula_in_a_spreadsheet(text: str) -> None:
    assert one_line(text)[0] == WORD_JOINER
    assert one_line(text)[1:] == " ".join(text.split())


@pytest.mark.parametrize("text", ["-5", "+1.5", "-", "1-2", "orders", ""])
def test_numbers_and_ordinary_texts_stay(text: str) -> None:
    assert one_line(text) == text
