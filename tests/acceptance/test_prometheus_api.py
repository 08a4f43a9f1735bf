"""The Prometheus API of a real server, as promtool, Grafana and scripts use it, with and without a token."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import pytest

from alerts.matching.labels import Matcher
from alerts.promql.series import Series, SeriesInMemory, SeriesSource, series_of
from controlplane.api.prometheus_series import Reading
from controlplane.api.routes.prometheus import MAX_EVALUATIONS
from controlplane.errors import StoreUnavailable
from controlplane.model import Role
from tests.acceptance.live import LiveServer, eventually
from tests.acceptance.simulated import SimulatedQuery
from tests.stores import skip_or_fail

BASE = "/prometheus/api/v1"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def orders(server: LiveServer) -> Iterator[SimulatedQuery]:
    """A query that has committed two batches."""
    driver = server.agent(app="shop", labels={"team": "data"})
    driver.begin()
    query = SimulatedQuery("orders")
    driver.start(query)
    driver.send(driver.progress(query), driver.progress(query))
    yield query
    driver.close()


def data(client: httpx.Client, path: str, **parameters: Any) -> Any:
    answer = client.get(f"{BASE}/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "success"
    return answer.json()["data"]


def error(answer: httpx.Response) -> tuple[int, str]:
    assert answer.json().keys() == {"status", "errorType", "error"}
    return answer.status_code, answer.json()["errorType"]


# -- what is live ----------------------------------------------------------------------------------


def test_an_instant_query_sees_what_was_reported_a_moment_ago(
    admin: httpx.Client, orders: SimulatedQuery
) -> None:
    selector = f'{{query_id="{orders.query_id}"}}'
    (item,) = data(admin, "query", query=f"spark_streaming_batches_total{selector}")["result"]
    assert item["metric"] == {
        "__name__": "spark_streaming_batches_total",
        "app": "shop",
        "query": "orders",
        "query_id": orders.query_id,
        "team": "data",
    }
    assert item["value"][1] == "2"
    (total,) = data(admin, "query", query=f"sum by (team) (spark_streaming_query_up{selector})")["result"]
    assert (total["metric"], total["value"][1]) == ({"team": "data"}, "1")


def test_a_client_whose_now_is_a_moment_ago_sees_what_is_live_too(
    server: LiveServer, admin: httpx.Client, orders: SimulatedQuery
) -> None:
    just_asked = f"{server.plane.clock() - 0.8:.3f}"
    asked = {"query": f'spark_streaming_query_up{{query_id="{orders.query_id}"}}', "time": just_asked}
    assert data(admin, "query", **asked)["result"][0]["value"] == [float(just_asked), "1"]


def test_labels_and_series_of_what_is_live(admin: httpx.Client, orders: SimulatedQuery) -> None:
    selector = f'spark_streaming_query_status{{query_id="{orders.query_id}"}}'
    (item,) = data(admin, "series", **{"match[]": selector})
    assert (item["__name__"], item["query"]) == ("spark_streaming_query_status", "orders")
    assert {"__name__", "app", "query", "source", "team"} <= set(data(admin, "labels"))
    assert "orders" in data(admin, "label/query/values")
    assert "spark_streaming_query_up" in data(admin, "label/__name__/values")
    apps = data(admin, "label/app/values", **{"match[]": selector})
    assert apps == ["shop"]
    unnamed = {"match[]": f'{{query_id="{orders.query_id}",phase!=""}}'}
    assert data(admin, "label/phase/values", **unnamed) == ["addBatch", "triggerExecution"]


def test_a_limit_cuts_lists_with_a_warning(admin: httpx.Client, orders: SimulatedQuery) -> None:
    for path in (f"{BASE}/label/__name__/values", f"{BASE}/labels"):
        answer = admin.get(path, params={"limit": 2}).json()
        assert (len(answer["data"]), answer["warnings"]) == (2, ["results truncated due to limit"])
    cut = admin.get(f"{BASE}/query", params={"query": "controlplane_queries", "limit": 1}).json()
    assert (len(cut["data"]["result"]), len(cut["warnings"])) == (1, 1)


def test_a_form_may_carry_the_question(admin: httpx.Client, orders: SimulatedQuery) -> None:
    for path in ("query", "query_range", "series", "labels"):
        form = {"query": "1", "start": "0", "end": "1", "step": "1", "match[]": "spark_streaming_query_up"}
        assert admin.post(f"{BASE}/{path}", data=form).json()["status"] == "success", path
    other = admin.post(f"{BASE}/query", content=b"query=1", headers={"Content-Type": "text/plain"})
    assert error(other) == (400, "bad_data")  # as in Prometheus, it is no form then


def test_the_rules_that_ship_are_shown_with_their_state(admin: httpx.Client) -> None:
    groups = data(admin, "rules", type="alert")["groups"]
    names = {rule["name"] for group in groups for rule in group["rules"]}
    assert {"QueryFailed", "LagGrowing", "AgentLost"} <= names
    first = data(admin, "rules", group_limit=1)
    assert len(first["groups"]) == 1
    assert {alert["state"] for alert in data(admin, "alerts")["alerts"]} <= {"pending", "firing"}


def test_metadata_and_build(admin: httpx.Client) -> None:
    assert data(admin, "metadata", metric="spark_streaming_query_up")["spark_streaming_query_up"][0]["help"]
    assert data(admin, "status/buildinfo")["version"].startswith("3.")


# -- who asks, and what ----------------------------------------------------------------------------


def test_answers_carry_annotations_and_long_chains_have_answers(admin: httpx.Client) -> None:
    answer = admin.get(f"{BASE}/query", params={"query": "quantile(2, vector(1))"}).json()
    assert answer["warnings"] == ["PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)"]
    rate = "rate(spark_streaming_query_up[1h])"
    span = {"start": 0, "end": 60, "step": 15}
    assert "infos" not in admin.get(f"{BASE}/query_range", params={"query": rate, **span}).json()
    assert data(admin, "query", query="1 + " * 1_000 + "1")["result"][1] == "1001"
    assert data(admin, "query_range", query="vector(step() + range())", **span)["result"][0]["values"] == [
        [at, "75"] for at in (0, 15, 30, 45, 60)
    ]


def test_unauthorized_requests_get_the_error_format_of_the_api(server: LiveServer) -> None:
    with server.client("") as anonymous, server.client(server.token(Role.AGENT)) as agent:
        for client, status in ((anonymous, 401), (agent, 403)):
            answer = client.get(f"{BASE}/query", params={"query": "1"})
            assert answer.status_code == status
            assert set(answer.json()["error"]) == {"code", "message", "detail"}
    with server.client(server.token(Role.VIEWER)) as viewer:
        assert data(viewer, "query", query="1+1")["result"][1] == "2"


@pytest.mark.parametrize(
    ("path", "parameters", "expected"),
    [
        ("query", {"query": "m", "time": "nan"}, (400, "bad_data")),
        ("query", {"query": "m", "time": "1e300"}, (400, "bad_data")),
        ("query", {"query": "m", "lookback_delta": "x"}, (400, "bad_data")),
        ("query", {"query": "m", "limit": "-1"}, (400, "bad_data")),
        ("query", {"query": "m", "timeout": "0"}, (503, "timeout")),
        ("query", {"query": "(" * 5000}, (400, "bad_data")),
        ("query", {"query": "\x00 \U0001f600"}, (400, "bad_data")),
        ("query", {"query": "-" * 30_000 + "1"}, (400, "bad_data")),
        ("query", {"query": "sum_over_time(vector(1)[100y:1ms])"}, (422, "execution")),
        ("query_range", {"query": "1", "start": "0", "end": "1e12", "step": "1"}, (400, "bad_data")),
        ("query_range", {"query": "1", "start": "0", "end": "1", "step": "1e-9"}, (400, "bad_data")),
        ("series", {"match[]": "m[5m]"}, (400, "bad_data")),
        ("rules", {"group_limit": "0"}, (400, "bad_data")),
        ("rules", {"group_next_token": "x"}, (400, "bad_data")),
        ("label/U___ffffff_/values", {}, (400, "bad_data")),
    ],
)
def test_an_invalid_request_gets_an_error_in_prometheus_format(
    admin: httpx.Client, path: str, parameters: dict[str, str], expected: tuple[int, str]
) -> None:
    answer = admin.get(f"{BASE}/{path}", params=parameters)
    assert error(answer) == expected
    assert "Traceback" not in answer.text


def test_a_form_that_is_too_large_gets_an_error_in_prometheus_format(admin: httpx.Client) -> None:
    answer = admin.post(f"{BASE}/query", data={"query": "1" * 300_000})
    assert error(answer) == (413, "bad_data")


# -- series that answer late, or not -----------------------------------------------------------------


class FakeSeries:
    """Series that come when they are let."""

    def __init__(self, series: Sequence[Series] = (), problem: Exception | None = None):
        self.series, self.problem = series, problem
        self.asked, self.go = threading.Semaphore(0), threading.Event()

    def source(self, now: float, notes: list[str] | None = None) -> SeriesSource:
        return self

    def live(self, now: float) -> list[Reading]:
        return []

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        self.asked.release()
        assert self.go.wait(30.0)
        if self.problem is not None:
            raise self.problem
        return SeriesInMemory(self.series).select(matchers, start, end)


@pytest.fixture
def fake_series(server: LiveServer) -> Iterator[FakeSeries]:
    """Instead of the server's own series."""
    before, fake_series = server.plane.series, FakeSeries()
    object.__setattr__(server.plane, "series", fake_series)
    yield fake_series
    fake_series.go.set()
    object.__setattr__(server.plane, "series", before)


def test_the_lookback_delta_parameter_is_used(admin: httpx.Client, fake_series: FakeSeries) -> None:
    fake_series.series = [series_of({"__name__": "m"}, {1000.0: 1.0})]
    fake_series.go.set()
    for delta, found in (("20", 1), ("5s", 0), ("0", 1), ("-1", 1)):
        asked = {"query": "m", "time": "1010", "lookback_delta": delta}
        assert len(data(admin, "query", **asked)["result"]) == found, delta


def test_a_fifth_concurrent_query_waits_and_is_then_refused(
    server: LiveServer, admin: httpx.Client, fake_series: FakeSeries
) -> None:
    answers: list[httpx.Response] = []

    def ask() -> None:
        with server.client() as client:
            answers.append(client.get(f"{BASE}/query", params={"query": "m"}))

    threads = [threading.Thread(target=ask) for _ in range(MAX_EVALUATIONS)]
    for thread in threads:
        thread.start()
    assert all(fake_series.asked.acquire(timeout=20.0) for _ in threads)
    assert error(admin.get(f"{BASE}/query", params={"query": "1"})) == (503, "timeout")
    # What needs no evaluation, and everything else, goes on.
    assert data(admin, "metadata", limit=1)
    assert admin.get("/api/v1/queries").status_code == 200
    fake_series.go.set()
    for thread in threads:
        thread.join(20.0)
    assert [answer.status_code for answer in answers] == [200] * MAX_EVALUATIONS
    assert eventually(lambda: admin.get(f"{BASE}/query", params={"query": "1"}).status_code == 200)


def test_an_unavailable_store_is_a_temporary_error(admin: httpx.Client, fake_series: FakeSeries) -> None:
    fake_series.problem = StoreUnavailable("the disk is full")
    fake_series.go.set()
    for path in ("query?query=m", "series?match[]=m"):
        answer = admin.get(f"{BASE}/{path}")
        assert error(answer) == (503, "unavailable")
        assert answer.headers["Retry-After"]


# -- promtool ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def promtool(server: LiveServer) -> Callable[..., str]:
    """Runs `promtool …` against this server, with a viewer's token as password; gives what it prints."""
    program = shutil.which("promtool") or skip_or_fail("promtool", "apt-get install -y prometheus")
    url = server.url.replace("http://", f"http://viewer:{server.token(Role.VIEWER)}@") + "/prometheus"

    def run(*arguments: str, ok: bool = True) -> str:
        command = [program, *(argument.replace("SERVER", url) for argument in arguments)]
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (output.returncode == 0) is ok, output.stderr
        return output.stdout if ok else output.stderr

    return run


def test_promtool_queries_this_server_as_it_finds_it(promtool: Any, orders: SimulatedQuery) -> None:
    selector = f'spark_streaming_batches_total{{query_id="{orders.query_id}"}}'
    assert "=> 2 @[" in promtool("query", "instant", "SERVER", selector)
    assert f'query_id="{orders.query_id}"' in promtool("query", "range", "--step=1s", "SERVER", selector)
    assert orders.query_id in promtool("query", "series", f"--match={selector}", "SERVER")
    assert "orders" in promtool("query", "labels", "SERVER", "query").split()
    output = json.loads(promtool("query", "instant", "--format=json", "SERVER", "vector(1)"))
    assert output[0]["value"][1] == "1"


def test_the_server_is_healthy_and_ready_as_promtool_checks_it(admin: httpx.Client) -> None:
    assert [admin.get(f"/prometheus/-/{path}").status_code for path in ("healthy", "ready")] == [200, 200]


def test_promtool_shows_our_refusals(promtool: Any) -> None:
    output = promtool("query", "instant", "SERVER", "sum(", ok=False)
    assert "bad_data" in output
    assert "parse error" in output


# -- Basic -------------------------------------------------------------------------------------------


def test_a_token_is_taken_as_the_password_of_basic_below_the_neighbours_paths(server: LiveServer) -> None:
    auth = httpx.BasicAuth("anybody", server.admin_token)
    with server.client("") as client:
        for path in ("/prometheus/api/v1/labels", "/alertmanager/api/v2/silences", "/metrics"):
            assert client.get(path, auth=auth).status_code == 200, path
        assert client.get("/api/v1/queries", auth=auth).status_code == 401
        assert client.get("/prometheus/api/v1/labels", auth=("a", "cp_wrong")).status_code == 401


def test_another_site_cannot_write_with_a_password_that_the_browser_repeats(server: LiveServer) -> None:
    alerts = [{"labels": {"alertname": "Forged"}}]
    post = "/alertmanager/api/v2/alerts"
    with server.client("") as client:
        auth, origin = httpx.BasicAuth("anybody", server.admin_token), {"Origin": "http://evil.example"}
        assert client.post(post, json=alerts, auth=auth, headers=origin).status_code == 401
        assert client.post(post, json=alerts, auth=auth).status_code == 200
        query = client.post("/prometheus/api/v1/query", data={"query": "1"}, auth=auth, headers=origin)
        assert query.status_code == 200  # it changes nothing, and Grafana passes the header on


# -- status, federation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "config",
        "flags",
        "runtimeinfo",
        "tsdb",
        "walreplay",
        "../alertmanagers",
        "../targets",
        "../query_exemplars",
    ],
)
def test_what_grafana_and_scripts_ask_for_is_answered(admin: httpx.Client, path: str) -> None:
    answer = admin.get(f"{BASE}/status/{path}" if ".." not in path else f"{BASE}/{path[3:]}")
    assert (answer.status_code, answer.json()["status"]) == (200, "success")


def test_the_current_samples_of_chosen_series_are_federated(
    admin: httpx.Client, orders: SimulatedQuery
) -> None:
    chosen = (
        f'{{query_id="{orders.query_id}",__name__=~"spark_streaming_batch_id|spark_streaming_batches_total"}}'
    )
    answer = admin.get("/prometheus/federate", params={"match[]": [chosen, "controlplane_agents"]})
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        "# TYPE controlplane_agents gauge",
        "# TYPE spark_streaming_batch_id gauge",
        "# TYPE spark_streaming_batches_total counter",
    ]
    (line,) = (line for line in lines if line.startswith("spark_streaming_batches_total{"))
    assert f'query_id="{orders.query_id}"' in line and re.search(r"} 2 \d{13}$", line)
    assert error(admin.get("/prometheus/federate")) == (400, "bad_data")
