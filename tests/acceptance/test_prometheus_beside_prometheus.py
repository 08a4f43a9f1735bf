"""The same requests to the server and to a real Prometheus over the same series: status, error type, shape, values.

Debian's Prometheus is 2.42; `test_prometheus_api` covers later features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from alerts.promql.series import Series, SeriesInMemory, SeriesSource, series_of
from controlplane.api.prometheus_series import Reading
from controlplane.metrics.series.service import GridStats
from tests.acceptance.live import eventually, live_server
from tests.unit.alerts.promql.peer import Peer, peer_over

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
#: A sample every 15 s before T, and none on the edge of any window that is asked for.
T = 1795159007
VALUES = {
    "one": [1.0, 2.5, 1e-7, 0.000001, 123456.789],
    "big": [1e15, 1e16, 123456789012345680000.0, 1e21, -1e300],
    "odd": [float("nan"), float("inf"), float("-inf"), -0.0, 0.1 + 0.2],
    "gone": [7.0],
}
SERIES = [
    series_of(
        {"__name__": "m", "app": "a" if q < "l" else "b", "q": q},
        {T - 67.0 + 15 * n: value for n, value in enumerate(values)},
    )
    for q, values in VALUES.items()
]
RULES = """
groups:
  - name: first
    interval: 1s
    rules:
      - {record: "r:one", expr: "vector(1)", labels: {team: data}}
      - alert: Fires
        expr: vector(1234.5) > 0
        labels: {severity: page}
        annotations: {summary: "v {{ $value }}"}
      - {alert: Waits, expr: vector(1) > 0, for: 1h}
      - {alert: Quiet, expr: vector(0) > 1}
      - {record: "r:bad", expr: 'label_replace(vector(1), "", "", "", "")'}
"""
CONFIG = """
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yml]
scrape_configs:
  - {job_name: itself, static_configs: [{targets: ["127.0.0.1:9"]}]}
"""


@dataclass(frozen=True)
class FixedSeries:
    """The series above, as the server's series service offers them."""

    series: Sequence[Series] = ()

    def source(self, now: float, notes: list[str] | None = None) -> SeriesSource:
        return SeriesInMemory(self.series)

    def figures(self) -> GridStats:
        return GridStats()

    def live(self, now: float) -> list[Reading]:
        bare = [({k: v for k, v in s.labels.items() if k != "__name__"}, s) for s in self.series]
        return [(s.labels["__name__"], labels, float(s.values[-1])) for labels, s in bare]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The whole server, with its own rules; only the series are those above, and seen from T."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "rules.yml").write_text(RULES, encoding="utf-8")
    changes = {"rules": (str(folder / "rules.yml"),), "series_step": 1.0, "retention_days": 36_500.0}
    with live_server(folder, **changes) as server, server.client() as client:
        series = server.plane.series
        object.__setattr__(server.plane, "series", FixedSeries(SERIES))
        yield client
        object.__setattr__(server.plane, "series", series)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "rules.yml").write_text(RULES, encoding="utf-8")
    with peer_over(SERIES, folder, CONFIG) as found:
        yield found


def ask(ours: httpx.Client, peer: Peer, request: str) -> tuple[httpx.Response, httpx.Response]:
    """`METHOD path[?query] [form]`, answered by us and by Prometheus."""
    method, path, *form = request.replace("$T", str(T)).split(" ")
    body = {"content": form[0], "headers": FORM} if form else {}
    mine = ours.request(method, f"/prometheus/api/v1/{path}", **body)
    return mine, httpx.request(method, f"{peer.url}/api/v1/{path}", **body)  # type: ignore[arg-type]


LONG = 'count by (app, q) (rate(m{app="aaaaaaaaaaaaaaaaaaaaaaaaaaaa",q=~"bbbbbbbbbbbbbbbbbbbbbbbb"}[5m]) > 1)'
FORMATTED = [
    "sum(rate( m{q='one'} [5m] offset 1m))by(app)/on(app)group_left(q)m>bool 2",
    "-m^2 + (m+1)*m - (m - m @ end())",
    'max_over_time((m unless m)[1h30m:1m] @ 12) or absent({__name__=~"a.*",b!="c"})',
    'topk(3, label_replace(m,"a","$1","b","(.*)")) % 1e9 == 0.000001',
    f"{LONG} and {LONG}",
    f"sum without (q) ({LONG}, 1)".replace(", 1", " / -m"),
    f"label_join({LONG},'a','b','c','d')",
]
AT, OVER = "time=$T", "start=1795158940&end=$T"
ANSWERED = [
    f"GET query?query=m&{AT}",
    f"GET query?query=m&{AT}.125",
    "GET query?query=m&time=2026-11-20T07:16:47.5Z",
    "GET query?query=m&time=2026-11-20T08:16:47%2B01:00",
    f"GET query?query=1%2B1&{AT}",
    f'GET query?query="a\\"b"&{AT}',
    f"GET query?query=m[1m]&{AT}",
    f"GET query?query=nothing&{AT}",
    f"GET query?query=nothing[1m]&{AT}",
    f"GET query?query=sum(m)by(app)&{AT}&timeout=10s&unknown=1",
    f'POST query query=m{{q="one"}}&{AT}',
    f"POST query?query=m&{AT} query=1",
    f'GET query_range?query=m{{q="one"}}&{OVER}&step=7',
    f"GET query_range?query=m&{OVER}&step=15s",
    f"GET query_range?query=1&{OVER}&step=0.5",
    "GET query_range?query=time()&start=1795158940.25&end=$T&step=1.75",
    f"GET query_range?query=nothing&{OVER}&step=5",
    "GET query_range?query=1&start=0&end=11000&step=1",
    f"POST query_range query=m*2&{OVER}&step=15",
    f"GET series?match[]=m&{OVER}",
    f'GET series?match[]=m{{q="one"}}&match[]=m{{app="b"}}&match[]=m&{OVER}',
    f"GET series?match[]=nothing&{OVER}",
    "GET series?match[]=m&start=5&end=1",
    f'POST series match[]=m{{q=~"o.*"}}&{OVER}',
    f"GET labels?match[]=m&{OVER}",
    f"POST labels match[]=m&{OVER}",
    f"GET label/q/values?match[]=m&{OVER}",
    f"GET label/__name__/values?match[]=m&{OVER}",
    f"GET label/nothing/values?match[]=m&{OVER}",
    "GET metadata?metric=nothing",
    "GET metadata?limit=0",
    *(f"GET format_query?query={quote(text)}" for text in FORMATTED),
    "POST format_query query=m%2B1",
]


@pytest.mark.parametrize("request_", ANSWERED)
def test_the_answers_are_the_same(ours: httpx.Client, peer: Peer, request_: str) -> None:
    mine, other = ask(ours, peer, request_)
    assert (mine.status_code, mine.headers["content-type"]) == (200, other.headers["content-type"])
    assert in_order(mine.json()) == in_order(other.json())


def in_order(body: Any) -> Any:
    """The elements of a vector come in no order that means anything."""
    if body["data"] and isinstance(body["data"], dict) and body["data"].get("resultType") == "vector":
        body["data"]["result"].sort(key=lambda element: sorted(element["metric"].items()))
    return body


REFUSED = [
    "GET query",
    "GET query?query=",
    "GET query?query=m%2B",
    "GET format_query?query=m%2B",
    "GET query?query=foo(m)",
    "GET query?query=m&time=yesterday",
    "GET query?query=m&timeout=x",
    "GET query?query=m&timeout=0",
    f"GET query?query=m*on()m&{AT}",
    f"GET query?query=m%3Btime&{AT}",
    "GET query_range?query=1&end=$T&step=5s",
    "GET query_range?query=1&start=1&step=5s",
    "GET query_range?query=1&start=1&end=2",
    "GET query_range?query=1&start=x&end=2&step=1",
    "GET query_range?query=1&start=1&end=x&step=1",
    "GET query_range?query=1&start=1&end=2&step=x",
    "GET query_range?query=1&start=1&end=2&step=0",
    "GET query_range?query=1&start=1&end=2&step=-1",
    "GET query_range?query=1&start=1&end=2&step=nan",
    "GET query_range?query=1&start=1&end=2&step=inf",
    "GET query_range?query=1&start=1&end=2&step=1e20",
    "GET query_range?query=1&start=2&end=1&step=1",
    "GET query_range?query=1&start=0&end=11001&step=1",
    "GET query_range?query=m[5m]&start=1&end=2&step=1",
    'GET query_range?query="a"&start=1&end=2&step=1',
    "GET query_range?query=m%2B&start=1&end=2&step=1",
    f"GET query_range?query=m*on()m&{OVER}&step=5",
    "POST query_range query=1",
    "GET series",
    "GET series?match[]=",
    "GET series?match[]={}",
    "GET series?match[]=m[5m]",
    "GET series?match[]=sum(m)",
    "GET series?match[]=m%2B",
    "GET series?match[]=m&start=x",
    "GET series?match[]=m&end=x",
    "GET labels?match[]={}",
    "GET labels?match[]=sum(m)",
    "GET labels?start=x",
    "GET label/q/values?match[]={}",
    "GET label/q/values?start=x",
    "GET metadata?limit=x",
    "GET rules?type=x",
]


@pytest.mark.parametrize("request_", REFUSED)
def test_what_one_refuses_the_other_refuses_for_the_same_kind_of_reason(
    ours: httpx.Client, peer: Peer, request_: str
) -> None:
    mine, other = ask(ours, peer, request_)
    assert (mine.status_code, mine.headers["content-type"]) == (
        other.status_code,
        other.headers["content-type"],
    )
    assert mine.json().keys() == other.json().keys() == {"status", "errorType", "error"}
    assert mine.json()["errorType"] == other.json()["errorType"]
    assert 5 < len(mine.json()["error"]) < 500


def shape(value: Any) -> Any:
    """Keys and types; words of the API as they are; a list is the shapes of its elements."""
    match value:
        case dict():
            return {key: shape(inner) for key, inner in value.items()}
        case list():
            return [shape(inner) for inner in value]
        case int() | float():
            return "number"
    return "time" if value[:4].isdigit() and "T" in value else value


def without_places(body: Any) -> Any:
    """Without what differs by intent: the path of the file, and our words for an error."""
    for group in body["data"].get("groups", ()):
        group["file"] = Path(group["file"]).name
        for rule in group["rules"]:
            rule["labels"] = rule.get("labels", {})  # Prometheus leaves out empty ones where it records
            rule["lastError"] = "said" if rule.get("lastError") else ""
    return body


def test_rules_and_alerts_have_the_same_shape(ours: httpx.Client, peer: Peer) -> None:
    def settled(client: httpx.Client | Any, url: str) -> bool:
        groups = client.get(url).json()["data"]["groups"]
        return all(rule["health"] != "unknown" for group in groups for rule in group["rules"])

    assert eventually(lambda: settled(httpx, f"{peer.url}/api/v1/rules"))
    assert eventually(lambda: settled(ours, "/prometheus/api/v1/rules"))
    for request in ("GET rules", "GET rules?type=alert", "GET rules?type=record", "GET alerts"):
        mine, other = ask(ours, peer, request)
        assert shape(without_places(mine.json())) == shape(without_places(other.json())), request


def test_the_build_has_the_same_fields(ours: httpx.Client, peer: Peer) -> None:
    mine, other = ask(ours, peer, "GET status/buildinfo")
    assert mine.json()["data"].keys() == other.json()["data"].keys()
