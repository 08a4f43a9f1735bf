"""Addresses of servers as clients name them: one URL, several that stand in for each other, or several named servers.

`eu=http://a:8420,http://b:8420;us=http://c:8420` names two servers side by side, the first with a standby. The dashboard
reads the same form in `ui.kit.several_servers`.
"""

from __future__ import annotations

import re

_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,39})=(https?://\S+)")


def named_servers(text: str | None) -> dict[str, str]:
    """URL by name, in the given order; empty where the text names no servers. Raises ValueError for a mixture."""
    parts = [part.strip() for part in (text or "").split(";") if part.strip()]
    found = [_NAMED.fullmatch(part) for part in parts]
    if not any(found):
        if len(parts) > 1:
            raise ValueError("several servers must be named: eu=http://a:8420 us=http://b:8420")
        return {}
    if not all(found):
        raise ValueError("either every server has a name, as in eu=http://a:8420, or none")
    names = {match[1]: match[2].rstrip("/") for match in found if match}
    if len(names) < len(parts):
        raise ValueError("two servers have the same name")
    return names
