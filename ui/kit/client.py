"""HTTP client of the server's API: one method per request, JSON in, JSON out.

The only module that knows the server's URLs. The pages call it through `ui.kit.cached_reads`. Server and token come from
`ui.kit.environment`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from ui.kit.answers import ClientError, ServerUnreachable, body_of, json_of
from ui.kit.environment import tls_context, token
from ui.kit.fleet_page import EVERYTHING, FleetPage, Params

MAX_TAGGED_ANSWERS = 64
HTTP_TIMEOUT = httpx.Timeout(8.0, connect=2.0)
#: A trial waits for the service behind each integration.
TRIAL_TIMEOUT, REPLAY_TIMEOUT = httpx.Timeout(60.0, connect=2.0), httpx.Timeout(150.0, connect=2.0)


class ServerClient:
    """Client of one server, or of several that stand in for each other: `server` is then a list separated by commas.

    Where a server does not answer, or is the standby, the next one gets the request; a request that changes something
    is repeated only where the first server cannot have received it. It carries `person_headers()`, which name the
    person it is made for. Safe to share between threads. Each request raises `ClientError`.
    """

    def __init__(
        self,
        server: str,
        read_token: Callable[[], str | None] = token,
        transport: httpx.BaseTransport | None = None,
        person_headers: Callable[[], Mapping[str, str]] = dict,
    ):
        self.server = server
        self._addresses = server.split(",")
        self._token = read_token
        self._person_headers = person_headers
        self._answers: dict[str, tuple[str, dict[str, Any]]] = {}  # by address: ETag and body
        # trust_env=False: a proxy meant for the internet must not stand between two processes of one machine.
        tls = tls_context() if "https:" in server else True
        self._http = httpx.Client(timeout=HTTP_TIMEOUT, transport=transport, trust_env=False, verify=tls)

    def fleet(self, page: FleetPage = EVERYTHING) -> dict[str, Any]:
        """A page of the queries with their verdicts. A page that has not changed is not transferred again."""
        return self._tagged("/api/v1/queries", page.params())

    def fleet_choices(self) -> dict[str, Any]:
        """Applications and labels to filter the fleet by: `{"choices": {"apps", "labels"}}`."""
        return self._get("/api/v1/queries", {"choices": "true", "limit": "1", "fields": "query_id"})

    def query(self, query_id: str) -> dict[str, Any]:
        """One query with its verdict, runs, sources, operators and recent actions."""
        return self._get(_path("queries", query_id))

    def progress(self, query_id: str, start: float, end: float, step: float) -> dict[str, Any]:
        """Progress reports of a query between two times (Unix seconds), one every `step` seconds."""
        params = {"start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step:g}"}
        return self._get(_path("queries", query_id) + "/progress", params)

    def batch(self, query_id: str, run_id: str, batch_id: int) -> dict[str, Any]:
        """The report of one batch as Spark wrote it: `{"report"}`."""
        return self._get(f"{_path('queries', query_id)}/runs/{quote(run_id, safe='')}/batches/{batch_id}")

    def about_query(self, query_id: str, part: str, *params: tuple[str, str]) -> dict[str, Any]:
        """A part of what is known of a query: `capacity`, `what-changed` (`before`, `searched_seconds`)."""
        return self._get(f"{_path('queries', query_id)}/{part}", dict(params))

    def past(self, query_id: str, start: float, end: float) -> dict[str, Any]:
        """Runs, alerts and actions of the query from the lake."""
        params = {"start": f"{start:.0f}", "end": f"{end:.0f}"}
        return self._get(_path("queries", query_id) + "/timeline", params)

    def series(self, query: str, start: float, end: float, step: float) -> dict[str, Any]:
        """PromQL range query; the answer is Prometheus' own JSON."""
        params = {"query": query, "start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step:g}"}
        return self._get("/prometheus/api/v1/query_range", params)

    def instant(self, query: str) -> dict[str, Any]:
        """PromQL instant query; the answer is Prometheus' own JSON."""
        return self._get("/prometheus/api/v1/query", {"query": query})

    def query_alerts(self, query_id: str, start: float, end: float) -> dict[str, Any]:
        """Alerts of a query that fired between two times, including those that still fire."""
        params = {"query_id": query_id, "start": f"{start:.0f}", "end": f"{end:.0f}", "limit": "200"}
        return self._get("/api/v1/alerts/history", params)

    def actions(self, limit: int = 200) -> dict[str, Any]:
        """The newest actions of all queries."""
        return self._get("/api/v1/actions", {"limit": str(limit)})

    def ledger(self, limit: int = 500) -> dict[str, Any]:
        """Decisions of the policies in the last week, newest first, and what they were worth."""
        return self._get("/api/v1/ledger", {"limit": str(limit)})

    def incidents(self) -> dict[str, Any]:
        """The open incidents and those of the last week, newest first."""
        return self._get("/api/v1/incidents")

    def incident(self, incident_id: str) -> dict[str, Any]:
        """One incident with its alerts, notifications, actions, decisions and timeline."""
        return self._get(_path("incidents", incident_id))

    def incident_bundle(self, incident_id: str) -> dict[str, Any]:
        """One incident as an HTML file: `{"html"}`."""
        return self._get(_path("incidents", incident_id) + "/bundle")

    def action(self, action_id: str) -> dict[str, Any]:
        """One action with its state and outcome."""
        return self._get(f"/api/v1/actions/{quote(action_id, safe='')}")

    def whoami(self) -> dict[str, Any]:
        """Name and role of the token, and whether it may impersonate people."""
        return self._get("/api/v1/whoami")

    def servers(self) -> dict[str, Any]:
        """Role and figures of the server at each address, standbys included: `{"servers": […]}`.

        One that does not answer has an `error`. Raises the last error if none answers.
        """
        addresses = sorted(self._addresses)
        found = [self._about(address) for address in addresses]
        failed = [each for each in found if isinstance(each, ClientError)]
        if len(failed) == len(found):
            raise failed[-1]
        items = [{"error": str(each)} if isinstance(each, ClientError) else each for each in found]
        return {"servers": [item | {"address": at} for item, at in zip(items, addresses, strict=True)]}

    def _about(self, address: str) -> dict[str, Any] | ClientError:
        bearer = {"Authorization": f"Bearer {secret}"} if (secret := self._token()) else {}
        try:
            return body_of(self._http.get(f"{address}/api/v1/server", headers=bearer))
        except ClientError as error:
            return error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return ServerUnreachable(_unreachable_message(address, error))

    def alerts(self) -> dict[str, Any]:
        """Alerts that are pending, fire, or were resolved within the last 15 minutes."""
        return self._get("/api/v1/alerts")

    def alert(self, fingerprint: str) -> dict[str, Any]:
        """One alert with its notifications."""
        return self._get(_path("alerts", fingerprint))

    def alert_history(self, start: float, end: float, limit: int = 500) -> dict[str, Any]:
        """Alerts that fired between two times, newest first."""
        params = {"start": f"{start:.0f}", "end": f"{end:.0f}", "limit": str(limit)}
        return self._get("/api/v1/alerts/history", params)

    def alert_statistics(self, start: float, end: float) -> dict[str, Any]:
        """Firings between two times by rule, most useless first."""
        return self._get("/api/v1/alerts/statistics", {"start": f"{start:.0f}", "end": f"{end:.0f}"})

    def acknowledge(self, fingerprint: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Acknowledge a firing alert; `body` has `comment`."""
        return self._send("POST", _path("alerts", fingerprint) + "/acknowledge", json=dict(body))

    def silences(self) -> dict[str, Any]:
        """All silences, expired ones included."""
        return self._get("/api/v1/silences")

    def silence(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create a silence; for `body` see `ui.alerting.selection.silence_request`."""
        return self._send("POST", "/api/v1/silences", json=dict(body))

    def expire(self, silence_id: str) -> dict[str, Any]:
        """End a silence now."""
        return self._send("DELETE", f"/api/v1/silences/{quote(silence_id, safe='')}")

    def covered(self, matchers: Sequence[str]) -> dict[str, Any]:
        """Firing alerts that match all matchers, suppressed ones included: `{"alerts": […]}`.

        Uses Alertmanager's API: only the server parses matchers. Raises `ServerRefused` with the mistake in one.
        """
        params: Params = [("filter", text) for text in matchers]
        answer = self._answer("GET", "/alertmanager/api/v2/alerts", params=params)
        if answer.is_success and isinstance(found := json_of(answer), list):
            return {"alerts": found}
        return body_of(answer)

    def rules(self) -> dict[str, Any]:
        """Rule groups with the state and last evaluation of each rule."""
        return self._get("/api/v1/rules")

    def runbook(self, name: str) -> dict[str, Any]:
        """Markdown of a shipped runbook."""
        return self._get(f"/api/v1/runbooks/{quote(name, safe='')}")

    def notifications(self, limit: int = 500) -> dict[str, Any]:
        """The newest notifications, sent and suppressed."""
        return self._get("/api/v1/notifications", {"limit": str(limit)})

    def receivers(self) -> dict[str, Any]:
        """The receivers of notifications, and the problem where they do not deliver."""
        return self._get("/api/v1/receivers")

    def act(self, query_id: str, body: Mapping[str, Any], idempotency_key: str) -> dict[str, Any]:
        """Request an action. The server carries out requests with the same key only once."""
        headers = {"Idempotency-Key": idempotency_key}
        return self._send("POST", _path("queries", query_id) + "/actions", json=dict(body), headers=headers)

    def set_desired(self, query_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Set the desired state of a query: `{"desired", "action"}`, the action None where nothing is to be done."""
        return self._send("PUT", _path("queries", query_id) + "/desired", json=dict(body))

    def try_receiver(self, receiver: str) -> dict[str, Any]:
        """Send a trial notification to each integration of a receiver: `{"integrations"}`."""
        return self._send("POST", "/api/v1/receivers/try", json={"receiver": receiver}, timeout=TRIAL_TIMEOUT)

    def replay(self, rules: str, start: float, end: float) -> dict[str, Any]:
        """When the rules of this file would have fired: `{"episodes", "errors", "notes"}`; takes two minutes at most."""
        body = {"rules": rules, "start": start, "end": end}
        return self._send("POST", "/api/v1/rules/replay", json=body, timeout=REPLAY_TIMEOUT)

    def tokens(self) -> dict[str, Any]:
        """All tokens without their secrets, for admins: `{"tokens"}`."""
        return self._get("/api/v1/tokens")

    def policies(self) -> dict[str, Any]:
        """The policies in force, as parsed and as text."""
        return self._get("/api/v1/policies")

    def saved_views(self) -> dict[str, Any]:
        """Saved views of the Fleet page: `{"views"}`."""
        return self._get("/api/v1/saved-views")

    def save_view(self, name: str, parameters: str) -> dict[str, Any]:
        """Save a view of the Fleet page; `parameters` is the query string of its address."""
        return self._send("PUT", _path("saved-views", name), json={"parameters": parameters})

    def delete_view(self, name: str) -> dict[str, Any]:
        """Delete a saved view; answers with those that are left."""
        return self._send("DELETE", _path("saved-views", name))

    def bulk_action(self, bulk_id: str) -> dict[str, Any]:
        """An action on many queries, with the state of each."""
        return self._get(_path("bulk-actions", bulk_id))

    def post_bulk_action(self, place: str, body: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Plan (`/plan`), request (an empty place) or cancel (`/ID/cancel`) an action on many queries."""
        path, headers = f"/api/v1/bulk-actions{place}", {"Idempotency-Key": key}
        return self._send("POST", path, json=dict(body), headers=headers)

    def apps(self) -> dict[str, Any]:
        """The declared applications with their drivers and queries."""
        return self._get("/api/v1/apps")

    def agents(self) -> dict[str, Any]:
        """All agents with the state of their drivers."""
        return self._get("/api/v1/agents")

    def app_logs(self, name: str) -> dict[str, Any]:
        """The end of the output of an application's driver."""
        return self._get(_path("apps", name) + "/logs", {"lines": "200"})

    def act_on_app(self, name: str, body: Mapping[str, Any], idempotency_key: str) -> dict[str, Any]:
        """Request a start, stop or restart of an application."""
        path, headers = _path("apps", name) + "/actions", {"Idempotency-Key": idempotency_key}
        return self._send("POST", path, json=dict(body), headers=headers)

    def checkpoints(self) -> dict[str, Any]:
        """The checkpoint of each query with its verdict, worst first."""
        return self._get("/api/v1/checkpoints")

    def checkpoint(self, query_id: str) -> dict[str, Any]:
        """One checkpoint with its findings, state stores, growth, and the changes since the last run."""
        return self._get(_path("checkpoints", query_id))

    def request_inventory(self, query_id: str) -> dict[str, Any]:
        """Request an inventory: `{"requested", "by"}`. Raises `ServerRefused` if nobody can take one."""
        return self._send("POST", _path("checkpoints", query_id) + "/inventory", json={})

    def planned_change(self, query_id: str, kind: str, params: Params | None = None) -> dict[str, Any]:
        """What a rewind or repair of the checkpoint would do now. Raises `ServerRefused` with the reason."""
        return self._send("GET", f"{_path('checkpoints', query_id)}/{kind}", params=params)

    def change_checkpoint(
        self, query_id: str, kind: str, body: Mapping[str, Any], idempotency_key: str
    ) -> dict[str, Any]:
        """Request a rewind, repair or undo: `{"action"}`."""
        path, headers = f"{_path('checkpoints', query_id)}/{kind}", {"Idempotency-Key": idempotency_key}
        return self._send("POST", path, json=dict(body), headers=headers)

    def _tagged(self, path: str, params: Params) -> dict[str, Any]:
        """An answer with an ETag; the server's 304 stands for the last one, as of now."""
        key = f"{path}?{urlencode(params)}"
        etag, known = self._answers.get(key, ("", {}))
        answer = self._answer("GET", path, params=params, headers={"If-None-Match": etag} if etag else {})
        if answer.status_code == httpx.codes.NOT_MODIFIED:
            return {**known, **_as_of(answer)}
        body = body_of(answer)
        if new := answer.headers.get("ETag"):
            self._answers[key] = new, body
            while len(self._answers) > MAX_TAGGED_ANSWERS:
                self._answers.pop(next(iter(self._answers)), None)
        return body

    def _get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        return self._send("GET", path, params=params)

    def _send(self, method: str, path: str, **rest: Any) -> dict[str, Any]:
        return body_of(self._answer(method, path, **rest))

    def _answer(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **rest: Any
    ) -> httpx.Response:
        bearer = {"Authorization": f"Bearer {secret}"} if (secret := self._token()) else {}
        person = {} if method == "GET" else self._person_headers()
        given = {**bearer, **person, **(headers or {})}
        addresses, failed = self._addresses, list[str]()
        for place, address in enumerate(addresses, start=1):
            try:
                answer = self._http.request(method, address + path, headers=given, **rest)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                failed.append(address)
                if place == len(addresses) or not _may_ask_another(error, method, given):
                    raise ServerUnreachable(_unreachable_message(" and ".join(failed), error)) from error
                continue
            if place == len(addresses) or not _is_of_standby(answer):
                # The next request goes to this server first; other threads see the old order or the new one.
                self._addresses = [*addresses[place - 1 :], *addresses[: place - 1]]
                return answer
        raise AssertionError("a client has at least one address")


def _as_of(answer: httpx.Response) -> dict[str, str]:
    try:
        return {"as_of": parsedate_to_datetime(answer.headers.get("Date", "")).isoformat()}
    except ValueError:
        return {}


def _may_ask_another(error: Exception, method: str, headers: Mapping[str, str]) -> bool:
    unreached = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.InvalidURL)
    return unreached or method == "GET" or "Idempotency-Key" in headers


def _is_of_standby(answer: httpx.Response) -> bool:
    body = json_of(answer) if answer.status_code == 503 else None
    error = body.get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and error.get("code") == "standby"


def _path(kind: str, name: str) -> str:
    return f"/api/v1/{kind}/{quote(name, safe='')}"


def _unreachable_message(server: str, error: Exception) -> str:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return f"No connection to the server at {server}."
    if isinstance(error, httpx.TimeoutException):
        return f"The server at {server} did not answer in time."
    return f"The server at {server} gave no usable answer ({type(error).__name__})."
