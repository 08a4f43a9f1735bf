"""Restart rules: the driver restarts at once only what the server would, too."""

from __future__ import annotations

import pytest

from controlplane.health.failures import explain
from controlplane.supervision.driver_grants import retry_names
from controlplane.supervision.policies import RetryClass
from controlplane.supervision.retries import retry_class
from listeners.protocol.restart_rules import RetryNames, restart_delay
from tests.paths import DATA

TEXTS = {file.stem: file.read_text(encoding="utf-8") for file in sorted((DATA / "failures").glob("*.txt"))}
TEXTS |= {
    "connection": "[STREAM_FAILED] x\nCaused by: java.net.ConnectException: Connection refused",
    "unknown": "java.lang.IllegalStateException: the frobnicator is out of cheese",
    "hidden": "[STREAM_FAILED] Connection refused [CAST_INVALID_INPUT] x",
    "family": "[STATE_STORE_OPERATION_OUT_OF_ORDER] y",
    "sub": "[CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR] y",
}
OVERRIDES = {
    "FOREACH_BATCH_USER_FUNCTION_ERROR": RetryClass.NOW,
    "STATE_STORE_OPERATION_OUT_OF_ORDER": RetryClass.NEVER,
}


@pytest.mark.parametrize("overrides", [{}, OVERRIDES], ids=["catalogue", "overrides"])
@pytest.mark.parametrize("name", TEXTS)
def test_the_driver_retries_nothing_that_the_server_would_not(
    name: str, overrides: dict[str, RetryClass]
) -> None:
    judged = RetryNames.of_document(retry_names(overrides)).judge(TEXTS[name], None)
    ours = retry_class(explain(TEXTS[name]), overrides)
    assert judged.retry != "now" or ours is RetryClass.NOW
    assert ours is not RetryClass.NEVER or judged.retry != "now"


def test_the_classes_of_known_failures() -> None:
    names = RetryNames.of_document(retry_names({}))
    assert names.judge(TEXTS["connection"], "STREAM_FAILED").retry == "now"
    assert names.judge(TEXTS["family"], None) == ("now", "STATE_STORE_OPERATION_OUT_OF_ORDER")
    assert names.judge(TEXTS["hidden"], None) == ("never", "CAST_INVALID_INPUT")
    assert names.judge("", "CAST_INVALID_INPUT").retry == "never"
    assert names.judge(TEXTS["unknown"], None) == ("ask", "unknown")
    with_override = RetryNames.of_document(retry_names(OVERRIDES))
    assert with_override.judge(TEXTS["family"], None).retry == "never"


def test_the_delay_grows_up_to_its_limit() -> None:
    assert [restart_delay(5, 2, 30, 0, n, "q") for n in range(4)] == [5, 10, 20, 30]
    assert restart_delay(5, 2, 30, 0, 10**6, "q") == 30
    assert 4 <= restart_delay(5, 2, 30, 0.2, 0, "q") <= 6
    assert restart_delay(5, 2, 30, 0, 0, "q", least=60) == 60
