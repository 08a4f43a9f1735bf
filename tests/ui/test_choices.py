"""What may be asked, why not, and what would happen."""

import pytest

from tests.ui import factories
from ui.choices import consequences, why_not


@pytest.mark.parametrize(
    ("action", "overrides", "role", "word"),
    [
        ("restart", {}, "operator", None),
        ("stop", {}, "admin", None),
        ("stop", {}, None, None),
        ("restart", {}, "viewer", "viewer"),
        ("start", {}, "operator", "runs already"),
        ("start", {"status": "failed"}, "operator", None),
        ("stop", {"status": "stopped"}, "operator", "does not run"),
        ("restart", {"status": "failed"}, "operator", None),
        ("restart", {"status": "lost"}, "operator", "silent"),
        ("start", {"status": "retired"}, "operator", "retired"),
        ("stop", {"actions_allowed": "none"}, "operator", "forbids all"),
        ("stop", {"actions_allowed": "stop"}, "operator", None),
        ("restart", {"actions_allowed": "stop"}, "operator", "stops only"),
        ("restart", {"restart": {"how": "needs_factory", "reason": "reused"}}, "operator", "reused"),
        ("stop", {"restart": {"how": "needs_factory", "reason": "writer reused"}}, "operator", None),
        ("stop", {"action": {"action": "restart", "actor": "ada"}}, "operator", "asked by ada"),
        ("restart", {"restart": None, "actions_allowed": None}, "operator", None),
    ],
)  # fmt: skip
def test_a_button_is_disabled_with_the_reason(
    action: str, overrides: dict[str, object], role: str | None, word: str | None
) -> None:
    refusal = why_not(action, factories.detail(**overrides), role)
    assert (refusal is None) == (word is None)
    assert word is None or word in str(refusal)


def test_a_restart_says_which_driver_and_after_which_batch() -> None:
    rows = dict(consequences("restart", factories.detail(), drain=False))
    assert rows["Driver"] == "application orders, agent 5f0c8f6e, Spark 4.3.0"
    assert rows["Running batch"].startswith("Is cut off")
    assert rows["Resumes"] == "after batch 1233, from its checkpoint s3://lake/checkpoints/orders"
    assert "same writer" in rows["Started by"]


def test_a_drain_lets_the_batch_finish() -> None:
    rows = dict(consequences("stop", factories.detail(), drain=True))
    assert rows["Running batch"].startswith("Finishes first")
    assert "stays stopped" in rows["Afterwards"]


def test_a_start_of_an_ended_query_cuts_nothing() -> None:
    rows = dict(
        consequences("start", factories.detail(status="failed", batch_id=None, facts={}), drain=False)
    )
    assert "Running batch" not in rows
    assert rows["Resumes"] == "from its checkpoint"
