"""Fields of Alertmanager's `http_config` and `tls_config`."""

from __future__ import annotations

from urllib.parse import urlsplit

from alerts.notify.configuration.schema import (
    Schema,
    SettingField,
    anything,
    boolean,
    file,
    keyed,
    mapping,
    pairs,
    required,
    secret,
    text,
    texts,
)

TLS_VERSIONS = ("", "TLS10", "TLS11", "TLS12", "TLS13")


def address_problem(url: str) -> str | None:
    """Why an HTTP URL is invalid; None if it is valid."""
    if any(ord(char) <= 32 or ord(char) == 127 for char in url):
        return "a URL must not contain spaces or control characters"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"invalid URL ({error})"
    if parts.scheme not in ("http", "https"):
        return "a URL must begin with http:// or https://"
    return None if parts.hostname else "a URL must have a host"


def header_problem(value: str) -> str | None:
    """Why a text cannot be the value of a header; None where it can."""
    if any(not " " <= char <= "~" for char in value):
        return "only printable ASCII can be sent in a header"
    return None


def _proxy_problem(url: str) -> str | None:
    """As strict as Alertmanager: what is no proxy's URL, but a URL, fails when a message is sent."""
    try:
        _ = urlsplit(url).port
    except ValueError:  # its text may hold a part of the password
        return "invalid URL"
    return "missing scheme, as in http://proxy:3128" if url.startswith(":") else None


def _tls_problem(version: str) -> str | None:
    return None if version in TLS_VERSIONS else f"unknown TLS version; known: {', '.join(TLS_VERSIONS[1:])}"


def url(default: str = "", inherits: str = "", required: bool = False) -> SettingField:
    """An HTTP URL."""
    return text(default, inherits=inherits, required=required, problem=address_problem)


def secret_url(inherits: str = "", required: bool = False, unless: str = "") -> SettingField:
    """An HTTP URL that is a secret; NAME_file names a file that holds it."""
    return secret(inherits=inherits, required=required, unless=unless, problem=address_problem)


TLS_CONFIG: Schema = {
    "ca": text(),
    "ca_file": file(),
    "cert": text(),
    "cert_file": file(),
    "key": secret(),
    "server_name": text(),
    "insecure_skip_verify": boolean(),
    "min_version": text(problem=_tls_problem),
    "max_version": text(problem=_tls_problem),
}
_PROXY: Schema = {
    "proxy_url": text(problem=_proxy_problem),
    "no_proxy": text(),
    "proxy_from_environment": boolean(),
    "proxy_connect_header": anything(),
}
_OAUTH2: Schema = {
    "client_id": required(text()),
    "client_secret": secret(),
    "scopes": texts(),
    "token_url": url(required=True),
    "endpoint_params": pairs(),
    "tls_config": mapping(TLS_CONFIG),
    **_PROXY,
}
HTTP_CONFIG: Schema = {
    "basic_auth": mapping({"username": secret(), "password": secret()}),
    "authorization": mapping(
        {"type": text("Bearer", problem=header_problem), "credentials": secret(problem=header_problem)}
    ),
    "bearer_token": secret(problem=header_problem),
    "oauth2": mapping(_OAUTH2),
    "enable_http2": boolean(True),
    "follow_redirects": boolean(True),
    "tls_config": mapping(TLS_CONFIG),
    "http_headers": keyed({"values": texts(), "secrets": texts(), "files": texts()}),
    **_PROXY,
}


def http_config() -> SettingField:
    """The field `http_config` of a receiver."""
    return mapping(HTTP_CONFIG, inherits="http_config")
