"""Words that this project used in a private sense stay out of names and prose.

Names and text are those of Spark, Prometheus, Alertmanager, SQL and Python (see CONTRIBUTING.md). A word of another
project's API is allowed where it stands in `OTHERS`.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT

#: In prose: docstrings, comments, messages, documents.
PROSE = (
    "told tell tells telling hear hears heard hearing says beat beats desk desks room rooms lane lanes mutes pile shelf "
    "patience seats dialects bystander bystanders reckon reckoning departing departures foresight settling farewell "
    "surgery"
).split()
#: In names also words that prose may use in their ordinary sense.
NAMES = {*PROSE, "life", "far", "usual", "happened", "keeping", "ages", "orders", "words", "says", "said"}
WORD = re.compile(rf"\b(?:{'|'.join(PROSE)})\b", re.IGNORECASE)
#: Names of other libraries and of the demo's data.
OTHERS = {"tell", "orders", "read_orders", "ORDERS", "ORDERS_PER_SECOND"}
DOCUMENTS = ["*.md", "*.yaml", "*.tmpl", "*.toml", "*.html", "Makefile", "Dockerfile", ".ci/run"]
CODE = ["alerts", "bench", "controlplane", "listeners", "packaging", "tests", "ui"]


def tracked(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in names if (ROOT / name).exists() and name != "tests/test_language.py"]


def of_folder(folder: str) -> list[Path]:
    return [path for path in tracked(folder) if path.suffix == ".py"]


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each string and comment of a module; of tests only docstrings and comments: the rest is data."""
    source = path.read_text(encoding="utf-8")
    if not WORD.search(source):
        return  # to read it token by token would take ten times as long
    docs = docstrings(source) if ROOT / "tests" in path.parents else None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.type in (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))
        if token.type == tokenize.COMMENT or (text and (docs is None or token.start in docs)):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


def docstrings(source: str) -> set[tuple[int, int]]:
    """Where the docstrings of a module begin: (line, column)."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add((first.lineno, first.col_offset))
    return found


def names_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a module defines: classes, functions, parameters, variables, fields."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def parts(name: str) -> set[str]:
    """`ToldAt`, `told_at` -> {"told", "at"}."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@pytest.mark.parametrize("folder", CODE)
def test_prose_of_code_has_no_private_word(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.strip()}"
        for path in of_folder(folder)
        for line, text in prose_of(path)
        if WORD.search(text)
    ]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("folder", CODE)
def test_names_have_no_private_word(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in of_folder(folder)
        for line, name in names_of(path)
        if name not in OTHERS and (parts(name) & NAMES or name == "one")
    ]
    assert found == [], "\n".join(found)


def test_files_have_no_private_word() -> None:
    found = [path for folder in CODE for path in of_folder(folder) if parts(path.stem) & (NAMES - {"orders"})]
    assert [str(path.relative_to(ROOT)) for path in found] == []


def test_documents_have_no_private_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in tracked(*DOCUMENTS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if WORD.search(line)
    ]
    assert found == [], "\n".join(found)
