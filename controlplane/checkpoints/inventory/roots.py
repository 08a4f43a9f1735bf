"""Where the server itself may look at checkpoints: below the roots that its settings name, and nowhere else.

Links of local paths are resolved first: that asks the file system, which may never answer; all else is pure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

LOCAL = ("", "file")


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
    scheme, _, _ = _parts(url)
    place = "local path" if scheme in LOCAL else f"place in {scheme}://"
    return f"its {place} is not below one of the server's checkpoint roots"


def _may_hold(root: str, url: str) -> bool:
    scheme, host, path = _parts(url)
    if scheme in LOCAL and _parts(root)[0] in LOCAL:
        return os.path.isabs(path) and not host
    return _below(url, root)


def _parts(url: str) -> tuple[str, str, str]:
    """Scheme, host or bucket, and path; a local path has neither scheme nor host."""
    if "://" not in url and not url.startswith("file:"):
        return "", "", url
    try:
        parts = urlsplit(url)
    except ValueError:
        return "?", "", url
    if parts.query or parts.fragment:
        return "?", "", url
    return parts.scheme.lower(), parts.netloc, parts.path


def _below(url: str, root: str) -> bool:
    scheme, host, path = _parts(url)
    own_scheme, own_host, own_path = _parts(root)
    if scheme in LOCAL and own_scheme in LOCAL and not host and not own_host:
        return os.path.isabs(path) and _inside(os.path.realpath(path), os.path.realpath(own_path))
    return (scheme, host) == (own_scheme, own_host) and _inside(path, own_path)


def _inside(path: str, root: str) -> bool:
    """Strictly: the root itself is no checkpoint."""
    start = root.rstrip("/") + "/"
    return path.startswith(start) and len(path.rstrip("/")) > len(start)


def resolved(url: str) -> str:
    """A local path without links, which asks the file system; another URL as it is."""
    scheme, _, path = _parts(url)
    return os.path.realpath(path) if scheme in LOCAL else url


def is_root(text: str) -> bool:
    """Whether this can be a root: an absolute path, or a URL with a host or bucket."""
    scheme, host, path = _parts(text)
    if scheme in LOCAL:
        return os.path.isabs(path) and not host
    return scheme != "?" and bool(host) and "://" in text
