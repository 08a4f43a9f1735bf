"""`controlplane run [--app …] program.py [args…]`, or `-m module`: run an unmodified program with the agent.

The process becomes `python -m listeners.run`: the program has its own signals and exit code. The agent's settings,
and the Java that the set-up may have fetched, are passed in the environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from controlplane.cli.options import data_dir_option, server_option
from controlplane.console.errors import UsageProblem
from controlplane.runtime.java import java_environment
from controlplane.settings import Settings, load


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--app", help="Name of the application; default: Spark's application name.")
@click.option("--label", multiple=True, metavar="NAME=VALUE", help="A label of its queries; may be repeated.")
@click.option(
    "--actions", type=click.Choice(["none", "stop", "all"]), help="Which commands the server may send."
)
@server_option
@data_dir_option
@click.argument("program", type=click.Path())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    app: str | None,
    label: tuple[str, ...],
    actions: str | None,
    url: str | None,
    data_dir: Path | None,
    program: str,
    arguments: tuple[str, ...],
) -> None:
    """Run a PySpark program, or `-m MODULE`, with the agent attached; exit code and output are the program's own."""
    if program not in ("-m", "-c") and not Path(program).exists():
        raise UsageProblem(f"{program} is not a file; give a Python program, or -m MODULE")
    zone = landing_zone(url, os.environ)
    environ = {
        name: value for name, value in os.environ.items() if zone is None or name != "CONTROLPLANE_URL"
    }
    settings = load(environ, {"url": None if zone else url, "data_dir": data_dir})
    agent = agent_environment(settings, os.environ, app, label, actions)
    if zone is not None:
        agent["CONTROLPLANE_URL"] = zone
    environment = {
        **os.environ,
        **(java_environment() or {}),
        **agent,
    }  # without Java, Spark itself reports it
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "listeners.run", program, *arguments], environment)


def landing_zone(url: str | None, environ: Mapping[str, str]) -> str | None:
    """The `file:` URL of the landing zone where events go to one instead of a server; else None."""
    named = url or environ.get("CONTROLPLANE_URL") or ""
    return named if named.startswith("file://") else None


def agent_environment(
    settings: Settings,
    environ: Mapping[str, str],
    app: str | None,
    labels: tuple[str, ...],
    actions: str | None,
) -> dict[str, str]:
    """Environment variables for the agent; those not given stay as they are."""
    wrong = [label for label in labels if not label.partition("=")[0] or "=" not in label or "," in label]
    if wrong:
        raise UsageProblem(f"--label must be NAME=VALUE without a comma, not {wrong[0]!r}")
    added = {
        "CONTROLPLANE_URL": settings.server_url,
        "CONTROLPLANE_APP": app,
        "CONTROLPLANE_LABELS": ",".join(labels) or None,
        "CONTROLPLANE_ACTIONS": actions,
    }
    if not environ.get("CONTROLPLANE_TOKEN") and not environ.get("CONTROLPLANE_TOKEN_FILE"):
        added["CONTROLPLANE_TOKEN_FILE"] = str(settings.agent_token_file.absolute())
    return {name: value for name, value in added.items() if value is not None}
