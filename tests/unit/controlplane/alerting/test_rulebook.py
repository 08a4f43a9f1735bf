"""Files of rules and routes become one value, or every mistake in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controlplane.alerting.rulebook import SHIPPED, load, rule_keys
from controlplane.errors import SettingsError
from controlplane.settings import Settings
from tests.unit.controlplane.alerting.parts import groups, rule

RULES = "groups:\n- name: {}\n  rules:\n  - {{alert: A, expr: up == 0}}\n"
NOTIFY = "route: {receiver: team}\nreceivers: [{name: team, webhook_configs: [{url: 'http://h/'}]}]\n"


def written(folder: Path, name: str, text: str | bytes) -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def mistakes(settings: Settings) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load(settings)
    return str(refused.value).splitlines()


def test_without_files_the_shipped_rules_report_one_webhook() -> None:
    book = load(Settings(webhook="http://hook/"))
    assert {group.source for group in book.groups} == {SHIPPED}
    assert [receiver.name for receiver in book.receivers["default"]] == ["default/webhook[0]"]
    assert book.interval == 15.0


def test_without_an_address_nothing_is_sent() -> None:
    assert load(Settings()).receivers == {"default": ()}


def test_shipped_rules_stand_beside_own_ones(tmp_path: Path) -> None:
    own = written(tmp_path, "own.yaml", RULES.format("mine"))
    book = load(Settings(rules=(SHIPPED, own)))
    assert {group.source for group in book.groups} == {SHIPPED, own}


def test_a_smaller_scale_makes_groups_without_an_interval_quicker_and_a_larger_one_does_not() -> None:
    intervals = [load(Settings(rules_scale=scale)).interval for scale in (0.1, 10.0)]
    assert intervals == [pytest.approx(1.5), 15.0]


def test_every_mistake_of_every_file_is_named_with_its_place(tmp_path: Path) -> None:
    bad = written(tmp_path, "bad.yaml", "groups:\n- name: a\n  rules:\n  - {alert: A, expr: 'up ==='}\n")
    latin = written(tmp_path, "latin.yaml", "groups: []  # \xe9\n".encode("latin-1"))
    notify = Path(written(tmp_path, "notify.yaml", "route: {receiver: nobody}\nreceivers: [{name: team}]\n"))
    found = mistakes(Settings(rules=(bad, latin, str(tmp_path / "gone.yaml")), notify=notify))
    assert found[0].startswith(f"{bad}:4:")
    assert found[1] == f"cannot read {latin}: it is not UTF-8 text"
    assert found[2].startswith(f"cannot read {tmp_path / 'gone.yaml'}: No such file")
    assert any(line.startswith(f"{notify}:1:") and "nobody" in line for line in found[3:])


def test_a_file_that_is_given_twice_is_a_mistake(tmp_path: Path) -> None:
    own = written(tmp_path, "own.yaml", RULES.format("mine"))
    assert mistakes(Settings(rules=(own, own))) == [f"two groups are called 'mine' in {own}"]


def test_a_secret_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    text = NOTIFY.replace("url: 'http://h/'", f"url_file: {tmp_path}/secret")
    notify = Path(written(tmp_path, "notify.yaml", text))
    assert mistakes(Settings(notify=notify)) == [f"cannot read {tmp_path}/secret: No such file or directory"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    own = Path(written(tmp_path, "own.yaml", RULES.format("mine")))
    own.chmod(0)
    assert mistakes(Settings(rules=(str(own),))) == [f"cannot read {own}: Permission denied"]


def test_rules_of_one_name_are_numbered_and_others_between_change_nothing() -> None:
    (before,) = groups(rule("A") + rule("A", "up == 1"))
    (after,) = groups(rule("New") + rule("A") + rule("B") + rule("A", "up == 1"))
    assert rule_keys(before) == ("A", "A#2")
    assert rule_keys(after) == ("New", "A", "B", "A#2")
