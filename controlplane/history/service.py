"""The server's part in the long past: when events move to the lake, and that none leaves the store before it is there.

Made by `controlplane.app`. `tick` runs on a thread of the scheduler; what is asked comes from any.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from alerts.promql.errors import LimitExceeded
from alerts.promql.series import SeriesSource
from controlplane.errors import BadRequest, LakeError, StoreUnavailable
from controlplane.events import progress
from controlplane.events.window import Window
from controlplane.history import offload_commits, offload_process
from controlplane.history.model import ProgressRequest, ProgressSeries, TimelineResult
from controlplane.history.offload_commits import EventRange
from controlplane.history.offload_process import LOG_FILE, OffloadProcess
from controlplane.lake.manifest import Commit
from controlplane.metrics.series.replay import SeriesReplay
from controlplane.settings import Settings
from controlplane.store import offload_marks
from controlplane.store import queries as query_rows
from controlplane.store.writer import Writer

if TYPE_CHECKING:
    from controlplane.history.archive import Archive

log = logging.getLogger(__name__)
HOUR, DAY = 3600.0, 86400.0
#: After a job that failed, the next one comes so soon.
RETRY_SECONDS = 900.0
#: How often commits are looked for that no job of ours has made.
VERIFY_SECONDS = 600.0
#: The start of the server waits so long for the lake.
OPEN_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class HistoryStatus:
    """Where moving stands. `mark`: events up to this id are in the lake; times are Unix seconds.

    `rows`: rows of the commits verified since the server started; `lost`: events that the store's byte limit
    deleted before the lake had them, ever. `error`: why nothing moves; the events stay meanwhile.
    """

    lake: str | None = None
    hot_days: float | None = None
    mark: int = 0
    moving: bool = False
    moved_at: float | None = None
    verified_at: float | None = None
    next_at: float | None = None
    rows: int = 0
    lost: int = 0
    error: str | None = None


class HistoryService:
    """What the plane holds. Without a lake it does nothing. `lacking`: why this machine cannot run the job."""

    def __init__(
        self,
        settings: Settings,
        writer: Writer,
        reading: Callable[[], AbstractContextManager[Connection]],
        clock: Callable[[], float],
        lacking: Callable[[], str | None] = offload_process.missing_requirement,
    ):
        self._settings, self._writer, self._reading, self._clock = settings, writer, reading, clock
        self._lacking = lacking
        self._mover = OffloadProcess(settings.data_dir / LOG_FILE)
        self._status = HistoryStatus(settings.lake, settings.store_days if settings.lake else None)
        self._errors: dict[str, str | None] = {}
        self._verifying: threading.Thread | None = None
        self._looked = float("-inf")
        self._lock = threading.Lock()

    @property
    def hot_seconds(self) -> float | None:
        """How long events stay in the store, where there is a lake."""
        return None if self._settings.lake is None else self._settings.store_days * DAY

    def load(self, connection: Connection) -> None:
        """What the store knows of earlier moves. Before the first, the lake is made where there is none."""
        mark = offload_marks.value(connection, offload_marks.OFFLOADED_UNTIL)
        self._put(mark=mark or 0, lost=offload_marks.value(connection, offload_marks.LOST_EVENTS) or 0)
        if self._settings.lake is None or mark is not None:
            return
        from controlplane.history.timeout_pool import TimeoutPool
        from controlplane.lake.lake import Lake

        lake = self._settings.lake
        try:  # a lake that hangs must not keep the server from its work
            TimeoutPool(lake).call(lambda: Lake.open(lake, create=True), OPEN_TIMEOUT_SECONDS)
        except (LakeError, OSError) as error:
            self._fails("lake", f"the lake cannot be used: {error}")

    def stop(self) -> None:
        self._mover.stop()

    def status(self) -> HistoryStatus:
        return replace(self._status, moving=self._mover.runs)

    def lost(self, events: int) -> None:
        """The byte limit deleted events that the lake has not got."""
        if events:
            log.warning("%d events were deleted for the byte limit before the lake had them", events)
            self._put(lost=self._status.lost + events)

    def _put(self, **changes: object) -> None:
        with self._lock:
            self._status = replace(self._status, **changes)  # type: ignore[arg-type]

    # -- reading ---------------------------------------------------------------------------------

    @cached_property
    def archive(self) -> Archive | None:
        """The lake, to be read; None where there is none."""
        if self._settings.lake is None:
            return None
        # pyarrow is large: a server without a lake does not load it.
        from controlplane.history.archive import Archive

        return Archive(self._settings.lake)

    def beyond(self, window: Window) -> Callable[[SeriesReplay, float, list[str]], SeriesSource] | None:
        """For `controlplane.metrics.series.service`: series of what the store has forgotten, too. None without a lake."""
        archive = self.archive
        if archive is None:
            return None
        from controlplane.history.federated_series import COARSE_STEP_SECONDS, FederatedSeries, SeriesBackends

        def source(replay: SeriesReplay, now: float, notes: list[str]) -> SeriesSource:
            kept = self._settings.retention_days * DAY
            once = archive.within()
            exact = replay.over(once)
            coarse = replay.over(once, COARSE_STEP_SECONDS)
            return FederatedSeries(
                SeriesBackends(exact, coarse, once, window, self._reading, kept), now, notes
            )

        return source

    def progress(self, asked: ProgressRequest) -> ProgressSeries:
        """A query's reports over any time; with a lake that cannot be read, the store's, and a note.

        BadRequest where it is too much.
        """
        if self.archive is not None:
            from controlplane.history import progress_points

            try:
                return progress_points.read_progress(self._reading, self.archive.within(), asked)
            except LimitExceeded as error:
                raise BadRequest(str(error)) from None
            except LakeError as error:
                return self._stored(asked, (f"times before the store's are not told: {error}",))
        return self._stored(asked)

    def timeline(self, query_id: str, start: float, end: float) -> TimelineResult:
        """A query's runs, alerts and actions as the lake tells them; nothing without one, a note of what it cannot."""
        if self.archive is None:
            return TimelineResult()
        from controlplane.history import timeline as happened

        try:
            return happened.read_timeline(self.archive.within(), query_id, start, end)
        except LakeError as error:
            return TimelineResult(notes=(f"what happened before the store's times is not told: {error}",))

    def _stored(self, asked: ProgressRequest, notes: tuple[str, ...] = ()) -> ProgressSeries:
        with self._reading() as connection:
            where = asked.query_id, asked.start, asked.end, asked.limit, asked.step
            return ProgressSeries(progress.samples(query_rows.read_progress(connection, *where)), None, notes)

    # -- the periodic work -----------------------------------------------------------------------

    def tick(self) -> None:
        """Take up a job that ended, start one that is due, verify what is in the lake."""
        if self._settings.lake is None:
            return
        now, ended = self._clock(), self._mover.ended()
        if ended is not None:
            self._put(moved_at=ended.began, next_at=now + self._pause(ended.error))
            self._fails("job", f"moving events to the lake failed: {ended.error}" if ended.error else None)
        if ended is not None or now >= self._looked + VERIFY_SECONDS:
            self._looked = now
            self._verify()
        if self._status.next_at is None or now >= self._status.next_at:
            self.begin()

    def _verify(self) -> None:
        """On a thread of its own: to read a large commit takes minutes, and the server is ready meanwhile."""
        if self._verifying is None or not self._verifying.is_alive():
            self._verifying = threading.Thread(target=self._advance, name="lake-verifier", daemon=True)
            self._verifying.start()

    def _advance(self) -> None:
        try:
            self.advance()
        except StoreUnavailable as error:  # tried again with the next look
            log.warning("what is in the lake cannot be noted: %s", error)

    def _pause(self, error: str | None) -> float:
        pause = self._settings.offload_hours * HOUR
        return pause if error is None else min(pause, RETRY_SECONDS)

    def _fails(self, what: str, error: str | None) -> None:
        """Say what is wrong with the job or with the lake, once; None: nothing is any more."""
        if error and error != self._errors.get(what):
            log.warning("%s (events stay in the store meanwhile)", error)
        self._errors[what] = error
        self._put(error="; ".join(filter(None, self._errors.values())) or None)

    def begin(self) -> bool:
        """Start the job where there is something to move; whether it was started."""
        now = self._clock()
        cutoff = now - (self.hot_seconds or 0.0)
        with self._reading() as connection:
            mark = offload_marks.value(connection, offload_marks.OFFLOADED_UNTIL) or 0
            until = offload_marks.last_id_before(connection, mark, cutoff)
            due = until > mark
        if not due:
            self._put(next_at=now + self._pause(None))
            return False
        lacking = self._lacking()
        if lacking is not None:
            self._put(next_at=now + self._pause(lacking))
            self._fails("job", f"events cannot move to the lake: {lacking}")
            return False
        self._writer.write(offload_marks.store_id)
        arguments = offload_process.command(self._settings, cutoff)
        return self._mover.start(arguments, offload_process.environment(self._settings), now)

    # -- verified --------------------------------------------------------------------------------

    def advance(self) -> int:
        """Verify the commits beyond the mark and raise it; the mark then. What is damaged stops it, and is said."""
        with self._reading() as connection:
            name = offload_marks.offload_name(connection)
            mark = offload_marks.value(connection, offload_marks.OFFLOADED_UNTIL) or 0
        if name is None or self._settings.lake is None:
            return mark  # nothing was ever moved
        from controlplane.lake.lake import Lake
        from controlplane.lake.verification import verify_commit

        try:
            lake = Lake.open(self._settings.lake)
            manifest = lake.manifest()
            for stretch, commit in offload_commits.contiguous_commits(manifest, name, mark):
                if self._set_back(stretch, commit):
                    break
                rows = verify_commit(lake, commit, manifest)
                self._compare(stretch, commit)
                mark = self._raise(stretch, rows)
        except (LakeError, OSError) as error:
            self._fails("lake", f"the lake does not hold what was moved: {error}")
            self._put(next_at=min(self._status.next_at or 0.0, self._clock() + RETRY_SECONDS))
        else:
            self._fails("lake", None)
        return mark

    def _set_back(self, stretch: EventRange, commit: Commit) -> bool:
        """Whether what the lake has under our name is not what the store has; it then goes on under another."""
        with self._reading() as connection:
            held = offload_marks.checksum(connection, stretch.after, stretch.until)
            lost = bool(offload_marks.value(connection, offload_marks.LOST_EVENTS))
        found = offload_commits.store_was_restored(commit, held, lost)
        if found:
            self._writer.write(offload_marks.start_generation)
            self._put(next_at=self._clock() + RETRY_SECONDS)
            log.warning("the store was set back (restored from a backup?): its events move to the lake anew")
        return found

    def _compare(self, stretch: EventRange, commit: Commit) -> None:
        """LakeError where what the job counted is not what the store has."""
        with self._reading() as connection:
            held = offload_marks.count(connection, stretch.after, stretch.until)
        complaint = offload_commits.find_mismatch(commit, held)
        if complaint is not None:
            raise LakeError(f"{commit.job}/{commit.batch} is not whole: {complaint}")

    def _raise(self, stretch: EventRange, rows: int) -> int:
        def work(connection: Connection) -> None:
            offload_marks.raise_to(connection, offload_marks.OFFLOADED_UNTIL, stretch.until)

        if self.archive is not None:
            self.archive.refresh()
        self._writer.write(work)
        self._put(mark=stretch.until, verified_at=self._clock(), rows=self._status.rows + rows)
        log.info("the lake has all events up to %d: %d rows verified", stretch.until, rows)
        return stretch.until
