"""A server that kills itself at a named point of alert delivery: `python crashing_server.py PORT DATA WEBHOOK`.

With `POINT STATE` added, it ends by SIGKILL when it first reaches POINT while the store holds an alert WATCHED in
STATE. Run by `test_alerts_survive_crashes`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import sqlalchemy as sa

from controlplane.api.server import listen, make_server
from controlplane.app import ControlPlane, build
from controlplane.settings import Settings
from controlplane.store.tables import alerts

WATCHED = "QueryFailed"
#: Windows and waiting times are a hundredth: five minutes are three seconds.
SCALE = 0.01


class Deadly:
    """The callback that `build` calls at each point. `plane` is set once it is built."""

    def __init__(self, point: str, state: str):
        self._point, self._state = point, state
        self.plane: ControlPlane | None = None

    def __call__(self, point: str) -> None:
        if point == self._point and self.plane is not None and self._stored(self.plane):
            os.kill(os.getpid(), signal.SIGKILL)

    def _stored(self, plane: ControlPlane) -> bool:
        wanted = (alerts.c.name == WATCHED) & (alerts.c.state == self._state)
        with plane.reading() as conn:
            return bool(conn.execute(sa.select(sa.func.count()).select_from(alerts).where(wanted)).scalar())


def main(port: str, data_dir: str, webhook: str, point: str = "", state: str = "") -> None:
    settings = Settings(data_dir=Path(data_dir), webhook=webhook, rules_scale=SCALE, series_step=1.0)
    deadly = Deadly(point, state)
    with listen("127.0.0.1", int(port)) as listener:
        deadly.plane = plane = build(settings, time.time, deadly)
        server = make_server(plane)
        print("listening", flush=True)
        server.run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
