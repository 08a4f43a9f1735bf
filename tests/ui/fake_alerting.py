"""Alerting API of the fake server: scripted alerts, silences, rules and notifications.

`FakeAlerting` holds the data and applies acknowledgements and silences like the server. `respond` is its HTTP
side, `AlertingAnswers` its side without HTTP, for AppTest.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.ui.alerting_factories import Json, alert, note, shipped_groups, silence, troubled_alerts
from tests.ui.factories import NOW, rfc3339
from ui.kit.answers import ServerNotFound, ServerRefused

OPERATOR = re.compile(r"""^\s*([A-Za-z_]\w*)\s*(=~|!~|!=|=)\s*(".*"|[^"]*)\s*$""", re.DOTALL)


class FakeAlerting:
    """Scripted alerting data. `posted`: the bodies of the posted requests, newest last."""

    def __init__(self, now: float = NOW):
        self.alerts = troubled_alerts(now)
        self.past = [
            alert(now=now, state="resolved", fired_at=rfc3339(now - 9000 - 60 * n)) for n in range(3)
        ]
        for number, item in enumerate(self.past):
            item |= {"resolved_at": rfc3339(now - 8000 - 60 * number), "value": 100.0 * number}
        ended = {"starts_at": rfc3339(now - 90_000), "ends_at": rfc3339(now - 80_000), "state": "expired"}
        self.silences = [silence(1, now), silence(2, now, comment="a test of the pager", **ended)]
        self.groups = shipped_groups(now)
        lag = self.alerts[2]["fingerprint"]
        repeated = {"reason": "Notified 60 s ago. Nothing new, repeated after 4 h."}
        self.notes = [
            note(now, at=rfc3339(now - 30), outcome="not_sent", fingerprints=[lag], **repeated),
            note(now, fingerprints=[lag]),
            note(now, at=rfc3339(now - 125), outcome="failed", reason="the webhook answered 502"),
        ]
        self.posted: list[Json] = []
        self.delivery_problem: Json | None = None
        self.known_receivers: list[Json] = []

    def listed(self, now: float) -> Json:
        rank = {"firing": 0, "pending": 1, "resolved": 2}
        worst = {"critical": 0, "warning": 1, "info": 2}
        shown = sorted(self.alerts, key=lambda a: (rank[a["state"]], worst.get(a["severity"], 3)))
        firing = [item for item in shown if item["state"] == "firing"]
        counts = {
            "firing": len(firing),
            "pending": sum(item["state"] == "pending" for item in shown),
            "silenced": sum(bool(item["silenced_by"]) for item in firing),
            "inhibited": sum(bool(item["inhibited_by"]) for item in firing),
            "acknowledged": sum(bool(item["acknowledged"]) for item in firing),
        }
        return {"as_of": rfc3339(now), "counts": counts, "alerts": shown}

    def get(self, wanted: str) -> Json:
        return {"alert": self._find(wanted), "notifications": self._notes_of(wanted)}

    def _notes_of(self, wanted: str) -> list[Json]:
        return [item for item in self.notes if wanted in item["fingerprints"]]

    def _find(self, wanted: str) -> Json:
        for item in (*self.alerts, *self.past):
            if item["fingerprint"] == wanted:
                return item
        raise ServerNotFound(f"no alert {wanted}")

    def history(self) -> Json:
        fired = [item for item in self.alerts if item["fired_at"]]
        newest = sorted([*fired, *self.past], key=lambda item: str(item["fired_at"]), reverse=True)
        return {"alerts": [{**item, "silenced_by": [], "inhibited_by": []} for item in newest]}

    def statistics(self) -> Json:
        entry = {"rule": "LagGrowing", "severity": "warning", "firings": 3, "queries": 2, "firing_now": 1}
        entry |= {"total_seconds": 900.0, "median_seconds": 300.0, "acknowledged": 1, "useless": 2}
        return {"rules": [{**entry, "advice": "2 of 3 firings ended by themselves."}]}

    def acknowledge(self, wanted: str, body: Mapping[str, Any], now: float) -> Json:
        found = self._find(wanted)
        if found["state"] != "firing":
            raise ServerRefused(
                f"the alert is {found['state']}: only a firing alert can be acknowledged", "conflict"
            )
        self.posted.append(dict(body))
        by = body.get("actor") or "admin"
        found["acknowledged"] = {"by": by, "at": rfc3339(now), "comment": body.get("comment", "")}
        return {"alert": found}

    def all_silences(self) -> Json:
        active = [item["id"] for item in self.silences if item["state"] == "active"]
        counted = {i: sum(i in item["silenced_by"] for item in self.alerts) for i in active}
        return {"silences": [{**item, "alerts": counted.get(item["id"], 0)} for item in self.silences]}

    def add_silence(self, body: Mapping[str, Any], now: float) -> Json:
        covered = self.covered(body["matchers"])
        self.posted.append(dict(body))
        ends = body.get("ends_at") or rfc3339(now + body["duration_seconds"])
        made = silence(
            len(self.silences) + 1, now, id=str(uuid.uuid4()), starts_at=rfc3339(now), ends_at=ends
        )
        made |= {"comment": body["comment"], "created_by": body.get("actor") or "admin"}
        made |= {"matchers": [_matcher(text) for text in body["matchers"]]}
        made["text"] = "{" + ", ".join(body["matchers"]) + "}"
        self.silences.insert(0, made)
        for item in covered:
            item["silenced_by"] = [*item["silenced_by"], made["id"]]
        return {"silence": made}

    def expire(self, wanted: str, now: float) -> Json:
        found = next((item for item in self.silences if item["id"] == wanted), None)
        if found is None:
            raise ServerNotFound(f"no silence {wanted}")
        self.posted.append({"expire": wanted})
        found |= {"state": "expired", "ends_at": rfc3339(now)}
        for item in self.alerts:
            item["silenced_by"] = [other for other in item["silenced_by"] if other != wanted]
        return {"silence": found}

    def covered(self, texts: Sequence[str]) -> list[Json]:
        matchers = [_matcher(text) for text in texts]
        firing = [item for item in self.alerts if item["state"] == "firing"]
        return [item for item in firing if all(_passes(matcher, item["labels"]) for matcher in matchers)]

    def receivers(self) -> Json:
        return {"problem": self.delivery_problem, "receivers": self.known_receivers}

    def trial(self, receiver: str) -> Json:
        """Every integration takes the test, except one named `broken`."""
        (known,) = (item for item in self.known_receivers if item["name"] == receiver)
        names = [item["name"] for item in known["integrations"]]
        results = [
            {"name": n, "delivered": n != "broken", "error": "404 *gone*" if n == "broken" else None}
            for n in names
        ]
        return {"receiver": receiver, "integrations": results}

    def replay(self, rules: str) -> Json:
        """Two episodes, the second of which lasts; a text without rules is refused."""
        self.posted.append({"replay": rules})
        if "expr" not in rules:
            raise ServerRefused("line 1: no groups")
        labels = {"alertname": "LagGrowing", "app": "orders", "query": "*sessions*"}
        first = {
            "name": "LagGrowing",
            "group": "g",
            "labels": labels,
            "pending_at": rfc3339(0.0),
            "value": 7.0,
        }
        first |= {"fired_at": rfc3339(600.0), "resolved_at": rfc3339(1200.0)}
        lasting = first | {"fired_at": rfc3339(3000.0), "resolved_at": None}
        times = {"start": rfc3339(0.0), "until": rfc3339(3600.0)}
        return {"episodes": [first, lasting], "errors": [], "notes": [], "evaluations": 240, **times}

    def rules(self, now: float) -> Json:
        return {"as_of": rfc3339(now), "groups": self.groups}


def _matcher(text: str) -> Json:
    found = OPERATOR.match(text)
    if not found:
        raise ServerRefused(f"bad matcher format: {text}", "bad_request")
    name, operator, value = found.groups()
    return {
        "name": name,
        "operator": operator,
        "value": json.loads(value) if value.startswith('"') else value,
    }


def _passes(matcher: Json, labels: Mapping[str, str]) -> bool:
    value, wanted = labels.get(matcher["name"], ""), matcher["value"]
    match matcher["operator"]:
        case "=":
            return bool(value == wanted)
        case "!=":
            return bool(value != wanted)
        case "=~":
            return re.fullmatch(wanted, value) is not None
    return re.fullmatch(wanted, value) is None


def respond(
    fake: FakeAlerting,
    method: str,
    path: str,
    params: Mapping[str, list[str]],
    body: Json,
    now: float,
) -> tuple[int, Any] | None:
    """Status and JSON of a request that is about alerting; None of any other."""
    try:
        return _route(fake, method, path.strip("/").split("/"), params, body, now)
    except ServerNotFound as error:
        return 404, {"error": {"code": "not_found", "message": str(error), "detail": {}}}
    except ServerRefused as error:
        if path.startswith("/alertmanager"):
            return 400, str(error)
        status = 409 if error.code == "conflict" else 400
        return status, {"error": {"code": error.code, "message": str(error), "detail": {}}}


def _route(
    fake: FakeAlerting,
    method: str,
    path: list[str],
    params: Mapping[str, list[str]],
    body: Json,
    now: float,
) -> tuple[int, Any] | None:
    match method, path:
        case "GET", ["api", "v1", "alerts"]:
            return 200, _selected(fake.listed(now), params)
        case "GET", ["api", "v1", "alerts", "history"]:
            return 200, fake.history()
        case "GET", ["api", "v1", "alerts", "statistics"]:
            return 200, fake.statistics()
        case "GET", ["api", "v1", "alerts", wanted]:
            return 200, fake.get(wanted)
        case "POST", ["api", "v1", "alerts", wanted, "acknowledge"]:
            return 200, fake.acknowledge(wanted, body, now)
        case "GET", ["api", "v1", "silences"]:
            return 200, fake.all_silences()
        case "POST", ["api", "v1", "silences"]:
            return 201, fake.add_silence(body, now)
        case "DELETE", ["api", "v1", "silences", wanted]:
            return 200, fake.expire(wanted, now)
        case "GET", ["api", "v1", "rules"]:
            return 200, fake.rules(now)
        case "GET", ["api", "v1", "notifications"]:
            return 200, {"notifications": fake.notes}
        case "POST", ["api", "v1", "rules", "replay"]:
            return 200, fake.replay(body["rules"])
        case "POST", ["api", "v1", "receivers", "try"]:
            return 200, fake.trial(body["receiver"])
        case "GET", ["api", "v1", "receivers"]:
            return 200, fake.receivers()
        case "GET", ["alertmanager", "api", "v2", "alerts"]:
            return 200, fake.covered(params.get("filter", []))
    return None


def _selected(listed: Json, params: Mapping[str, list[str]]) -> Json:
    """As the server selects by `state` and `query_id`; the counts stay those of all."""
    states, queries = params.get("state", []), params.get("query_id", [])
    alerts = [
        item
        for item in listed["alerts"]
        if (not states or item["state"] in states) and (not queries or item["query_id"] in queries)
    ]
    return {**listed, "alerts": alerts}


class AlertingAnswers:
    """The alerting methods of `ui.kit.client.ServerClient`, answered without HTTP. Its owner has `world` and `now`."""

    world: Any
    now: float

    def _or_error(self, answer: Any) -> Any:
        raise NotImplementedError

    def alerts(self) -> Json:
        return self._or_error(self.world.alerting.listed(self.now))

    def alert(self, fingerprint: str) -> Json:
        return self._or_error(self.world.alerting.get(fingerprint))

    def alert_history(self, start: float, end: float, limit: int = 500) -> Json:
        return self._or_error(self.world.alerting.history())

    def alert_statistics(self, start: float, end: float) -> Json:
        return self._or_error(self.world.alerting.statistics())

    def acknowledge(self, fingerprint: str, body: Json) -> Json:
        return self._or_error(self.world.alerting.acknowledge(fingerprint, body, self.now))

    def silences(self) -> Json:
        return self._or_error(self.world.alerting.all_silences())

    def silence(self, body: Json) -> Json:
        return self._or_error(self.world.alerting.add_silence(body, self.now))

    def expire(self, silence_id: str) -> Json:
        return self._or_error(self.world.alerting.expire(silence_id, self.now))

    def covered(self, matchers: Sequence[str]) -> Json:
        return self._or_error({"alerts": self.world.alerting.covered(matchers)})

    def rules(self) -> Json:
        return self._or_error(self.world.alerting.rules(self.now))

    def notifications(self, limit: int = 500) -> Json:
        return self._or_error({"notifications": self.world.alerting.notes})

    def replay(self, rules: str, start: float, end: float) -> Json:
        assert start < end
        return self._or_error(self.world.alerting.replay(rules))

    def receivers(self) -> Json:
        return self._or_error(self.world.alerting.receivers())
