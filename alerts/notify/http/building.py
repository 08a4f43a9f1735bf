"""Build an HTTP client from a receiver's `http_config`, and fetch OAuth 2.0 tokens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from alerts.errors import ReceiverError
from alerts.notify.configuration.schema import Settings
from alerts.notify.http.client import HttpClient, HttpResponse, basic_authorization, checked
from alerts.notify.http.connections import ProxySettings
from alerts.notify.http.tls import tls_context

#: A token is fetched anew so long before it expires.
EXPIRY_MARGIN_SECONDS = 10.0
ReadFile = Callable[[str], str]


def http_client(settings: Settings | None, read: ReadFile) -> HttpClient:
    """The client of an `http_config` whose secrets are resolved. Raises OSError or ValueError for unusable files."""
    if not settings:
        return HttpClient()
    tls = settings["tls_config"]
    client = HttpClient(
        headers={**_headers(settings, read), **_authorization(settings)},
        follow_redirects=settings["follow_redirects"],
        proxy=_proxy(settings),
        tls=tls_context(tls),
        server_name=tls["server_name"] if tls else "",
    )
    return client if settings["oauth2"] is None else _with_oauth(client, settings["oauth2"])


def _authorization(settings: Settings) -> dict[str, str]:
    basic, given = settings["basic_auth"], settings["authorization"]
    if basic is not None:
        return {"Authorization": basic_authorization(basic["username"], basic["password"])}
    if given is not None and given["credentials"]:
        return {"Authorization": f"{given['type']} {given['credentials']}"}
    return {"Authorization": f"Bearer {settings['bearer_token']}"} if settings["bearer_token"] else {}


def _headers(settings: Settings, read: ReadFile) -> dict[str, str]:
    found = {}
    for name, given in settings["http_headers"].items():
        values = [*given["values"], *given["secrets"], *(read(path).strip() for path in given["files"])]
        found[name] = ", ".join(values)
    return found


def _proxy(settings: Settings) -> ProxySettings:
    excluded = tuple(entry for entry in settings["no_proxy"].split(",") if entry.strip())
    headers = {
        name: ", ".join(map(str, values)) if isinstance(values, list) else str(values)
        for name, values in settings["proxy_connect_header"].items()
    }
    return ProxySettings(settings["proxy_url"], excluded, settings["proxy_from_environment"], headers)


def _with_oauth(client: HttpClient, given: Settings) -> HttpClient:
    tls = given["tls_config"]
    plain = HttpClient(
        proxy=_proxy(given), tls=tls_context(tls), server_name=tls["server_name"] if tls else ""
    )
    fields = {item.name: getattr(client, item.name) for item in client.__dataclass_fields__.values()}
    return OAuthClient(**fields, tokens=TokenSource(given, plain))


class TokenSource:
    """Access tokens of the client credentials grant, cached until they expire. Thread-safe."""

    def __init__(self, given: Settings, client: HttpClient, clock: Callable[[], float] = time.monotonic):
        self._given, self._client, self._clock = given, client, clock
        self._lock = threading.Lock()
        self._token, self._until = "", 0.0

    def token(self) -> str:
        """A valid token. Raises ReceiverError."""
        with self._lock:
            if not self._token or self._clock() >= self._until:
                self._fetch()
            return self._token

    def forget(self) -> None:
        """Fetch a new token next time: the server refused this one."""
        with self._lock:
            self._token = ""

    def _fetch(self) -> None:
        given = self._given
        form = {"grant_type": "client_credentials", **given["endpoint_params"]}
        if given["scopes"]:
            form["scope"] = " ".join(given["scopes"])
        basic = {"Authorization": basic_authorization(given["client_id"], given["client_secret"])}
        response = self._post(form, basic)
        if 400 <= response.status < 500:  # some servers take the credentials in the form only
            pair = {"client_id": given["client_id"], "client_secret": given["client_secret"]}
            response = self._post({**form, **pair}, {})
        document = checked(given["token_url"], response).document
        if not isinstance(document, dict) or not isinstance(document.get("access_token"), str):
            raise ReceiverError("the token endpoint answered without an access_token", retryable=True)
        lifetime = document.get("expires_in")
        seconds = float(lifetime) if isinstance(lifetime, int | float) else 3600.0
        self._token, self._until = document["access_token"], self._clock() + seconds - EXPIRY_MARGIN_SECONDS

    def _post(self, form: Mapping[str, str], headers: Mapping[str, str]) -> HttpResponse:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._client.request(
            "POST", self._given["token_url"], urlencode(form).encode(), {**kind, **headers}
        )


@dataclass(frozen=True, repr=False)
class OAuthClient(HttpClient):
    """A client that sends an access token with each request, and fetches a new one after a 401."""

    tokens: TokenSource = field(kw_only=True)

    def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        response = self._authorized(method, url, body, headers)
        if response.status != 401:
            return response
        self.tokens.forget()
        return self._authorized(method, url, body, headers)

    def _authorized(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str] | None
    ) -> HttpResponse:
        token = {"Authorization": f"Bearer {self.tokens.token()}"}
        return super().request(method, url, body, {**(headers or {}), **token})

    def with_timeout(self, timeout: float) -> OAuthClient:
        return replace(self, timeout=timeout)
