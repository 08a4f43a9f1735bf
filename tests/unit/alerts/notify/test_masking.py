"""A configuration for display, without its secrets."""

from __future__ import annotations

import pytest

from alerts.notify.catalogue import KINDS
from alerts.notify.global_fields import GLOBAL
from alerts.notify.masking import masked


@pytest.mark.parametrize("name", ["jira_api_url", "opsgenie_api_url"])
def test_user_and_password_of_any_url_are_masked(name: str) -> None:
    assert masked(GLOBAL, {name: "https://bot:hunter2@h.example/a"}) == {name: "https://<secret>@h.example/a"}
    assert masked(GLOBAL, {name: "https://h.example/a@b"}) == {name: "https://h.example/a@b"}


def test_urls_in_lists_and_mappings_are_masked() -> None:
    given = {"fields": [{"value": "see http://u:p@ss@h/"}], "http_config": {"x": {"y": ["http://u@h"]}}}
    assert masked(KINDS["slack_configs"].schema, given) == {
        "fields": [{"value": "see http://<secret>@h/"}],
        "http_config": {"x": {"y": ["http://<secret>@h"]}},
    }
