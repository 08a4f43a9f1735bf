"""Where the server itself may look at checkpoints: below the roots that its settings name, and nowhere else.

Links of local paths are resolved first: that asks the file system, which may never answer; all else is pure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import unquote

from controlplane.locations import LOCAL_SCHEMES, split_location


def refusal(url: str, roots: Iterable[str]) -> str | None:
    """Why the server may not look there; None where it may. Asks the file system where it is a local path."""
    allowed = tuple(roots)
    why_not = refused_by_name(url, allowed)
    if why_not is not None or any(_below(url, root) for root in allowed):
        return why_not
    return _outside(url)


def refused_by_name(url: str, roots: Iterable[str]) -> str | None:
    """The same, as far as names tell without a file system: of a local path they do not tell what it is below."""
    allowed = tuple(roots)
    if not allowed:
        return "this server looks at no checkpoints itself: start it with --checkpoint-root"
    if any(ord(c) < 32 or ord(c) == 127 for c in url) or "\\" in url:
        return "its path has characters that no checkpoint has"
    if "::" in url:  # fsspec would take it for a chain of file systems
        return "its path has :: in it"
    if ".." in unquote(url).replace("\\", "/").split("/"):
        return "its path has .. in it"
    return None if any(_may_hold(root, url) for root in allowed) else _outside(url)


def _outside(url: str) -> str:
    scheme, _, _ = split_location(url)
    place = "local path" if scheme in LOCAL_SCHEMES else f"place in {scheme}://"
    return f"its {place} is not below one of the server's checkpoint roots"


def _may_hold(root: str, url: str) -> bool:
    scheme, host, path = split_location(url)
    if scheme in LOCAL_SCHEMES and split_location(root)[0] in LOCAL_SCHEMES:
        return os.path.isabs(path) and not host
    return _below(url, root)


def _below(url: str, root: str) -> bool:
    scheme, host, path = split_location(url)
    own_scheme, own_host, own_path = split_location(root)
    if scheme in LOCAL_SCHEMES and own_scheme in LOCAL_SCHEMES and not host and not own_host:
        return os.path.isabs(path) and _inside(os.path.realpath(path), os.path.realpath(own_path))
    return (scheme, host) == (own_scheme, own_host) and _inside(path, own_path)


def _inside(path: str, root: str) -> bool:
    """Strictly: the root itself is no checkpoint."""
    start = root.rstrip("/") + "/"
    return path.startswith(start) and len(path.rstrip("/")) > len(start)


def resolved(url: str) -> str:
    """A local path without links, which asks the file system; another URL as it is."""
    scheme, _, path = split_location(url)
    return os.path.realpath(path) if scheme in LOCAL_SCHEMES else url
