"""Deliver the spools that ended drivers left in a directory: `python -m listeners.send_spools [DIR]`.

The server is `--server`, or else CONTROLPLANE_URL. A spool whose driver reported to another server is kept unless
`--server` is given: whoever can write to the directory must not choose where the token goes. For hosts on which no
agent runs any more, and for volumes of pods that have ended. `controlplane spool send` calls it.
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
from listeners.delivery.transport import HttpTransport, Transport, are_same_servers
from listeners.protocol.errors import AgentError, NoAnswer


def main(arguments: Sequence[str] | None = None) -> int:
    """Deliver and print one line a spool. 0: nothing is left; 1: something is kept; 2: no such directory."""
    options = _options(arguments)
    root = options.directory or spool_root(os.environ.get("CONTROLPLANE_SPOOL_DIR"))
    if not root.is_dir():
        print(f"controlplane spool send: there is no directory {root}", file=sys.stderr)
        return 2
    running = orphans.in_use(root)
    away: list[NoAnswer] = []
    outcomes = [_deliver(orphan, options.server, away) for orphan in orphans.orphans(root, None)]
    if running:
        print(f"{running} spools belong to drivers that run and deliver their events themselves")
    if not outcomes:
        print(f"no spool of an ended driver in {root}")
    return 0 if all(outcomes) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="controlplane spool send", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, help="default: the spool directory of this user")
    parser.add_argument("--server", metavar="URL", help="default: CONTROLPLANE_URL, else the local server")
    return parser.parse_args(arguments)


def _deliver(orphan: orphans.Orphan, server: str | None, away: list[NoAnswer]) -> bool:
    """Deliver one spool and print the outcome; False if it is kept, as all are once the server is `away`."""
    spool, events, earlier = orphan.spool, orphan.spool.events, orphan.spool.saved_losses()
    named = f"{orphan.owner.get('app')} (agent {spool.directory.name[:8]})"
    try:
        transport = _transport(server or _trusted_server(orphan.owner.get("server")))
        sender = EventSender(transport, spool, threading.Lock(), lambda kind, message: None)
        if away:
            raise away[0]
        sender.deliver(spool)
    except AgentError as error:
        away += [error] if isinstance(error, NoAnswer) else []
        spool.close()
        print(f"{named}: {events} events kept: {error}", file=sys.stderr)
        return False
    dropped = sum(sender.lost.get(why, 0) - earlier.get(why, 0) for why in ("rejected", "too_large"))
    if events:
        malformed = f", {dropped} dropped that the server rejects" if dropped else ""
        print(f"{named}: {events - dropped} events delivered{malformed}")
    return True


def _trusted_server(owner_server: object) -> str:
    """The server of this environment. AgentError if the driver reported to another one."""
    trusted = os.environ.get("CONTROLPLANE_URL") or environment.DEFAULT_SERVER
    if not are_same_servers(owner_server, trusted):
        raise AgentError(
            f"the driver reported to {owner_server}; to send them there pass --server {owner_server}"
        )
    return trusted


def _transport(server: str) -> Transport:
    if is_landing(server):
        return LandingTransport(server)
    return HttpTransport(server, environment.find_token(), os.environ.get("CONTROLPLANE_CA_FILE"))


if __name__ == "__main__":
    sys.exit(main())
