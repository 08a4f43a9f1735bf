"""The architecture rules, checked: who may import whom, how long a module may be, what an `__init__` is.

The table of rooms is the one of ARCHITECTURE.md. A rule that stands in the way is changed in both.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("alerts", "controlplane", "listeners", "ui")
LONGEST_MODULE = 400
LONGEST_SUITE = 700
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

#: Room → what of ours it may import. `listeners.protocol.errors` comes with the wire: it is what decoding raises.
ARROWS = {
    "alerts": (),
    "controlplane": (
        "alerts",
        "listeners.protocol.wire",
        "listeners.protocol.catalogue",
        "listeners.protocol.errors",
    ),
    "listeners": (),
    "ui": (),
}
#: The jobs of Spark are drivers like any other: they carry the agent, and speak by its transport.
CARRIES_THE_AGENT = ("controlplane.pipeline",)
#: Only these rooms of the server may import pyspark; serving must start, and stay small, without it.
PYSPARK_ROOMS = ("controlplane.pipeline", "controlplane.demo.programs", "listeners")
#: What may import the jobs of Spark: they themselves, and their commands, once these are called.
PIPELINE, ITS_COMMANDS = ("controlplane.pipeline",), "controlplane.cli.history"


def modules(*folders: str) -> list[Path]:
    return sorted(
        p for folder in folders for p in (ROOT / folder).rglob("*.py") if "__pycache__" not in p.parts
    )


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of all that a module imports, at any depth; `from a import b` is a.b."""
    package = dotted(path).split(".") if path.name == "__init__.py" else dotted(path).split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{name.name}") for name in node.names)


def within(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(room + ".") for room in rooms)


def broken_arrows(path: Path) -> list[str]:
    room = dotted(path).split(".")[0]
    allowed = (room, *ARROWS[room], *(("listeners",) if within(dotted(path), CARRIES_THE_AGENT) else ()))
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for line, name in imports(path)
        if within(name, OURS) and not within(name, allowed) and not _is_package_of(name, allowed)
    ]


def _is_package_of(name: str, allowed: tuple[str, ...]) -> bool:
    """`import listeners` alone is the road to `listeners.protocol.wire`, not a use of the rest."""
    return any(room.startswith(name + ".") for room in allowed)


@pytest.mark.parametrize("room", OURS)
def test_a_room_imports_only_what_its_arrows_allow(room: str) -> None:
    assert [line for path in modules(room) for line in broken_arrows(path)] == []


def test_the_wire_format_itself_needs_only_the_standard_library_and_its_errors() -> None:
    outside = {name for _, name in imports(ROOT / "listeners/protocol/wire.py") if within(name, OURS)}
    assert all(within(name, ("listeners.protocol.errors",)) for name in outside)


def test_the_server_never_imports_pyspark() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in modules("controlplane", "alerts", "ui")
        if not within(dotted(path), PYSPARK_ROOMS) and not dotted(path).startswith(ITS_COMMANDS)
        for line, name in imports(path)
        if within(name, ("pyspark", "py4j"))
    ]
    assert found == []


def test_only_the_commands_of_the_history_import_its_jobs_and_only_when_they_run() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(*OURS)
        if not within(dotted(path), PIPELINE)
        for line, name in imports(path)
        if within(name, PIPELINE) and not dotted(path).startswith(ITS_COMMANDS)
    ]
    assert found == []
    at_once = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules("controlplane")
        if dotted(path).startswith(ITS_COMMANDS)
        for name in imported_at_once(path)
        if within(name, (*PIPELINE, "pyspark"))
    ]
    assert at_once == []


def imported_at_once(path: Path) -> set[str]:
    """What a module imports when it is imported itself: nothing within functions, nothing for type checkers alone."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize(
    "module", ["controlplane.lake.lake", "controlplane.cli.history.commands", "controlplane.app"]
)
def test_what_serves_and_reads_the_lake_starts_without_spark(module: str) -> None:
    code = (
        f"import sys, {module}; sys.exit('pyspark' in sys.modules or 'controlplane.pipeline' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_agent_imports_nothing_but_the_standard_library_and_the_drivers_own_spark() -> None:
    allowed = (*sys.stdlib_module_names, "pyspark", "py4j", "listeners")
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules("listeners")
        for line, name in imports(path)
        if not within(name, allowed)
    ]
    assert found == []


@pytest.mark.parametrize("module", ["listeners.protocol.wire", "listeners.protocol.errors"])
def test_what_the_server_takes_from_the_agent_drags_in_no_pyspark(module: str) -> None:
    code = f"import sys, {module}; sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def is_docstring_only(path: Path) -> bool:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)


def test_every_init_is_a_docstring_and_nothing_else() -> None:
    inits = [path for path in modules(*OURS) if path.name == "__init__.py"]
    assert [str(path.relative_to(ROOT)) for path in inits if not is_docstring_only(path)] == []


def is_script_without_docstring(path: Path) -> bool:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None


def test_every_module_says_at_its_head_what_it_is() -> None:
    generated = ROOT / "controlplane/store/migrations"
    paths = [p for p in modules(*OURS, "bench") if generated not in p.parents]
    assert [str(p.relative_to(ROOT)) for p in paths if is_script_without_docstring(p)] == []


def too_long(limit: int, *folders: str) -> dict[str, int]:
    lengths = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in modules(*folders)}
    return {str(p.relative_to(ROOT)): n for p, n in lengths.items() if n > limit}


def test_no_module_is_longer_than_400_lines() -> None:
    assert too_long(LONGEST_MODULE, *OURS, "bench") == {}


def test_no_suite_is_longer_than_700_lines() -> None:
    assert too_long(LONGEST_SUITE, "tests") == {}


def test_every_folder_of_tests_is_run() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    run = settings["tool"]["pytest"]["ini_options"]["testpaths"]
    tests = {p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").rglob("test_*.py")}
    assert [
        test for test in sorted(tests) if not any(test == at or test.startswith(at + "/") for at in run)
    ] == []


def test_files_are_named_by_what_they_hold() -> None:
    named = [p for p in modules(*OURS, "bench", "tests") if FORBIDDEN_NAMES & set(p.stem.lower().split("_"))]
    assert [str(p.relative_to(ROOT)) for p in named] == []


def test_no_file_of_the_dashboard_hides_a_package_of_ours() -> None:
    # `streamlit run ui/app.py` puts ui/ first on sys.path.
    assert [p.name for p in (ROOT / "ui").glob("*") if p.stem in OURS] == []


def paths_named_in(document: Path) -> set[str]:
    """Every `path/like.this` or `folder/` in backquotes that begins with a folder of the repository."""
    folders = {p.name for p in ROOT.iterdir() if p.is_dir()}
    spans = re.findall(r"`([^`\s]+)`", document.read_text(encoding="utf-8"))
    return {span for span in spans if span.split("/")[0] in folders and "/" in span and "*" not in span}


def modules_named_in(document: Path) -> set[str]:
    """Every `package.module` of ours in backquotes."""
    spans = re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)(?:\(\))?`", document.read_text(encoding="utf-8"))
    return {span for span in spans if span.split(".")[0] in OURS}


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something that its module defines at the top."""
    path = ROOT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    module = path.parent.with_suffix(".py")
    return module.exists() and bool(
        re.search(rf"^(?:def|class) {path.name}\b|^{path.name}\b", module.read_text(), re.M)
    )


DOCUMENTS = ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_only_what_exists(document: str) -> None:
    path = ROOT / document
    gone = [name for name in paths_named_in(path) if not (ROOT / name).exists()]
    gone += [name for name in modules_named_in(path) if not exists(name)]
    assert gone == []


def test_the_lock_files_pin_every_package_by_hash_and_name_no_private_index() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        text = lock.read_text(encoding="utf-8")
        pins = re.findall(r"^[a-z0-9][\w.-]*==.*?(?=^[a-z0-9]|\Z)", text, re.M | re.S)
        assert pins
        assert all("--hash=sha256:" in pin for pin in pins)
        assert not re.search(r"file:|^-i |--(?:extra-)?index-url|--find-links|^/", text, re.M)
