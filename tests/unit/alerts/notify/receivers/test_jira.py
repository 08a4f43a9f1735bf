"""Jira: one issue for each group, through its life."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from alerts.errors import ReceiverError
from alerts.notify.receivers.base import dedup_key
from tests.unit.alerts.notify.messages import RESOLVED, message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, receiver, serving

LABEL = f"ALERT{{{dedup_key(message())}}}"
TRANSITIONS = {"Resolve": "done", "Reopen": "new"}


@dataclass
class JiraApi:
    """Issues by key; a project with two transitions."""

    issues: dict[str, dict[str, Any]] = field(default_factory=dict)
    category: dict[str, str] = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)

    def answer(self, request: Request) -> Answer:
        path = request.path.removeprefix("/rest/api/2/")
        if path == "search":
            return self._search(request.json["jql"])
        if path == "issue":
            return self._create(request.json["fields"])
        key, _, rest = path.removeprefix("issue/").partition("/")
        if rest == "transitions":
            return self._transition(request, key)
        self.issues[key] |= request.json["fields"]
        return Answer(204)

    def _search(self, jql: str) -> Answer:
        self.queries.append(jql)
        label = re.search(r'labels="([^"]+)"', jql)
        assert label is not None
        found = [key for key, fields in self.issues.items() if label[1] in fields["labels"]]
        if "statusCategory != Done" in jql:
            found = [key for key in found if self.category[key] != "done"]
        shown = [
            {"key": key, "fields": {"status": {"statusCategory": {"key": self.category[key]}}}}
            for key in found
        ]
        return Answer(200, {"issues": shown})

    def _create(self, fields: dict[str, Any]) -> Answer:
        if fields["project"] != {"key": "OPS"} or any(" " in label for label in fields["labels"]):
            return Answer(400, {"errors": {"project": "valid project is required"}})
        key = f"OPS-{len(self.issues) + 1}"
        self.issues[key], self.category[key] = dict(fields), "new"
        return Answer(201, {"key": key})

    def _transition(self, request: Request, key: str) -> Answer:
        if request.method == "GET":
            return Answer(200, {"transitions": [{"id": name[:3], "name": name} for name in TRANSITIONS]})
        chosen = request.json["transition"]["id"]
        self.category[key] = next(category for name, category in TRANSITIONS.items() if name[:3] == chosen)
        return Answer(204)


SETTINGS = """{{project: OPS, issue_type: Bug, labels: ['spark {{{{ .GroupLabels.app }}}}'],
    fields: {{customfield_1: {{value: '{{{{ .Status }}}}'}}, components: [{{name: x}}]}}, {}}}"""
BOTH = "resolve_transition: Resolve, reopen_transition: Reopen, reopen_duration: 1h"


def test_an_issue_is_created_updated_resolved_and_reopened() -> None:
    server = JiraApi()
    with serving(server.answer) as api:
        jira = receiver("jira", SETTINGS.format(BOTH), f"{{jira_api_url: '{api.url}/rest/api/2/'}}")
        jira.send(message())
        (key,) = server.issues
        created = dict(server.issues[key])
        jira.send(message(RESOLVED))
        assert server.category[key] == "done"
        jira.send(message())
    assert list(server.issues) == [key]
    assert server.category[key] == "new"
    assert created["labels"] == ["spark_shop", LABEL]
    assert created["summary"] == "[FIRING:1] orders (shop) has failed."
    assert created["priority"] == {"name": "High"}
    assert (created["customfield_1"], created["components"]) == ({"value": "firing"}, [{"name": "x"}])
    assert server.issues[key]["issuetype"] == {"name": "Bug"}
    assert "resolutiondate >= -60m" in server.queries[0]


def test_without_reopening_a_new_issue_is_created() -> None:
    server = JiraApi()
    with serving(server.answer) as api:
        jira = receiver(
            "jira",
            SETTINGS.format("resolve_transition: Resolve"),
            f"{{jira_api_url: '{api.url}/rest/api/2'}}",
        )
        for sent in (message(), message(RESOLVED), message()):
            jira.send(sent)
    assert [server.category[key] for key in sorted(server.issues)] == ["done", "new"]


def test_a_resolved_group_without_an_issue_creates_none() -> None:
    server = JiraApi()
    with serving(server.answer) as api:
        receiver("jira", SETTINGS.format(BOTH), f"{{jira_api_url: '{api.url}/rest/api/2'}}").send(
            message(RESOLVED)
        )
    assert server.issues == {}


def test_an_unknown_transition_is_permanent_and_named() -> None:
    server = JiraApi()
    with serving(server.answer) as api:
        jira = receiver(
            "jira", SETTINGS.format("resolve_transition: Gone"), f"{{jira_api_url: '{api.url}/rest/api/2'}}"
        )
        jira.send(message())
        with pytest.raises(ReceiverError, match="no transition 'Gone'") as caught:
            jira.send(message(RESOLVED))
    assert not caught.value.retryable


def test_version_3_gets_rich_text() -> None:
    def v3(request: Request) -> Answer:
        return (
            Answer(200, {"issues": []})
            if request.path.endswith("/search/jql")
            else Answer(201, {"key": "OPS-1"})
        )

    with serving(v3) as api:
        given = SETTINGS.format('api_type: cloud, description: "a\\n\\nb"')
        receiver("jira", given, f"{{jira_api_url: '{api.url}/rest/api/3'}}").send(message())
    description = api.requests[1].json["fields"]["description"]
    assert (description["type"], len(description["content"])) == ("doc", 3)
