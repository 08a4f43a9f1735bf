"""`python -m listeners.run`: the program runs as `python program.py` would run it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from listeners import run
from tests.paths import ROOT

PLAIN = {"PATH": "/usr/bin:/bin"}


def attached(*arguments: str, cwd: Path, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return python(*flags, "-m", "listeners.run", *arguments, cwd=cwd, env={**PLAIN, "PYTHONPATH": str(ROOT)})


def python(*arguments: str, cwd: Path, env: dict[str, str] = PLAIN) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=cwd, check=False, env=env)


def test_arguments_name_and_path_are_the_programs_own(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("WORD = 'beside'")
    (tmp_path / "program.py").write_text(
        "import sys, neighbour\nprint(__name__, sys.argv, sys.path[0], neighbour.WORD)\nsys.exit(7)"
    )
    done = attached("program.py", "a", "--b", cwd=tmp_path)
    plain = python("program.py", "a", "--b", cwd=tmp_path)
    assert (done.stdout, done.returncode) == (plain.stdout, 7)
    assert done.stdout.endswith(" beside\n")


def test_a_module_is_run_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import sys; print(__spec__.name, sys.argv[1:])")
    done = attached("-m", "package", "-x", "1", cwd=tmp_path)
    assert done.stdout == "package.__main__ ['-x', '1']\n", done.stderr


def test_what_main_holds_can_be_pickled_by_name_as_in_plain_python(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import multiprocessing as m\n"
        "def double(n): return 2 * n\n"
        "if __name__ == '__main__':\n"
        "    with m.get_context('spawn').Pool(1) as pool: print(pool.map(double, [1, 2]))\n"
    )
    assert attached("program.py", cwd=tmp_path).stdout == "[2, 4]\n"


@pytest.mark.parametrize(
    "ending", ["raise ValueError('poison')", "sys.exit('why')", "sys.exit(300)", "raise KeyboardInterrupt"]
)
def test_a_program_ends_as_it_would_without_us(tmp_path: Path, ending: str) -> None:
    (tmp_path / "program.py").write_text(f"import sys\ndef f():\n    {ending}\nf()")
    done, plain = attached("program.py", cwd=tmp_path), python("program.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)


def test_a_signal_reaches_the_program_itself(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert attached("program.py", cwd=tmp_path).returncode == -signal.SIGTERM


def test_the_interpreters_own_options_stay_in_force(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print(sys.flags.dev_mode, sys.warnoptions)")
    flags = ("-X", "dev", "-W", "error")
    done = attached("program.py", cwd=tmp_path, flags=flags)
    assert done.stdout == python(*flags, "program.py", cwd=tmp_path).stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "word"), [((), "no program"), (("nowhere.py",), "nowhere.py"), (("-m",), "-m")]
)
def test_a_missing_program_is_one_clear_line(tmp_path: Path, arguments: tuple[str, ...], word: str) -> None:
    done = attached(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert word in done.stderr


def test_a_python_that_ignores_its_environment_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("")
    flags = ("-E", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import listeners.run as r; ")
    done = python(*flags[:-1], flags[-1] + "sys.exit(r.main(['program.py']))", cwd=tmp_path)
    assert done.returncode == 2 and "-E" in done.stderr


def test_a_server_and_a_path_that_the_user_named_are_kept() -> None:
    given = {"CONTROLPLANE_URL": "http://there", "PYTHONPATH": "/mine"}
    assert run.environment(given, "/site") == {
        "CONTROLPLANE_URL": "http://there",
        "PYTHONPATH": "/site:/mine",
    }
    assert run.environment({}, "/site") == {"CONTROLPLANE_URL": run.DEFAULT_SERVER, "PYTHONPATH": "/site"}
