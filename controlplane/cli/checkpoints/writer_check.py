"""Is anybody writing to this checkpoint? Asks the server where there is one, and looks twice at the files.

Called by the commands of surgery. The judgement of what was seen is `controlplane.checkpoints.repair.writer_detection`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
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
from controlplane.cli.options import settings_of
from controlplane.console.client import ApiClient, click_error, open_client
from controlplane.console.errors import CallFailed, RequestRefused
from controlplane.console.tables import plain, query_name
from controlplane.settings import Settings

Sleep = Callable[[float], None]


@dataclass(frozen=True)
class KnownQuery:
    """What the server knows of the query of a checkpoint; nothing where there is no server.

    `place`: where its checkpoint is, as its agent said; `same`: whether that is the one here, where it can be told.
    `a_copy`: the user says that the one here is a copy.
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
        """Whether the query has its checkpoint elsewhere: the one here is a copy."""
        return bool(self.location) and (
            self.same_location is False or (self.same_location is None and self.is_copy)
        )

    @property
    def file_sink_path(self) -> str | None:
        """Where the query writes files, as the server heard; None where it does not, or nobody knows."""
        sink = (self.document.get("sink") or {}).get("description") or ""
        return sink[len("FileSink[") :].rstrip("]") if sink.startswith("FileSink[") else None


def find_known_query(
    url: str | None, data_dir: Path | None, checkpoint: str, query_id: str | None, *, is_copy: bool = False
) -> KnownQuery:
    """Ask by the id, else by the place. Where nobody named a server and none answers, nothing is known.

    a_copy: the user says that it is a copy; where its place is another than the query's, that is believed.
    """
    settings = settings_of(url=url, data_dir=data_dir)
    if not (settings.url or settings.admin_token_file.exists()):
        return KnownQuery()
    client = open_client(settings)
    try:
        told = _asked(client, checkpoint, query_id)
    except CallFailed as error:
        if _named(settings, data_dir):
            raise click_error(error, client) from None
        click.echo(
            f"no answer from the server at {client.url} ({plain(str(error))}); going by the files", err=True
        )
        return KnownQuery()
    same_location = same_place(told.location, checkpoint, told.query_id or "") if told.location else None
    return replace(told, same_location=same_location, is_copy=is_copy)


def request_check(told: KnownQuery, url: str | None, data_dir: Path | None) -> None:
    """What the server shows of this checkpoint is no longer so: ask it to look. A line says whether it will."""
    if told.query_id is None or not told.status or told.is_elsewhere:
        return
    client = open_client(settings_of(url=url, data_dir=data_dir))
    try:
        client.post(f"/api/v1/checkpoints/{told.query_id}/inventory", {})
    except CallFailed as error:
        click.echo(f"the server does not look at it now: {plain(str(error))}", err=True)
    else:
        click.echo("the server was asked to look at it anew", err=True)


def same_place(told: str, here: str, query_id: str) -> bool | None:
    """Whether the checkpoint that an agent named is the one here. None: it cannot be told, mounts have many names."""
    one, other = _located(told), _located(here)
    if one == other:
        return True
    if "://" in one or "://" in other:
        return False if one.partition("://")[0] == other.partition("://")[0] else None
    # Two folders of this machine, and the id says that the agent's is not another machine's of that name.
    try:
        seen = query_id and query_id in (Path(one) / METADATA).read_text(errors="replace")
        return os.path.samefile(one, other) if seen else None
    except OSError:
        return None


def _located(location: str) -> str:
    """One spelling for one place: links followed, `s3a` and `s3n` as `s3`, `hdfs` by its path only."""
    scheme, mark, rest = plain_path(location).partition("://")
    if not mark:
        return os.path.realpath(scheme)
    if scheme in ("hdfs", "webhdfs"):
        return f"hdfs://{rest.partition('/')[2]}"
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}://{rest}"


def _named(settings: Settings, data_dir: Path | None) -> bool:
    return bool(settings.url) or data_dir is not None


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
    """The one query that the server knows at this place."""
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


def refuse_running(told: KnownQuery, output: str | None = None) -> None:
    """InUse where the server says that the query runs, here or, of a copy, into the same `output`."""
    if told.is_elsewhere and not _shares(told, output):
        return
    if told.status in writer_detection.RUNNING:
        where = f"; it runs on {told.location}: if this is a copy of that, say so with --relocate"
        raise InUse(
            f"the query {told.name} is {told.status}: stop it first (controlplane stop {told.query_id})"
            + (where if told.location and told.same_location is None and not told.is_copy else "")
        )
    if told.status == "lost":
        click.echo(
            f"the agent of {told.name} is silent: make sure yourself that its driver is gone", err=True
        )


def _shares(told: KnownQuery, output: str | None) -> bool:
    """Whether surgery would touch the output that the query writes to."""
    return output is not None and _located(output) == _located(told.file_sink_path or "")


def check_for_writers(checkpoint: str, first: Inventory, seconds: float, sleep: Sleep = time.sleep) -> None:
    """Wait, look again, compare. InUse names what changed."""
    click.echo(
        f"looking for {seconds:.0f} s whether anybody writes here (--assume-stopped spares that)…", err=True
    )
    sleep(seconds)
    refuse_writers(first, collect(checkpoint, time.time(), contents=False))


def refuse_writers(first: Inventory, second: Inventory) -> None:
    found = writer_detection.writer_signs(first, second)
    if found:
        raise InUse(f"somebody writes to this checkpoint: {found[0]}; stop the query first")
