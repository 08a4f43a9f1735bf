"""Layout of the wheels: the repository's packages under names that cannot collide with a user's own packages.

`alerts`, `ui` and `listeners` are names that a user's program may have. The wheels therefore install

    listeners     ->  spark_controlplane               (the agent)
    controlplane  ->  spark_controlplane_server        (the server)
    alerts, ui    ->  spark_controlplane_server.alerts, spark_controlplane_server.ui

`stage` copies the packages to their installed places and rewrites import statements and dotted module names in
strings. Used by `wheel_backend` (the server's wheel) and `agent_wheel` (the agent's).
"""

from __future__ import annotations

import ast
import io
import re
import shutil
import tokenize
from collections.abc import Iterable
from pathlib import Path

#: Package in the repository -> package in a wheel.
INSTALLED_NAMES = {
    "listeners": "spark_controlplane",
    "controlplane": "spark_controlplane_server",
    "alerts": "spark_controlplane_server.alerts",
    "ui": "spark_controlplane_server.ui",
}
_DOTTED = re.compile(rf"(?<![\w./-])(?:{'|'.join(INSTALLED_NAMES)})(?:\.\w+)+")
_TEXT_TOKENS = (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))


def stage(root: Path, target: Path, packages: Iterable[str] = tuple(INSTALLED_NAMES)) -> None:
    """Copy `packages` of the repository at `root` to their installed places below `target`."""
    modules = set(module_names(root))
    for package in packages:
        place = target.joinpath(*INSTALLED_NAMES[package].split("."))
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache", "ruff.toml")
        shutil.copytree(root / package, place, ignore=ignored, dirs_exist_ok=True)
        for path in place.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            path.write_text(rewrite(text, modules), encoding="utf-8")


def module_names(root: Path) -> Iterable[str]:
    """Dotted names of all modules and packages of the repository."""
    for package in INSTALLED_NAMES:
        for path in (root / package).rglob("*.py"):
            yield ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def installed_name(name: str) -> str:
    """`listeners.run` -> `spark_controlplane.run`; a name that is not ours stays."""
    package, dot, rest = name.partition(".")
    return INSTALLED_NAMES.get(package, package) + dot + rest


def rewrite(source: str, modules: set[str]) -> str:
    """The source of a module with the installed names.

    ValueError where `import package.module` binds one of our packages by its own name: such a binding cannot
    be rewritten; import the module with `from`.
    """
    lines = _offsets(source)
    edits = [*_imports(source, lines), *_strings(source, lines, modules)]
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def _offsets(source: str) -> list[int]:
    """Offset in characters at which each line begins."""
    offsets = [0]
    for line in source.split("\n"):  # as the tokenizer: splitlines() knows more line ends
        offsets.append(offsets[-1] + len(line) + 1)
    return offsets


def _imports(source: str, lines: list[int]) -> Iterable[tuple[int, int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in INSTALLED_NAMES:
                    raise ValueError(
                        f"line {node.lineno}: write `from … import …` instead of `import {alias.name}`"
                    )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            name = installed_name(node.module)
            if name != node.module:
                # An import statement begins with ASCII: columns in bytes are columns in characters.
                start = lines[node.lineno - 1] + node.col_offset + len("from ")
                yield start, start + len(node.module), name


def _strings(source: str, lines: list[int], modules: set[str]) -> Iterable[tuple[int, int, str]]:
    def replaced(match: re.Match[str]) -> str:
        name = match.group()
        while name and name not in modules:
            name = name.rpartition(".")[0]
        return installed_name(name) + match.group()[len(name) :] if "." in name else match.group()

    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _TEXT_TOKENS:
            text = _DOTTED.sub(replaced, token.string)
            if text != token.string:
                yield (
                    lines[token.start[0] - 1] + token.start[1],
                    lines[token.end[0] - 1] + token.end[1],
                    text,
                )
