"""Access rule for checkpoints that the server reads itself: only below the configured checkpoint roots.

Local paths are resolved first, which calls the file system and may block. Everything else is pure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import unquote

from controlplane.locations import LOCAL_SCHEMES, split_location


def refusal(url: str, roots: Iterable[str]) -> str | None:
    """Why the server may not read this checkpoint; None where it may. Calls the file system for a local path."""
    allowed = tuple(roots)
    why_not = refused_by_name(url, allowed)
    if why_not is not None or any(_below(url, root) for root in allowed):
        return why_not
    return _outside(url)


def refused_by_name(url: str, roots: Iterable[str]) -> str | None:
    """`refusal` by names alone, without the file system; a local path may still turn out to be outside the roots."""
    allowed = tuple(roots)
    if not allowed:
        return "this server reads no checkpoints itself: start it with --checkpoint-root"
    if any(ord(c) < 32 or ord(c) == 127 for c in url) or "\\" in url:
        return "its path has control characters or a backslash"
    if "::" in url:  # fsspec reads it as a chain of file systems
        return "its path contains ::"
    if ".." in unquote(url).replace("\\", "/").split("/"):
        return "its path contains .."
    return None if any(_may_hold(root, url) for root in allowed) else _outside(url)


def _outside(url: str) -> str:
    scheme, _, _ = split_location(url)
    place = "local path" if scheme in LOCAL_SCHEMES else f"place in {scheme}://"
    return f"its {place} is not below a checkpoint root of the server"


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
    """Whether the path is strictly below the root, which itself is no checkpoint."""
    start = root.rstrip("/") + "/"
    return path.startswith(start) and len(path.rstrip("/")) > len(start)


def resolved(url: str) -> str:
    """A local path with its links resolved, which calls the file system; another URL unchanged."""
    scheme, _, path = split_location(url)
    return os.path.realpath(path) if scheme in LOCAL_SCHEMES else url
