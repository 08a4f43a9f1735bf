"""The queue of one receiver: order, retries, limits, what is sent of which series."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cramjam
import numpy as np
import pytest

from alerts.errors import ReceiverError
from alerts.matching.labels import Matcher
from alerts.notify.http.client import HttpClient
from alerts.promql.series import is_stale
from controlplane.metrics.remote_write import sending as module
from controlplane.metrics.remote_write.protocol import WriteRequest
from controlplane.metrics.remote_write.sending import NamedSample, RemoteWriteQueue, RemoteWriteTarget

UP: NamedSample = ("spark_streaming_query_up", {"app": "shop"}, 1.0)
OTHER: NamedSample = ("controlplane_agents", {}, 2.0)


class Receiver(RemoteWriteTarget):
    """Decodes what it gets; `answers` are the errors to raise first."""

    answers: list[ReceiverError]
    requests: list[Any]

    def send(self, body: bytes) -> None:
        if self.answers:
            raise self.answers.pop(0)
        request = WriteRequest()
        request.ParseFromString(bytes(cramjam.snappy.decompress_raw(body)))
        self.requests.append(request)


def receiver(*answers: ReceiverError, **options: Any) -> Receiver:
    found = Receiver("http://receiver/api/v1/write", HttpClient(), **options)
    object.__setattr__(found, "answers", list(answers))
    object.__setattr__(found, "requests", [])
    return found


def queue_to(target: Receiver) -> RemoteWriteQueue:
    found = RemoteWriteQueue(target)
    found._metadata_at = 0.0  # none is due
    return found


def sent(target: Receiver) -> list[tuple[dict[str, str], float, int]]:
    return [
        ({label.name: label.value for label in series.labels}, sample.value, sample.timestamp)
        for request in target.requests
        for series in request.timeseries
        for sample in series.samples
    ]


def drain(queue: RemoteWriteQueue) -> None:
    while queue.send_next() is not None:
        pass


def test_samples_arrive_in_order_with_external_labels() -> None:
    target = receiver(external_labels={"site": "fra", "app": "none"})
    queue = queue_to(target)
    queue.sample([UP], 15.0)
    queue.sample([("spark_streaming_query_up", {"app": "shop"}, 0.0)], 30.0)
    drain(queue)
    labels = {"__name__": "spark_streaming_query_up", "app": "shop", "site": "fra"}
    assert sent(target) == [(labels, 1.0, 15_000), (labels, 0.0, 30_000)]
    assert (queue.stats.sent, queue.stats.pending) == (2, 0)


def test_only_selected_series_are_sent() -> None:
    target = receiver(selectors=((Matcher("__name__", "=~", "spark_.*"), Matcher("app", "=", "shop")),))
    queue = queue_to(target)
    queue.sample([UP, OTHER, ("spark_x", {"app": "bill"}, 1.0)], 15.0)
    drain(queue)
    assert [labels["__name__"] for labels, _, _ in sent(target)] == ["spark_streaming_query_up"]


def test_a_series_that_is_gone_ends_with_one_marker() -> None:
    target = receiver()
    queue = queue_to(target)
    for at, samples in ((15.0, [UP, OTHER]), (30.0, [OTHER]), (45.0, [OTHER])):
        queue.sample(samples, at)
    drain(queue)
    ended = [(at, is_stale(np.array([value]))[0]) for labels, value, at in sent(target) if "app" in labels]
    assert ended == [(15_000, False), (30_000, True)]


@pytest.mark.parametrize(("external", "ended"), [({}, 1), ({"region": "eu"}, 0)])
def test_after_a_reload_nothing_is_lost_and_series_that_went_with_it_end(
    external: dict[str, str], ended: int
) -> None:
    former = queue_to(receiver())
    former.sample([UP, OTHER], 15.0)
    target = receiver(external_labels=external)
    queue = queue_to(target)
    queue.take_over(former)
    assert queue.stats.pending == 2
    queue.sample([OTHER], 30.0)
    drain(queue)
    assert [at for _, _, at in sent(target)][:3] == [15_000, 15_000, 30_000]
    assert sum(bool(is_stale(np.array([value]))[0]) for _, value, _ in sent(target)) == ended


def test_a_receiver_that_is_away_gets_everything_later() -> None:
    target = receiver(ReceiverError("away", retryable=True), ReceiverError("429", True, 429, retry_after=7.0))
    queue = queue_to(target)
    queue.sample([UP], 15.0)
    queue.sample([UP], 30.0)
    assert [queue.send_next(), queue.stats.error] == [1.0, "away"]
    assert queue.send_next() == 7.0
    drain(queue)
    assert [at for _, _, at in sent(target)] == [15_000, 30_000]
    assert (queue.stats.error, queue.stats.dropped) == (None, 0)


def test_what_is_refused_for_good_is_dropped_and_the_next_is_sent() -> None:
    target = receiver(ReceiverError("400 out of order", retryable=False))
    queue = queue_to(target)
    queue.sample([UP], 15.0)
    queue.sample([UP, OTHER], 30.0)
    drain(queue)
    assert ([at for _, _, at in sent(target)], queue.stats.dropped, queue.stats.sent) == ([30_000] * 2, 1, 2)


def test_a_full_queue_drops_the_oldest_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUEUED_BYTES", 300)
    target = receiver()
    queue = queue_to(target)
    for n in range(1, 11):
        queue.sample([UP], 15.0 * n)
    assert queue.stats.dropped + queue.stats.pending == 10
    drain(queue)
    times = [at for _, _, at in sent(target)]
    assert 1 < len(times) < 6 and times == sorted(times) and times[-1] == 150_000


def test_many_series_are_split_and_metadata_comes_once() -> None:
    target = receiver()
    queue = RemoteWriteQueue(target)
    many = [
        ("spark_streaming_query_up", {"n": str(n)}, 1.0) for n in range(module.MAX_SERIES_PER_REQUEST + 1)
    ]
    queue.sample(many, 15.0)
    queue.sample(many, 30.0)
    drain(queue)
    assert [len(request.timeseries) for request in target.requests] == [2000, 1, 0, 2000, 1]
    assert [metric.metric_family_name for metric in target.requests[2].metadata] == [
        "spark_streaming_query_up"
    ]


def test_a_target_is_named_without_its_secrets() -> None:
    target = RemoteWriteTarget("https://user:pass@mimir:9009/api/v1/push?token=x", HttpClient())
    assert target.title == "https://mimir:9009/…"
    assert replace(target, name="mimir").title == "mimir"
