"""Commands that are imported when they are used, so that none pays for what another needs. Called by the groups."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click


def loaded(places: Mapping[str, str], name: str) -> click.Command | None:
    """The command of a table "command → module:name"; None where there is none. ModuleNotFoundError as it comes."""
    place = places.get(name)
    if place is None:
        return None
    module, _, attribute = place.partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return command
