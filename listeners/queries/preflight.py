"""Ask the server before a start whether the query can restart from its checkpoint.

`CONTROLPLANE_PREFLIGHT`: `report` (no check before the start; the shape is sent with the facts), `block`
(refuse a start that its checkpoint does not allow) or `off`. Fail-open: without an answer the query starts.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Callable, Protocol

from listeners.protocol.errors import AgentError, FilesError
from listeners.spark.engine import Start
from listeners.spark.guard import StartRefused
from listeners.spark.planned import Planned, planned_shape

log = logging.getLogger("controlplane.agent")

MODES = ("report", "block", "off")
TIMEOUT_SECONDS = 5.0
MAX_FINDINGS = 5
MAX_CHARS = 600
#: Stands for the query id of a start that continues no checkpoint.
NEW_QUERY = ""

#: `ask(body, seconds)` posts to `/api/v1/preflight` and returns the answer's JSON.
Ask = Callable[[Mapping[str, Any], float], Any]


class CheckpointFiles(Protocol):
    """The part of `listeners.checkpoints.hadoop.DirectoryReader` that preflight uses."""

    def list_folder(self, folder: str, limit: int) -> tuple[list[Any], bool]: ...

    def read(self, path: str) -> bytes: ...


#: `open_files(session, location)` opens a checkpoint for reading.
OpenFiles = Callable[[Any, str], CheckpointFiles]


class QueryNotStarted(StartRefused, AgentError):
    """The checkpoint does not allow the change, so the query was not started.

    The message lists the remedies.
    """


class Preflight:
    """The check before each start of a driver in `block` mode."""

    def __init__(
        self,
        app: str,
        ask: Ask,
        open_files: OpenFiles,
        redact: Callable[[str], str] | None = None,
        seconds: float = TIMEOUT_SECONDS,
    ):
        self._app, self._ask, self._redact, self._seconds = app, ask, redact, seconds
        self._open_files = open_files

    def before_start(self, start: Start, name: str | None) -> None:
        """Raise QueryNotStarted if the query would not restart.

        Blocks the user's thread at most `seconds`.
        """
        if getattr(start.session, "_jsparkSession", None) is None:
            return log.warning("preflight: not available for Spark Connect clients; the query starts")
        answers: list[Any] = []
        thread = threading.Thread(
            target=self._request, args=(start, name, answers), name="controlplane-preflight", daemon=True
        )
        thread.start()
        thread.join(self._seconds)
        if not answers:
            return log.warning("preflight: no answer within %g s; the query starts", self._seconds)
        if isinstance(answers[0], Exception):
            return log.warning("preflight: %s; the query starts", one_line(answers[0]))
        message = refusal_message(answers[0], name)
        if message is not None:
            raise QueryNotStarted(message)

    def _request(self, start: Start, name: str | None, answers: list[Any]) -> None:
        began = time.monotonic()
        try:
            planned = Planned(start.writer, start.method, start.args, start.kwargs)
            query_id = query_id_at(start.session, planned.checkpoint(), self._open_files)
            if query_id == NEW_QUERY:
                answers.append(None)
                return
            body = request_body(self._app, planned, name, query_id, self._redact)
            left = self._seconds - (time.monotonic() - began)
            if left > 0:
                answers.append(self._ask(body, left))
        except Exception as error:  # an error here must not prevent the program's query
            answers.append(error)


def query_id_at(session: Any, checkpoint: str | None, open_files: OpenFiles) -> str | None:
    """The query id of this checkpoint location, NEW_QUERY if the start begins at batch 0, None if unknown."""
    if checkpoint is None:  # Spark creates a temporary one
        return NEW_QUERY
    try:
        files = open_files(session, checkpoint)
        return _id_in_metadata(files) or (None if _has_batches(files) else NEW_QUERY)
    except (FilesError, ValueError, KeyError, TypeError):
        return None


def _id_in_metadata(files: CheckpointFiles) -> str | None:
    try:
        return str(json.loads(files.read("metadata"))["id"])
    except FilesError as error:
        if error.gone:
            return None
        raise


def _has_batches(files: CheckpointFiles) -> bool:
    """Spark 3 continues a log without `metadata`, under a new query id."""
    try:
        return bool(files.list_folder("offsets", 1)[0])
    except FilesError as error:
        if error.gone:
            return False
        raise


def request_body(
    app: str, planned: Planned, name: str | None, query_id: str | None, redact: Callable[[str], str] | None
) -> dict[str, Any]:
    """The body of `POST /api/v1/preflight`; without a query id the server goes by checkpoint path or name."""
    shape = planned_shape(planned, redact)
    return {
        "app": app,
        "name": name or shape["name"],
        "query_id": query_id,
        "checkpoint": planned.checkpoint(),
        "shape": shape,
    }


def refusal_message(answer: Any, name: str | None) -> str | None:
    """The message of a refused start; None if the start may proceed or the answer is not understood."""
    if not isinstance(answer, dict) or answer.get("verdict") != "not_allowed":
        return None
    found = answer.get("findings")
    listed = [finding for finding in found if isinstance(finding, dict)] if isinstance(found, list) else []
    worst = [finding for finding in listed if finding.get("severity") == "error"] or listed
    against = answer.get("against")
    run = str(against.get("run_id") or "")[:8] if isinstance(against, dict) else ""
    lines = [
        f"the query {name!r} was not started" if name else "the query was not started",
        f": it would not restart from its checkpoint{f' (compared with run {run})' if run else ''}",
        *(f"\n{line}" for finding in worst[:MAX_FINDINGS] for line in _finding_lines(finding)),
        "\nTo start it anyway, set CONTROLPLANE_PREFLIGHT=report.",
    ]
    return "".join(lines)


def _finding_lines(finding: Mapping[str, Any]) -> list[str]:
    remedy = finding.get("remedy")
    steps = remedy if isinstance(remedy, list) else [remedy] if remedy else []
    lines = [f"- {str(finding.get('message') or finding.get('check'))[:MAX_CHARS]}"]
    return lines + [f"  {str(step)[:MAX_CHARS]}" for step in steps[:3]]


def one_line(error: Exception) -> str:
    """The error's text in one line of at most 300 characters."""
    return (" ".join(str(error).split()) or type(error).__name__)[:300]


def checked_mode(text: str | None) -> str:
    """`CONTROLPLANE_PREFLIGHT`; an unknown value means `report`, which refuses nothing."""
    mode = (text or "report").strip().lower()
    if mode in MODES:
        return mode
    log.warning("CONTROLPLANE_PREFLIGHT=%r is not one of %s; starts are not checked", text, ", ".join(MODES))
    return "report"
