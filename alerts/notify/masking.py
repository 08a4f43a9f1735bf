"""A configuration as its author wrote it, without its secrets, for display."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from alerts.notify.configuration.schema import FieldType, Schema
from alerts.notify.http.fields import address_problem

SECRET = "<secret>"
_USERINFO = re.compile(r"(?<=://)[^/?#\s]*@")


def masked(schema: Schema, given: Any) -> Any:
    """A mapping of the configuration with its secrets replaced, by schema."""
    if not isinstance(given, Mapping):
        return _without_userinfo(given)
    return {name: _masked(schema, name, value) for name, value in given.items()}


def _masked(schema: Schema, name: str, value: Any) -> Any:
    secret = schema.get(name.removesuffix("_file"))
    if secret is not None and secret.type is FieldType.SECRET and value:
        return hidden_url(str(value)) if secret.problem is address_problem and name in schema else SECRET
    if name == "proxy_url" and value:
        return hidden_url(str(value))
    if name in ("http_headers", "proxy_connect_header") and isinstance(value, Mapping):
        return {header: {"secrets": [SECRET]} for header in value}
    fields = schema[name].fields if name in schema else None
    if fields is None:
        return _without_userinfo(value)
    return [masked(fields, item) for item in value] if isinstance(value, list) else masked(fields, value)


def _without_userinfo(value: Any) -> Any:
    """A value with user and password of all URLs in it replaced."""
    if isinstance(value, Mapping):
        return {name: _without_userinfo(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_userinfo(item) for item in value]
    return _USERINFO.sub(f"{SECRET}@", value) if isinstance(value, str) else value


def hidden_url(url: str) -> str:
    """Scheme and host of a URL only, as the rest is often a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{SECRET}"
