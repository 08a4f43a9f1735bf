"""Check that no process writes to a checkpoint: ask the server where there is one, and compare two listings.

Called by rewind, repair and undo. `controlplane.checkpoints.repair.writer_detection` compares the listings.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from controlplane.checkpoints.inventory.collector import collect
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.inventory.relocation import plain_path
from controlplane.checkpoints.lock import METADATA
from controlplane.checkpoints.repair import writer_detection
from controlplane.checkpoints.repair.errors import InUse
from controlplane.checkpoints.repair.rooted_survey import file_sink_folder
from controlplane.cli.options import settings_of
from controlplane.console.client import ApiClient, click_error
from controlplane.console.errors import CallFailed, RequestRefused
from controlplane.console.several_servers import open_client
from controlplane.console.tables import plain, query_name

Sleep = Callable[[float], None]


@dataclass(frozen=True)
class KnownQuery:
    """What the server knows of the query of a checkpoint; empty where there is no server.

    `location`: the place of its checkpoint, as reported by its agent; `same_location`: whether that is the
    given checkpoint (None: not known); `is_copy`: the user declares the given checkpoint a copy.
    """

    query_id: str | None = None
    status: str | None = None
    name: str = ""
    document: dict[str, Any] = field(default_factory=dict)
    location: str = ""
    same_location: bool | None = None
    is_copy: bool = False

    @property
    def is_elsewhere(self) -> bool:
        """Whether the query uses another checkpoint, so that the given one is a copy."""
        return bool(self.location) and (
            self.same_location is False or (self.same_location is None and self.is_copy)
        )

    @property
    def file_sink_path(self) -> str | None:
        """The path to which the query writes files, as reported to the server; None: it does not, or not known."""
        return file_sink_folder((self.document.get("sink") or {}).get("description") or "")


def find_known_query(
    server: Mapping[str, Any], checkpoint: str, query_id: str | None, *, is_copy: bool = False
) -> KnownQuery:
    """Find the query by its id, else by its checkpoint. Empty where no server is configured or the default one is down.

    server: the values of `server_options`. is_copy: the user declares the checkpoint a copy; counts where the locations cannot be compared.
    """
    settings = settings_of(**server)
    if not (settings.url or settings.admin_token_file.exists()):
        return KnownQuery()
    client = open_client(settings)
    try:
        query = _asked(client, checkpoint, query_id)
    except CallFailed as error:
        if settings.url or server["data_dir"] is not None:
            raise click_error(error, client) from None
        click.echo(
            f"no answer from the server at {client.url} ({plain(str(error))}); checking the files only",
            err=True,
        )
        return KnownQuery()
    same_location = same_place(query.location, checkpoint, query.query_id or "") if query.location else None
    return replace(query, same_location=same_location, is_copy=is_copy)


def server_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Which server a command asks: its values of `controlplane.cli.options.client_options`."""
    return {name: options[name] for name in ("url", "data_dir", "ca_file")}


def request_check(query: KnownQuery, server: Mapping[str, Any]) -> None:
    """Ask the server to check the changed checkpoint again, and print whether it will."""
    if query.query_id is None or not query.status or query.is_elsewhere:
        return
    client = open_client(settings_of(**server))
    try:
        client.post(f"/api/v1/checkpoints/{query.query_id}/inventory", {})
    except CallFailed as error:
        click.echo(f"the server does not check it now: {plain(str(error))}", err=True)
    else:
        click.echo("the server was asked to check it again", err=True)


def same_place(reported: str, given: str, query_id: str) -> bool | None:
    """Whether an agent's checkpoint path is the given one. None: not known, as mounts have many names."""
    agent_path, given_path = _located(reported), _located(given)
    if agent_path == given_path:
        return True
    if "://" in agent_path or "://" in given_path:
        return False if agent_path.partition("://")[0] == given_path.partition("://")[0] else None
    # Both are folders here; the id shows that the path is not another machine's of the same name.
    try:
        has_id = query_id and query_id in (Path(agent_path) / METADATA).read_text(errors="replace")
        return os.path.samefile(agent_path, given_path) if has_id else None
    except OSError:
        return None


def _located(location: str) -> str:
    """A canonical spelling: links resolved, `s3a` and `s3n` as `s3`, `hdfs` by its path only."""
    scheme, mark, rest = plain_path(location).partition("://")
    if not mark:
        return os.path.realpath(scheme)
    if scheme in ("hdfs", "webhdfs"):
        return f"hdfs://{rest.partition('/')[2]}"
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}://{rest}"


def _asked(client: ApiClient, checkpoint: str, query_id: str | None) -> KnownQuery:
    found = query_id or _by_place(client, checkpoint)
    if found is None:
        return KnownQuery()
    try:
        query = client.get(f"/api/v1/queries/{found}")
    except RequestRefused as error:
        if error.status == 404:
            return KnownQuery(query_id)
        raise
    location = str((query.get("facts") or {}).get("checkpoint") or "")
    return KnownQuery(str(query["query_id"]), str(query["status"]), query_name(query), query, location)


def _by_place(client: ApiClient, checkpoint: str) -> str | None:
    """The id of the only query that the server knows at this path; None for none or several."""
    try:
        held = client.get("/api/v1/checkpoints")["checkpoints"]
    except RequestRefused as error:
        if error.status == 404:
            return None
        raise
    location = plain_path(checkpoint)
    found = {
        str(item["query_id"])
        for item in held
        if item.get("checkpoint") and plain_path(item["checkpoint"]) == location
    }
    return found.pop() if len(found) == 1 else None


def refuse_running(query: KnownQuery, output: str | None = None) -> None:
    """Raise InUse where the query runs on this checkpoint, or, for a copy, writes to the same `output`."""
    if query.is_elsewhere and not _shares(query, output):
        return
    if query.status in writer_detection.RUNNING:
        hint = f"; it runs on {query.location}: if this is a copy of that, give --relocate"
        raise InUse(
            f"the query {query.name} is {query.status}: stop it first (controlplane stop {query.query_id})"
            + (hint if query.location and query.same_location is None and not query.is_copy else "")
        )
    if query.status in ("lost", "unreachable"):
        problem = (
            "its agent is not connected" if query.status == "lost" else "Spark does not answer in its driver"
        )
        click.echo(
            f"{query.name} is {query.status}, {problem}: make sure that the driver has ended", err=True
        )


def _shares(query: KnownQuery, output: str | None) -> bool:
    """Whether the repair would change the output that the query writes to."""
    return output is not None and _located(output) == _located(query.file_sink_path or "")


def check_for_writers(checkpoint: str, first: Inventory, seconds: float, sleep: Sleep = time.sleep) -> None:
    """Wait, list the checkpoint again, and compare. Raises InUse, which names what changed."""
    click.echo(
        f"checking for {seconds:.0f} s that no process writes here (--assume-stopped skips this)…", err=True
    )
    sleep(seconds)
    refuse_writers(first, collect(checkpoint, time.time(), contents=False))


def refuse_writers(first: Inventory, second: Inventory) -> None:
    """Raise InUse where two listings show a writer."""
    found = writer_detection.writer_signs(first, second)
    if found:
        raise InUse(f"another process writes to this checkpoint: {found[0]}; stop the query first")
