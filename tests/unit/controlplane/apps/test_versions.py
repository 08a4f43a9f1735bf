"""Tests of versions: identity, what follows on what, which one a start takes, and why one is not rolled back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.apps import versions
from controlplane.apps.model import (
    AppSpec,
    AppVersion,
    NewAppAction,
    StartedDriver,
    VersionSource,
    driver_from_json,
)
from controlplane.errors import Conflict

OLD = AppSpec("billing", "process", {"command": ["v6"]}, "6", environment={"KEY": "hunter2"})
NEW = replace(OLD, launcher={"command": ["v7"]}, version="7", environment={"KEY": "hunter3"})
HEALTHY = AppVersion(OLD.to_json(), 0.0, healthy_at=50.0)
CRASHING = versions.version_of(HEALTHY, NEW, VersionSource.DECLARED, 100.0)
BY_POLICY = NewAppAction("start", "policy:p", "policy", by_policy=True)
ROLLBACK = replace(BY_POLICY, rollback_of=versions.fingerprint(NEW.to_json()))


def driver(version: AppVersion | None) -> StartedDriver:
    return StartedDriver("billing", "l1", "process", {}, "7", 100.0, "ada", version_record=version)


def test_a_version_is_what_reaches_the_driver() -> None:
    known = versions.fingerprint(OLD.to_json())
    assert versions.fingerprint(replace(OLD, policy="p", grace_seconds=1.0).to_json()) == known
    assert versions.fingerprint(replace(OLD, environment={"KEY": "other"}).to_json()) != known


def test_a_version_remembers_the_last_healthy_one() -> None:
    assert CRASHING.earlier == OLD.to_json()
    third = versions.version_of(CRASHING, replace(NEW, version="8"), VersionSource.DECLARED, 200.0)
    assert third.earlier == OLD.to_json(), "version 7 was never healthy"
    again = versions.version_of(CRASHING, NEW, VersionSource.DECLARED, 300.0)
    assert again == CRASHING
    assert driver_from_json(driver(CRASHING).to_json()) == driver(CRASHING)


def test_a_policy_goes_on_with_what_it_rolled_back_to_until_something_else_is_declared() -> None:
    new, crashed = NEW.to_json(), driver(CRASHING)
    assert versions.source_of(ROLLBACK, new, crashed) is VersionSource.EARLIER
    assert versions.spec_to_start(NEW, VersionSource.EARLIER, crashed) == OLD
    back = versions.version_of(CRASHING, OLD, VersionSource.EARLIER, 200.0)
    assert versions.source_of(BY_POLICY, new, driver(back)) is VersionSource.RUNNING
    assert versions.spec_to_start(NEW, VersionSource.RUNNING, driver(back)) == OLD
    kept = versions.version_of(back, OLD, VersionSource.RUNNING, 300.0)
    assert kept == back
    declared = replace(NEW, version="8")
    assert versions.source_of(BY_POLICY, declared.to_json(), driver(back)) is VersionSource.DECLARED
    person = replace(BY_POLICY, actor="ada", by_policy=False)
    assert versions.source_of(person, new, driver(back)) is VersionSource.DECLARED
    again = versions.version_of(back, NEW, VersionSource.DECLARED, 400.0)
    assert "rolled back once" in str(versions.rollback_refusal(again, new))


def test_a_version_that_is_declared_no_more_is_not_rolled_back() -> None:
    with pytest.raises(Conflict):
        versions.source_of(ROLLBACK, replace(NEW, version="8").to_json(), driver(CRASHING))
    assert "not started yet" in str(versions.rollback_refusal(CRASHING, replace(NEW, version="8").to_json()))


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (CRASHING, None),
        (replace(CRASHING, earlier=None), "no earlier version"),
        (replace(CRASHING, earlier={**OLD.to_json(), "kind": "kubernetes"}), "of kind kubernetes"),
    ],
)
def test_a_refusal_names_its_reason(version: AppVersion, why: str | None) -> None:
    found = versions.rollback_refusal(version, NEW.to_json())
    assert found is None if why is None else why in str(found)


def test_differences_name_settings_and_no_value_of_the_environment() -> None:
    assert list(versions.differences(OLD.to_json(), NEW.to_json())) == [
        "version 6 → 7",
        "launcher: command",
        "env: KEY",
    ]
