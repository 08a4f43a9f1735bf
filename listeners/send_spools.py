"""Deliver the spools that ended drivers left in a directory: `python -m listeners.send_spools [DIR]`.

Each goes to the server that its driver reported to, or to `--server`. For hosts on which no agent runs any more,
and for volumes of pods that have ended. `controlplane spool send` calls it.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from listeners import environment
from listeners.delivery import orphans
from listeners.delivery.landing import LandingTransport, is_landing
from listeners.delivery.sender import EventSender
from listeners.delivery.spool_directory import spool_root
from listeners.delivery.transport import HttpTransport, Transport
from listeners.protocol.errors import AgentError


def main(arguments: Sequence[str] | None = None) -> int:
    """Deliver and print one line a spool. 0: nothing is left; 1: something is kept; 2: no such directory."""
    options = _options(arguments)
    root = options.directory or spool_root(os.environ.get("CONTROLPLANE_SPOOL_DIR"))
    if not root.is_dir():
        print(f"controlplane spool send: there is no directory {root}", file=sys.stderr)
        return 2
    running = orphans.in_use(root)
    outcomes = [_deliver(orphan, options.server) for orphan in orphans.orphans(root, None)]
    if running:
        print(f"{running} spools belong to drivers that run and deliver their events themselves")
    if not outcomes:
        print(f"no spool of an ended driver in {root}")
    return 0 if all(outcomes) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="controlplane spool send", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, help="default: the spool directory of this user")
    parser.add_argument("--server", metavar="URL", help="default: the server that each driver reported to")
    return parser.parse_args(arguments)


def _deliver(orphan: orphans.Orphan, server: str | None) -> bool:
    """Deliver one spool and print the outcome; False if it is kept."""
    spool, events = orphan.spool, orphan.spool.events
    named = f"{orphan.owner.get('app')} (agent {spool.directory.name[:8]})"
    try:
        transport = _transport(server or str(orphan.owner.get("server")))
        EventSender(transport, spool, threading.Lock(), lambda kind, message: None).deliver(spool)
    except AgentError as error:
        spool.close()
        print(f"{named}: {events} events kept: {error}", file=sys.stderr)
        return False
    if events:
        print(f"{named}: {events} events delivered")
    return True


def _transport(server: str) -> Transport:
    if is_landing(server):
        return LandingTransport(server)
    return HttpTransport(server, environment.find_token(), os.environ.get("CONTROLPLANE_CA_FILE"))


if __name__ == "__main__":
    sys.exit(main())
