"""Share a Connect session's single event stream with the program's own listeners.

PySpark opens the stream when the program adds its first listener. If the agent held it then, that call would
wait forever. So the agent yields: PySpark opens the stream, and the agent registers as one of PySpark's
listeners until the program has removed its last one. PySpark's own code serves the program, with or without
the agent.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Optional, Protocol

from listeners.spark.guard import guarded
from listeners.spark.patching import Patches

OnEvent = Callable[[str, str], None]


class StreamOwner(Protocol):
    """Holds the stream while the program does not; see `listeners.spark.connect.events.EventStream`."""

    def yield_stream(self, session: Any) -> None:
        """Free the stream for the program."""

    def reclaim_stream(self) -> None:
        """Open the stream again: the program no longer needs it."""

    def join(self, session: Any) -> bool:
        """Register among the program's listeners; False if there are none."""

    def leave(self, session: Any) -> None:
        """Unregister from the program's listeners."""


OwnerOf = Callable[[Any], Optional[StreamOwner]]


class BusListener:
    """The agent's listener among the program's: PySpark calls it with event objects."""

    def __init__(self, on_event: OnEvent):
        self._on_event = on_event
        self._is_registered = False

    def join(self, session: Any) -> bool:
        """Register; False if the program has no listener."""
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
        """Unregister."""
        bus, self._is_registered = bus_of(session), False
        if bus is not None:
            with bus._lock:
                if self in bus._listener_bus:
                    bus._listener_bus.remove(self)

    def is_in(self, session: Any) -> bool:
        """Whether it is registered."""
        bus = bus_of(session)
        return bus is not None and self in bus._listener_bus

    def was_dropped(self) -> bool:
        """Whether PySpark removed it; call when `is_in` is False. True only once."""
        was, self._is_registered = self._is_registered, False
        return was

    def onQueryStarted(self, event: Any) -> None:
        """PySpark's callback: a run has started."""
        self._on_event("started", _dump(event, name=event.name, timestamp=event.timestamp))

    def onQueryProgress(self, event: Any) -> None:
        """PySpark's callback: a batch has been committed."""
        self._on_event("progress", event.progress.json)

    def onQueryIdle(self, event: Any) -> None:
        """PySpark's callback: a trigger found no data."""
        self._on_event("idle", _dump(event, timestamp=event.timestamp))

    def onQueryTerminated(self, event: Any) -> None:
        """PySpark's callback: a run has ended."""
        text, error_class = event.exception, event.errorClassOnException
        self._on_event("terminated", _dump(event, exception=text, errorClassOnException=error_class))


def _dump(event: Any, **fields: Any) -> str:
    return json.dumps({"id": str(event.id), "runId": str(event.runId), **fields})


def bus_of(session: Any) -> Any:
    """The session's PySpark listener bus; None before the program uses its streams, or before PySpark 4.0."""
    return getattr(getattr(session, "_sqm", None), "_sqlb", None)


def wrap_bus(patches: Patches, owner_of: OwnerOf) -> None:
    """Wrap PySpark's bus, so that the session's owner yields the stream and reclaims it."""
    try:
        from pyspark.sql.connect.streaming.query import StreamingQueryListenerBus
    except ImportError:  # 3.5: listeners run on the server
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
            guarded(lambda: owner.leave(session))  # so that PySpark notices that its last listener is removed
        try:
            return original(bus, listener)
        finally:
            guarded(lambda: _join_or_reclaim(owner, session))

    patches.wrap(StreamingQueryListenerBus, "append", append)
    patches.wrap(StreamingQueryListenerBus, "remove", remove)


def _join_or_reclaim(owner: StreamOwner, session: Any) -> None:
    """Register among the program's listeners, or reclaim the stream if there are none."""
    if not owner.join(session):
        owner.reclaim_stream()
