"""`python -m listeners.run`: the program runs as `python program.py` would run it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "listeners.run", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )


def test_arguments_name_and_path_are_the_programs_own(tmp_path):
    (tmp_path / "neighbour.py").write_text("WORD = 'beside'")
    (tmp_path / "program.py").write_text(
        "import sys, neighbour\nprint(__name__, sys.argv[1:], neighbour.WORD)\nsys.exit(7)"
    )
    done = run("program.py", "a", "--b", cwd=tmp_path)
    assert done.stdout == "__main__ ['a', '--b'] beside\n" and done.returncode == 7


def test_a_failing_program_fails_with_its_own_traceback(tmp_path):
    (tmp_path / "program.py").write_text("def f():\n    raise ValueError('poison')\nf()")
    done = run("program.py", cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.endswith("ValueError: poison\n")
    assert "listeners" not in done.stderr and "runpy" not in done.stderr


def test_a_missing_program_is_one_clear_line(tmp_path):
    for arguments in ((), ("nowhere.py",)):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
