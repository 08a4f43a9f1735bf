"""The `sitecustomize` that attaches: in real Python processes, beside a PySpark that is only its names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from listeners import packaging
from tests.paths import ROOT

SITE = ROOT / "listeners/site"

#: As much of PySpark as is hooked, and an agent that states what it is asked.
PYSPARK = """
class SparkSession:
    class Builder:
        def getOrCreate(self):
            return SparkSession()
"""
WRITER = """
class DataStreamWriter:
    def __init__(self, session): self._spark = session
    def start(self, path=None): return "started " + str(path)
    def toTable(self, name): return "table " + name
"""
AGENT = """
seen = []
def joined(session):
    new = session not in seen
    seen.append(session)
    print("joined", new)
    return new
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with `pyspark` and an agent of our making, whose hook is the real one."""
    for name, text in {
        "pyspark/__init__.py": "",
        "pyspark/sql/__init__.py": "from pyspark.sql.session import SparkSession",
        "pyspark/sql/session.py": PYSPARK,
        "pyspark/sql/streaming/__init__.py": "",
        "pyspark/sql/streaming/readwriter.py": WRITER,
        "listeners/__init__.py": "",
        "listeners/autoattach.py": AGENT,
        "listeners/site/sitecustomize.py": (SITE / "sitecustomize.py").read_text(),
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def python(code: str, *path: Path, cwd: Path, **environ: str) -> str:
    """What a Python process prints, both streams, with `path` as its PYTHONPATH."""
    environ = {"CONTROLPLANE_URL": "http://server", **environ, "PYTHONPATH": ":".join(map(str, path))}
    environ = {name: value for name, value in environ.items() if value}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


MAKE = "from pyspark.sql import SparkSession; s = SparkSession.Builder().getOrCreate(); "
HOOKED = "import sys; print([type(f).__name__ for f in sys.meta_path if hasattr(f, 'controlplane')])"


def test_a_session_that_is_made_gets_the_agent_from_beside_the_hook(place: Path, tmp_path: Path) -> None:
    assert python(MAKE, place / "listeners/site", cwd=place) == "joined True\n"


def test_a_session_that_no_builder_made_gets_it_before_its_first_query(place: Path) -> None:
    code = (
        "from pyspark.sql import SparkSession\n"
        "from pyspark.sql.streaming.readwriter import DataStreamWriter\n"
        "writer = DataStreamWriter(SparkSession())\n"
        "print(writer.start(path='there')); print(writer.toTable('t'))"
    )
    printed = python(code, place / "listeners/site", cwd=place).splitlines()
    assert printed == ["joined True", "joined False", "started there", "joined False", "table t"]


def test_the_modules_of_pyspark_look_as_they_would_without_us(place: Path) -> None:
    code = (
        "import pyspark.sql.session as m, inspect; "
        "print(type(m.__loader__).__name__, m.__spec__.loader is m.__loader__, "
        "m.SparkSession.Builder.getOrCreate.__name__, len(inspect.getsource(m)))"
    )
    assert python(code, place / "listeners/site", cwd=place) == python(code, cwd=place)


@pytest.mark.parametrize(
    "environ",
    [
        {"CONTROLPLANE_URL": ""},
        {"PYTHON_WORKER_FACTORY_SECRET": "s"},
        {"PYTHON_WORKER_FACTORY_PORT": "1"},
    ],
)
def test_without_a_server_and_in_a_worker_of_spark_nothing_is_hooked(
    place: Path, environ: dict[str, str]
) -> None:
    assert python(HOOKED, place / "listeners/site", cwd=place, **environ) == "[]\n"
    assert python(MAKE, place / "listeners/site", cwd=place, **environ) == ""


def test_a_python_without_pyspark_loads_nothing_of_ours(place: Path) -> None:
    code = "import sys; print(*sys.modules)"
    ours = set(python(code, place / "listeners/site", cwd=place).split())
    plain = set(python(code, cwd=place).split())
    assert ours - plain <= {"sitecustomize", "__future__", "importlib.machinery"}


def test_the_sitecustomize_that_was_there_before_runs_as_if_we_were_not(place: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("WORD = 'theirs'; print(__name__, __file__)")
    code = MAKE + "import sitecustomize; print(sitecustomize.WORD)"
    printed = python(code, place / "listeners/site", theirs, cwd=place).splitlines()
    assert printed == [f"sitecustomize {theirs}/sitecustomize.py", "joined True", "theirs"]


def test_an_error_of_theirs_is_reported_as_python_reports_it_and_does_not_stop_ours(
    place: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("raise ValueError('poison')")
    printed = python(MAKE, place / "listeners/site", theirs, cwd=place)
    assert "ValueError: poison" in printed and "joined True\n" in printed


def test_two_copies_of_the_hook_are_one(place: Path, tmp_path: Path) -> None:
    packaging.write_zip(str(tmp_path / "agent.zip"))
    assert python(HOOKED, place / "listeners/site", tmp_path / "agent.zip", cwd=place) == "['Gate']\n"


def test_a_program_with_a_module_of_our_name_keeps_it_and_receives_why_there_is_no_agent(
    place: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (program / "pyspark").symlink_to(place / "pyspark")
    (program / "listeners.py").write_text("WORD = 'mine'")
    packaging.write_zip(str(tmp_path / "agent.zip"))
    code = MAKE + "SparkSession.Builder().getOrCreate(); import listeners; print(listeners.WORD)"
    printed = python(code, tmp_path / "agent.zip", cwd=program).splitlines()
    assert sorted(printed)[1:] == [
        "the control plane's agent is not attached: another module is named "
        f"listeners ({program}/listeners.py)"
    ]
    assert sorted(printed)[0] == "mine"


def test_an_agent_that_fails_leaves_the_program_alone(place: Path) -> None:
    (place / "listeners/autoattach.py").write_text("raise RuntimeError('poison')")
    assert python(MAKE + "print(s is not None)", place / "listeners/site", cwd=place) == "True\n"


def test_a_pyspark_that_we_do_not_know_runs_without_us(place: Path) -> None:
    (place / "pyspark/sql/session.py").write_text("SparkSession = 5")
    code = "from pyspark.sql import SparkSession; print(SparkSession)"
    assert python(code, place / "listeners/site", cwd=place) == "5\n"
