"""Checkpoint locations: local paths, or URLs of file systems that fsspec supports. Pure."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

LOCAL_SCHEMES = ("", "file")


def split_location(url: str) -> tuple[str, str, str]:
    """(scheme, host or bucket, path).

    A local path has neither scheme nor host; an invalid URL has the scheme `?`.
    """
    if "://" not in url and not url.startswith("file:"):
        return "", "", url
    try:
        parts = urlsplit(url)
    except ValueError:
        return "?", "", url
    if parts.query or parts.fragment:
        return "?", "", url
    return parts.scheme.lower(), parts.netloc, parts.path


def is_root(text: str) -> bool:
    """Whether this can be a checkpoint root: an absolute path, or a URL with a host or bucket."""
    scheme, host, path = split_location(text)
    if scheme in LOCAL_SCHEMES:
        return os.path.isabs(path) and not host
    return scheme != "?" and bool(host) and "://" in text


def checkpoint_key(location: str, host: str) -> str:
    """The identity of a checkpoint: its location, with the host where that is a local path. Empty where unknown.

    `file:/a`, `file:///a` and `/a` are one path.
    """
    scheme, place, path = split_location(location.strip())
    path = path.rstrip("/") or path
    if scheme in LOCAL_SCHEMES:
        return f"file://{host}{path}" if path and host else ""
    return f"{scheme}://{place}{path}" if scheme != "?" else location.strip()
