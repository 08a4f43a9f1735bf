"""The server's part in history: when events are offloaded, and that none leaves the store before it is in the
lake.

Created by `controlplane.app`. `tick` runs on a thread of the scheduler; reads come from any thread.
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

from alerts.durations import DAY_SECONDS
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
HOUR_SECONDS = 3600.0
#: Delay of the next job after one that failed.
RETRY_SECONDS = 900.0
#: How often commits of jobs that this server did not start are looked for.
VERIFY_SECONDS = 600.0
#: How long the server's start waits for the lake.
OPEN_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class HistoryStatus:
    """State of offloading. `mark`: events up to this id are in the lake; times are Unix seconds.

    `rows`: rows of the commits verified since the server started; `lost`: events that the store's byte limit
    deleted before they were in the lake, in total. `error`: why nothing is offloaded; events stay in the
    store meanwhile.
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
    """Offloading and history reads of the server; inactive without a lake. `lacking`: what this machine lacks
    to run the job.
    """

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
        self._offload_process = OffloadProcess(settings.data_dir / LOG_FILE)
        self._status = HistoryStatus(settings.lake, settings.store_days if settings.lake else None)
        self._errors: dict[str, str | None] = {}
        self._verifying: threading.Thread | None = None
        self._last_verification = float("-inf")
        self._lock = threading.Lock()

    @property
    def hot_seconds(self) -> float | None:
        """How long events stay in the store; None without a lake."""
        return None if self._settings.lake is None else self._settings.store_days * DAY_SECONDS

    def load(self, connection: Connection) -> None:
        """Load the marks of earlier offloads. Before the first one, create the lake where there is none."""
        mark = offload_marks.value(connection, offload_marks.OFFLOADED_UNTIL)
        self._put(mark=mark or 0, lost=offload_marks.value(connection, offload_marks.LOST_EVENTS) or 0)
        if self._settings.lake is None or mark is not None:
            return
        from controlplane.history.timeout_pool import TimeoutPool
        from controlplane.lake.lake import Lake

        lake = self._settings.lake
        try:  # a lake that hangs must not block the server's start
            TimeoutPool(lake).call(lambda: Lake.open(lake, create=True), OPEN_TIMEOUT_SECONDS)
        except (LakeError, OSError) as error:
            self._set_error("lake", f"the lake cannot be used: {error}")

    def stop(self) -> None:
        """End a running job."""
        self._offload_process.stop()

    def status(self) -> HistoryStatus:
        """The current state."""
        return replace(self._status, moving=self._offload_process.runs)

    def lost(self, events: int) -> None:
        """Record events that the byte limit deleted before they were in the lake."""
        if events:
            log.warning("%d events were deleted by the byte limit before they were in the lake", events)
            self._put(lost=self._status.lost + events)

    def _put(self, **changes: object) -> None:
        with self._lock:
            self._status = replace(self._status, **changes)  # type: ignore[arg-type]

    # -- reading ---------------------------------------------------------------------------------

    @cached_property
    def archive(self) -> Archive | None:
        """The lake for reading; None where there is none."""
        if self._settings.lake is None:
            return None
        # pyarrow is large: a server without a lake does not load it.
        from controlplane.history.archive import Archive

        return Archive(self._settings.lake)

    def series_source(
        self, window: Window
    ) -> Callable[[SeriesReplay, float, list[str]], SeriesSource] | None:
        """For `controlplane.metrics.series.service`: a source of series that reach back before the store's
        data. None without a lake.
        """
        archive = self.archive
        if archive is None:
            return None
        from controlplane.history.federated_series import COARSE_STEP_SECONDS, FederatedSeries, SeriesBackends

        def source(replay: SeriesReplay, now: float, notes: list[str]) -> SeriesSource:
            kept = self._settings.retention_days * DAY_SECONDS
            once = archive.within()
            exact = replay.over(once)
            coarse = replay.over(once, COARSE_STEP_SECONDS)
            return FederatedSeries(
                SeriesBackends(exact, coarse, once, window, self._reading, kept), now, notes
            )

        return source

    def progress(self, request: ProgressRequest) -> ProgressSeries:
        """A query's reports over any range; where the lake cannot be read, the store's, and a note.

        BadRequest where the range is too large.
        """
        if self.archive is not None:
            from controlplane.history import progress_points

            try:
                return progress_points.read_progress(self._reading, self.archive.within(), request)
            except LimitExceeded as error:
                raise BadRequest(str(error)) from None
            except LakeError as error:
                return self._stored(
                    request, (f"times before the store's oldest events are missing: {error}",)
                )
        return self._stored(request)

    def timeline(self, query_id: str, start: float, end: float) -> TimelineResult:
        """A query's runs, alerts and actions from the lake; empty without a lake, a note where it cannot be
        read.
        """
        if self.archive is None:
            return TimelineResult()
        from controlplane.history import timeline as timeline_reader

        try:
            return timeline_reader.read_timeline(self.archive.within(), query_id, start, end)
        except LakeError as error:
            return TimelineResult(notes=(f"events before the store's oldest ones are missing: {error}",))

    def _stored(self, request: ProgressRequest, notes: tuple[str, ...] = ()) -> ProgressSeries:
        with self._reading() as connection:
            where = request.query_id, request.start, request.end, request.limit, request.step
            return ProgressSeries(progress.samples(query_rows.read_progress(connection, *where)), None, notes)

    # -- the periodic work -----------------------------------------------------------------------

    def tick(self) -> None:
        """Collect a job that ended, start a due one, verify what is in the lake."""
        if self._settings.lake is None:
            return
        now, ended = self._clock(), self._offload_process.ended()
        if ended is not None:
            self._put(moved_at=ended.started_at, next_at=now + self._retry_delay(ended.error))
            self._set_error(
                "job", f"offloading events to the lake failed: {ended.error}" if ended.error else None
            )
        if ended is not None or now >= self._last_verification + VERIFY_SECONDS:
            self._last_verification = now
            self._verify()
        if self._status.next_at is None or now >= self._status.next_at:
            self.begin()

    def _verify(self) -> None:
        """Verify in a thread of its own: a large commit takes minutes to read, and the server stays ready."""
        if self._verifying is None or not self._verifying.is_alive():
            self._verifying = threading.Thread(target=self._advance, name="lake-verifier", daemon=True)
            self._verifying.start()

    def _advance(self) -> None:
        try:
            self.advance()
        except StoreUnavailable as error:  # retried at the next verification
            log.warning("the offload mark cannot be stored: %s", error)

    def _retry_delay(self, error: str | None) -> float:
        pause = self._settings.offload_hours * HOUR_SECONDS
        return pause if error is None else min(pause, RETRY_SECONDS)

    def _set_error(self, what: str, error: str | None) -> None:
        """Set the error of the job or of the lake and log a new one; None clears it."""
        if error and error != self._errors.get(what):
            log.warning("%s; events stay in the store meanwhile", error)
        self._errors[what] = error
        self._put(error="; ".join(filter(None, self._errors.values())) or None)

    def begin(self) -> bool:
        """Start the job where there are events to offload; return whether it was started."""
        now = self._clock()
        cutoff = now - (self.hot_seconds or 0.0)
        with self._reading() as connection:
            mark = offload_marks.value(connection, offload_marks.OFFLOADED_UNTIL) or 0
            until = offload_marks.last_id_before(connection, mark, cutoff)
            due = until > mark
        if not due:
            self._put(next_at=now + self._retry_delay(None))
            return False
        lacking = self._lacking()
        if lacking is not None:
            self._put(next_at=now + self._retry_delay(lacking))
            self._set_error("job", f"events cannot be offloaded to the lake: {lacking}")
            return False
        self._writer.write(offload_marks.store_id)
        arguments = offload_process.command(self._settings, cutoff)
        return self._offload_process.start(arguments, offload_process.environment(self._settings), now)

    # -- verified --------------------------------------------------------------------------------

    def advance(self) -> int:
        """Verify the commits beyond the mark, raise the mark and return it. A damaged commit stops it and
        sets the error.
        """
        with self._reading() as connection:
            name = offload_marks.offload_name(connection)
            mark = offload_marks.value(connection, offload_marks.OFFLOADED_UNTIL) or 0
        if name is None or self._settings.lake is None:
            return mark  # nothing was offloaded yet
        from controlplane.lake.lake import Lake
        from controlplane.lake.verification import verify_commit

        try:
            lake = Lake.open(self._settings.lake)
            manifest = lake.manifest()
            for event_range, commit in offload_commits.contiguous_commits(manifest, name, mark):
                if self._is_restored(event_range, commit):
                    break
                rows = verify_commit(lake, commit, manifest)
                self._compare(event_range, commit)
                mark = self._advance_mark(event_range, rows)
        except (LakeError, OSError) as error:
            self._set_error("lake", f"offloaded events are damaged or missing in the lake: {error}")
            self._put(next_at=min(self._status.next_at or 0.0, self._clock() + RETRY_SECONDS))
        else:
            self._set_error("lake", None)
        return mark

    def _is_restored(self, event_range: EventRange, commit: Commit) -> bool:
        """Whether the lake's commits under this store's name differ from the store; offloading then continues
        under a new name.
        """
        with self._reading() as connection:
            held = offload_marks.checksum(connection, event_range.after, event_range.until)
            lost = bool(offload_marks.value(connection, offload_marks.LOST_EVENTS))
        found = offload_commits.store_was_restored(commit, held, lost)
        if found:
            self._writer.write(offload_marks.start_generation)
            self._put(next_at=self._clock() + RETRY_SECONDS)
            log.warning(
                "the store differs from what was offloaded, probably restored from a backup: its "
                "events are offloaded again"
            )
        return found

    def _compare(self, event_range: EventRange, commit: Commit) -> None:
        """LakeError where the job's counts differ from the store."""
        with self._reading() as connection:
            held = offload_marks.count(connection, event_range.after, event_range.until)
        mismatch = offload_commits.find_mismatch(commit, held)
        if mismatch is not None:
            raise LakeError(f"{commit.job}/{commit.batch} is inconsistent: {mismatch}")

    def _advance_mark(self, event_range: EventRange, rows: int) -> int:
        def work(connection: Connection) -> None:
            offload_marks.raise_to(connection, offload_marks.OFFLOADED_UNTIL, event_range.until)

        if self.archive is not None:
            self.archive.refresh()
        self._writer.write(work)
        self._put(mark=event_range.until, verified_at=self._clock(), rows=self._status.rows + rows)
        log.info("verified %d offloaded rows: the lake has all events up to id %d", rows, event_range.until)
        return event_range.until
