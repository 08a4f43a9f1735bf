"""The structure of the code base, checked: imports, packages, names, documentation.

The rules are those of ARCHITECTURE.md and CONTRIBUTING.md. Where a rule stands in the way, change it here and there.
"""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.paths import ROOT

PRODUCT = ("alerts", "controlplane", "listeners", "ui")
MAX_MODULE_LINES = 400
#: Modules that are longer, each with the reason why it is one idea.
LONG_MODULES: Mapping[str, str] = {}
MAX_TEST_LINES = 700
MAX_PACKAGE_MODULES = 20
MIN_DOCUMENTED = 0.90
MAX_MEDIAN_FUNCTION_LINES, MAX_P95_FUNCTION_LINES = 7, 25
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

#: Top-level package -> what of the others it may import.
MAY_IMPORT = {
    "alerts": (),
    "controlplane": ("alerts", "listeners.protocol"),
    "listeners": (),
    "ui": (),
}
#: The store keeps rows; it knows values and errors, and nothing of what is decided about them.
STORE_MAY_IMPORT = (
    "controlplane.store",
    "controlplane.errors",
    "controlplane.model",
    "controlplane.records",
    "controlplane.supervision_model",
    "controlplane.incident_model",
    "controlplane.bulk_model",
)
#: The Spark jobs are drivers: they carry the agent and use its transport.
IMPORTS_THE_AGENT = ("controlplane.pipeline",)
#: Serving must start, and stay small, without pyspark.
IMPORTS_PYSPARK = ("controlplane.pipeline", "controlplane.demo.programs", "listeners")
#: Only these commands import the Spark jobs, and only when they run.
PIPELINE, PIPELINE_COMMANDS = ("controlplane.pipeline",), "controlplane.cli.history"


# -- reading the code -------------------------------------------------------------------------------


def modules(*folders: str) -> list[Path]:
    return sorted(
        p for folder in folders for p in (ROOT / folder).rglob("*.py") if "__pycache__" not in p.parts
    )


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and dotted name of each import of a module, also inside functions; `from a import b` is a.b."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    package = dotted(path).split(".") if path.name == "__init__.py" else dotted(path).split(".")[:-1]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{name.name}") for name in node.names)


def within(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@cache
def import_graph() -> dict[str, set[str]]:
    """Module -> modules of the product that it imports, anywhere in it."""
    paths = {dotted(path): path for path in modules(*PRODUCT)}
    graph = {}
    for module, path in paths.items():
        targets = {name if name in paths else name.rpartition(".")[0] for _, name in imports(path)}
        graph[module] = {target for target in targets if target in paths} - {module}
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in index:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == index[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                found.append(sorted(component))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


# -- imports ----------------------------------------------------------------------------------------


def forbidden_imports(path: Path) -> list[str]:
    package = dotted(path).split(".")[0]
    agent = ("listeners",) if within(dotted(path), IMPORTS_THE_AGENT) else ()
    allowed = (package, *MAY_IMPORT[package], *agent)
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for line, name in imports(path)
        if within(name, PRODUCT) and not within(name, allowed)
    ]


@pytest.mark.parametrize("package", PRODUCT)
def test_a_package_imports_only_what_the_table_allows(package: str) -> None:
    assert [line for path in modules(package) for line in forbidden_imports(path)] == []


def test_no_module_imports_itself_in_a_circle() -> None:
    assert cycles(import_graph()) == []


def packages() -> list[str]:
    """All packages that have packages or modules below them; "" is the repository."""
    names = {dotted(path).rpartition(".")[0] for path in modules(*PRODUCT)}
    parents = {".".join(name.split(".")[:depth]) for name in names for depth in range(name.count(".") + 2)}
    return sorted(parents | {""})


@pytest.mark.parametrize("package", packages())
def test_the_parts_of_a_package_do_not_import_each_other_in_a_circle(package: str) -> None:
    prefix = f"{package}." if package else ""
    graph: dict[str, set[str]] = defaultdict(set)
    for module, targets in import_graph().items():
        for target in targets:
            if module.startswith(prefix) and target.startswith(prefix):
                part, other = (name[len(prefix) :].split(".")[0] for name in (module, target))
                if part != other:
                    graph[part].add(other)
    assert cycles(graph) == []


def test_no_package_has_more_than_20_modules() -> None:
    counts: dict[str, int] = defaultdict(int)
    for path in modules(*PRODUCT):
        if path.name != "__init__.py":
            counts[path.parent.relative_to(ROOT).as_posix()] += 1
    assert {package: count for package, count in counts.items() if count > MAX_PACKAGE_MODULES} == {}


def test_the_store_calls_nothing_of_the_domain() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules("controlplane/store")
        for line, name in imports(path)
        if within(name, ("controlplane", "ui"))
        and not within(name, (*STORE_MAY_IMPORT, "controlplane.runtime"))
    ]
    assert found == []


def test_the_wire_format_needs_only_the_standard_library_and_its_errors() -> None:
    outside = {name for _, name in imports(ROOT / "listeners/protocol/wire.py") if within(name, PRODUCT)}
    assert all(within(name, ("listeners.protocol.errors",)) for name in outside)


def test_the_server_never_imports_pyspark() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in modules("controlplane", "alerts", "ui")
        if not within(dotted(path), IMPORTS_PYSPARK) and not dotted(path).startswith(PIPELINE_COMMANDS)
        for line, name in imports(path)
        if within(name, ("pyspark", "py4j"))
    ]
    assert found == []


def test_only_the_commands_of_the_history_import_its_jobs_and_only_when_they_run() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(*PRODUCT)
        if not within(dotted(path), PIPELINE) and not dotted(path).startswith(PIPELINE_COMMANDS)
        for line, name in imports(path)
        if within(name, PIPELINE)
    ]
    assert found == []
    at_import_time = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules("controlplane")
        if dotted(path).startswith(PIPELINE_COMMANDS)
        for name in imported_at_import_time(path)
        if within(name, (*PIPELINE, "pyspark"))
    ]
    assert at_import_time == []


def imported_at_import_time(path: Path) -> set[str]:
    """Imports at the top level of a module: not inside functions, not for type checkers alone."""
    found: set[str] = set()
    for node in parsed(path).body:
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


@pytest.mark.parametrize("module", ["wire", "errors", "catalogue"])
def test_what_the_server_takes_from_the_agent_imports_no_pyspark(module: str) -> None:
    code = f"import sys, listeners.protocol.{module}; sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# -- modules and names ------------------------------------------------------------------------------


def is_docstring_only(path: Path) -> bool:
    body = parsed(path).body
    return len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)


def test_every_init_is_a_docstring_and_nothing_else() -> None:
    inits = [path for path in modules(*PRODUCT) if path.name == "__init__.py"]
    assert [str(path.relative_to(ROOT)) for path in inits if not is_docstring_only(path)] == []


def test_every_package_has_an_init() -> None:
    folders = {path.parent for path in modules(*PRODUCT)}
    scripts = {"app_pages", "programs", "site", "migrations", "versions"}
    assert [
        str(f.relative_to(ROOT))
        for f in folders
        if f.name not in scripts and not (f / "__init__.py").exists()
    ] == []


def too_long(limit: int, *folders: str) -> dict[str, int]:
    lengths = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in modules(*folders)}
    named = {p.relative_to(ROOT).as_posix(): n for p, n in lengths.items() if n > limit}
    return {name: lines for name, lines in named.items() if name not in LONG_MODULES}


def test_a_module_is_longer_than_400_lines_only_for_a_reason() -> None:
    assert too_long(MAX_MODULE_LINES, *PRODUCT, "bench") == {}


def test_no_test_module_is_longer_than_700_lines() -> None:
    assert too_long(MAX_TEST_LINES, "tests") == {}


def test_functions_are_short() -> None:
    lengths = sorted(
        (node.end_lineno or node.lineno) - node.body[0].lineno + 1
        for path in modules(*PRODUCT)
        for node in functions(path)
    )
    assert statistics.median(lengths) <= MAX_MEDIAN_FUNCTION_LINES
    assert lengths[int(len(lengths) * 0.95)] <= MAX_P95_FUNCTION_LINES


def test_files_are_named_by_what_they_hold() -> None:
    named = [
        p for p in modules(*PRODUCT, "bench", "tests") if FORBIDDEN_NAMES & set(p.stem.lower().split("_"))
    ]
    assert [str(p.relative_to(ROOT)) for p in named] == []


def test_no_file_of_the_dashboard_hides_a_package() -> None:
    # `streamlit run ui/app.py` puts ui/ first on sys.path: ui/alerts would hide the rule engine.
    assert [p.name for p in (ROOT / "ui").glob("*") if p.stem in PRODUCT] == []


def test_a_public_class_has_a_name_of_its_own_in_the_whole_project() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in modules(*PRODUCT):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


# -- tests ------------------------------------------------------------------------------------------


def mirrored(test: Path) -> bool:
    """`tests/unit/a/b/test_c.py`, or `test_c_topic.py`, tests the module or package `a.b.c`, or the package `a.b`."""
    folder = ROOT / test.parent.relative_to(ROOT / "tests/unit")
    name = test.stem.removeprefix("test_")
    known = {path.stem for path in folder.glob("*") if path.suffix == ".py" or path.is_dir()} | {folder.name}
    return folder.is_dir() and any(name == stem or name.startswith(f"{stem}_") for stem in known)


def test_unit_tests_mirror_the_tree() -> None:
    tests = [p for p in modules("tests/unit") if p.name.startswith("test_")]
    assert [str(p.relative_to(ROOT)) for p in tests if not mirrored(p)] == []


def test_every_folder_of_tests_is_run() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    run = settings["tool"]["pytest"]["ini_options"]["testpaths"]
    tests = {p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").rglob("test_*.py")}
    assert [
        test for test in sorted(tests) if not any(test == at or test.startswith(at + "/") for at in run)
    ] == []


# -- documentation ----------------------------------------------------------------------------------


def test_every_module_has_a_docstring() -> None:
    generated = ROOT / "controlplane/store/migrations"
    paths = [p for p in modules(*PRODUCT, "bench") if generated not in p.parents]
    assert [str(p.relative_to(ROOT)) for p in paths if ast.get_docstring(parsed(p)) is None] == []


def public_names(path: Path) -> Iterator[tuple[str, bool]]:
    """Public classes, functions and methods, each with whether it has a docstring."""

    def below(body: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, bool]]:
        for node in body:
            kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            if isinstance(node, kinds) and not node.name.startswith("_"):
                yield f"{prefix}{node.name}", ast.get_docstring(node) is not None
                if isinstance(node, ast.ClassDef):
                    yield from below(node.body, f"{prefix}{node.name}.")

    yield from below(parsed(path).body, f"{dotted(path)}.")


def test_public_names_have_docstrings() -> None:
    names = [name for path in modules(*PRODUCT) for name in public_names(path)]
    missing = [name for name, documented in names if not documented]
    assert 1 - len(missing) / len(names) >= MIN_DOCUMENTED, "\n".join(missing)


def paths_named_in(document: Path) -> set[str]:
    """Every `path/like.this` or `folder/` in backquotes that begins with a folder of the repository."""
    folders = {p.name for p in ROOT.iterdir() if p.is_dir()}
    spans = re.findall(r"`([^`\s]+)`", document.read_text(encoding="utf-8"))
    return {span for span in spans if span.split("/")[0] in folders and "/" in span and "*" not in span}


def modules_named_in(document: Path) -> set[str]:
    """Every `package.module` of the product in backquotes."""
    spans = re.findall(r"`([a-z_]+(?:\.\w+)+)(?:\(\))?`", document.read_text(encoding="utf-8"))
    return {span for span in spans if span.split(".")[0] in PRODUCT}


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something that its module defines at the top."""
    path = ROOT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    module = path.parent.with_suffix(".py")
    return module.exists() and bool(
        re.search(rf"^(?:def|class) {path.name}\b|^{path.name}\b", module.read_text(), re.M)
    )


DOCUMENTS = ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "docs/glossary.md"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_only_what_exists(document: str) -> None:
    path = ROOT / document
    gone = [name for name in paths_named_in(path) if not (ROOT / name).exists()]
    gone += [name for name in modules_named_in(path) if not exists(name)]
    assert gone == []


def test_the_map_names_every_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = {p.relative_to(ROOT).parent for p in modules(*PRODUCT) if p.name == "__init__.py"}
    domains = sorted(path.as_posix() for path in named if len(path.parts) <= 2)
    assert [domain for domain in domains if f"`{domain}/`" not in text] == []


def test_the_readme_has_at_most_120_lines_of_100_characters() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120 and max(map(len, lines)) <= 100


def test_the_lock_files_pin_every_package_by_hash_and_name_no_private_index() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        text = lock.read_text(encoding="utf-8")
        pins = re.findall(r"^[a-z0-9][\w.-]*==.*?(?=^[a-z0-9]|\Z)", text, re.M | re.S)
        assert pins
        assert all("--hash=sha256:" in pin for pin in pins)
        assert not re.search(r"file:|^-i |--(?:extra-)?index-url|--find-links|^/", text, re.M)


def test_make_test_long_is_given_every_folder_with_long_tests() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    folders = next(line for line in text.splitlines() if line.startswith("LONG :=")).split()[2:]
    marked = [
        path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.long" in path.read_text("utf-8")
    ]
    others = [p for p in marked if not any(p.is_relative_to(ROOT / folder) for folder in folders)]
    assert [path for path in others if path != Path(__file__)] == []
