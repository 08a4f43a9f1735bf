"""AWS Signature Version 4, and the credentials that sign a request."""

from __future__ import annotations

import configparser
import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit


@dataclass(frozen=True, repr=False)
class AwsCredentials:
    """An access key; `token` of temporary credentials."""

    access_key: str
    secret_key: str
    token: str = ""


def sign(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    credentials: AwsCredentials,
    region: str,
    service: str,
    now: datetime,
) -> dict[str, str]:
    """The headers of a request with its signature. `now`: UTC."""
    parts = urlsplit(url)
    stamp = f"{now:%Y%m%dT%H%M%SZ}"
    scope = f"{now:%Y%m%d}/{region}/{service}/aws4_request"
    signed = {"host": parts.netloc.rpartition("@")[2], "x-amz-date": stamp}
    signed |= {name.lower(): value.strip() for name, value in headers.items()}
    if credentials.token:
        signed["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(signed))
    query = "&".join(
        f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in sorted(parse_qsl(parts.query, True))
    )
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    canonical = "\n".join([method, parts.path or "/", query, lines, names, hashlib.sha256(body).hexdigest()])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_key}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    signature = _hmac(key, to_sign).hex()
    value = f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**signed, "authorization": value}


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def find_credentials(profile: str = "") -> AwsCredentials | None:
    """Credentials of the environment, or of a profile of AWS' credentials file; None where there are none."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
    if key and secret and not profile:
        return AwsCredentials(key, secret, os.environ.get("AWS_SESSION_TOKEN", ""))
    path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or str(Path.home() / ".aws" / "credentials")
    stored = configparser.ConfigParser(interpolation=None)
    stored.read(path, encoding="utf-8")
    name = profile or os.environ.get("AWS_PROFILE", "default")
    if not stored.has_option(name, "aws_access_key_id"):
        return None
    section = stored[name]
    return AwsCredentials(
        section["aws_access_key_id"],
        section.get("aws_secret_access_key", ""),
        section.get("aws_session_token", ""),
    )
