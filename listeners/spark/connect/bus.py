"""Shares a Connect session's one stream of events with the program's own listeners.

PySpark asks for the stream when the program adds its first listener, and while we have it that would wait for
ever. So we give way: PySpark has the stream, and we are a guest among its listeners until the last other
one is removed. PySpark's own code serves the program, with us or without.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Optional, Protocol

from listeners.spark.guard import guarded
from listeners.spark.patching import Patches

OnEvent = Callable[[str, str], None]


class StreamOwner(Protocol):
    """Who has the stream where the program does not; see `listeners.spark.connect.events.EventStream`."""

    def yield_stream(self, session: Any) -> None: ...

    def reclaim_stream(self) -> None: ...

    def join(self, session: Any) -> bool: ...

    def leave(self, session: Any) -> None: ...


OwnerOf = Callable[[Any], Optional[StreamOwner]]


class BusListener:
    """Our place among a program's listeners: what PySpark calls with its event objects."""

    def __init__(self, on_event: OnEvent):
        self._on_event = on_event
        self._is_registered = False

    def join(self, session: Any) -> bool:
        """Take a place; False where the program has no listener."""
        bus = bus_of(session)
        if bus is None:
            return False
        with bus._lock:
            if not bus._listener_bus:
                return False
            if self not in bus._listener_bus:
                bus._listener_bus.append(self)
            self._is_registered = True
            return True

    def leave(self, session: Any) -> None:
        bus, self._is_registered = bus_of(session), False
        if bus is not None:
            with bus._lock:
                if self in bus._listener_bus:
                    bus._listener_bus.remove(self)

    def is_in(self, session: Any) -> bool:
        bus = bus_of(session)
        return bus is not None and self in bus._listener_bus

    def was_dropped(self) -> bool:
        """Asked when we are not in: whether PySpark threw us out. Said once."""
        was, self._is_registered = self._is_registered, False
        return was

    def onQueryStarted(self, event: Any) -> None:
        self._on_event("started", _dump(event, name=event.name, timestamp=event.timestamp))

    def onQueryProgress(self, event: Any) -> None:
        self._on_event("progress", event.progress.json)

    def onQueryIdle(self, event: Any) -> None:
        self._on_event("idle", _dump(event, timestamp=event.timestamp))

    def onQueryTerminated(self, event: Any) -> None:
        text, error_class = event.exception, event.errorClassOnException
        self._on_event("terminated", _dump(event, exception=text, errorClassOnException=error_class))


def _dump(event: Any, **fields: Any) -> str:
    return json.dumps({"id": str(event.id), "runId": str(event.runId), **fields})


def bus_of(session: Any) -> Any:
    """PySpark's bus of the session, if the program has used its streams and this PySpark has one (4.0 on)."""
    return getattr(getattr(session, "_sqm", None), "_sqlb", None)


def share(patches: Patches, owner_of: OwnerOf) -> None:
    """Wrap PySpark's bus, so that a session's host gives way and takes back."""
    try:
        from pyspark.sql.connect.streaming.query import StreamingQueryListenerBus
    except ImportError:  # 3.5: listeners run in the server
        return

    def append(original: Callable[..., Any], bus: Any, listener: Any) -> Any:
        session = bus._sqm._session
        owner = owner_of(session)
        if owner is None:
            return original(bus, listener)
        if not bus._listener_bus:
            guarded(lambda: owner.yield_stream(session))
        try:
            return original(bus, listener)
        finally:
            guarded(lambda: _join_or_reclaim(owner, session))

    def remove(original: Callable[..., Any], bus: Any, listener: Any) -> Any:
        session = bus._sqm._session
        owner = owner_of(session)
        if owner is None:
            return original(bus, listener)
        if sum(1 for each in bus._listener_bus if not isinstance(each, BusListener)) <= 1:
            guarded(lambda: owner.leave(session))  # so that PySpark sees its last listener go
        try:
            return original(bus, listener)
        finally:
            guarded(lambda: _join_or_reclaim(owner, session))

    patches.wrap(StreamingQueryListenerBus, "append", append)
    patches.wrap(StreamingQueryListenerBus, "remove", remove)


def _join_or_reclaim(owner: StreamOwner, session: Any) -> None:
    """Be a guest where the program listens; have the stream where it does not."""
    if not owner.join(session):
        owner.reclaim_stream()
