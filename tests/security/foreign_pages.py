"""What a page of another site tries in a browser: to read dashboard and server, and to open the dashboard's websocket."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

FOREIGN = "evil.example"
#: Chromium takes the foreign name for this machine, as it does after a name server's second answer.
REBINDING = f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1"
_TRY = """async ([address, paths]) => {
  const read = {};
  for (const path of paths) {
    try {
      const answer = await fetch(address + path, {credentials: "include"});
      read[path] = answer.ok ? "read: " + (await answer.text()).slice(0, 40) : String(answer.status);
    } catch (error) { read[path] = error.name; }
  }
  read.websocket = await new Promise(resolve => {
    const socket = new WebSocket(address.replace("http", "ws") + "/_stcore/stream", ["streamlit"]);
    socket.onopen = () => resolve("open");
    socket.onerror = () => resolve("refused");
  });
  return read;
}"""


def rebound(page: Any, address: str, paths: list[str]) -> dict[str, str]:
    """What a page of the foreign name reads of `address`, to which that name now leads: the same origin."""
    own = f"http://{FOREIGN}:{urlsplit(address).port}"
    page.goto(own + "/")
    return dict(page.evaluate(_TRY, [own, paths]))


def cross_site(page: Any, foreign_page: str, address: str, paths: list[str]) -> dict[str, str]:
    """What a page of another site reads of `address` in the same browser."""
    page.goto(f"http://{FOREIGN}:{urlsplit(foreign_page).port}/")
    return dict(page.evaluate(_TRY, [address, paths]))
