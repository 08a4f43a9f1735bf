"""Lazy import of commands, so that no command pays for what another needs. Called by the command groups."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click


def loaded(places: Mapping[str, str], name: str) -> click.Command | None:
    """The command `name` of a table of `module:attribute`; None where there is none. Raises ModuleNotFoundError."""
    place = places.get(name)
    if place is None:
        return None
    module, _, attribute = place.partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return command
