"""Jira receiver: one issue for each group of alerts, found again by a label; resolved and reopened by transitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from alerts.errors import ReceiverError
from alerts.notify.configuration.schema import (
    Settings,
    anything,
    boolean,
    duration,
    required,
    template,
    templates,
    text,
)
from alerts.notify.http.fields import http_config, url
from alerts.notify.message import Message
from alerts.notify.receivers.base import (
    IntegrationReceiver,
    ReceiverKind,
    dedup_key,
    shortened,
    without_empty,
)

MAX_SUMMARY, MAX_DESCRIPTION = 255, 32_767
DONE = "done"
SCHEMA = {
    "send_resolved": boolean(True),
    "api_url": url(inherits="jira_api_url", required=True),
    "api_type": text(
        "auto",
        problem=lambda kind: None if kind in ("auto", "cloud", "datacenter") else "auto, cloud or datacenter",
    ),
    "project": required(template()),
    "summary": template('{{ template "jira.default.summary" . }}'),
    "description": template('{{ template "jira.default.description" . }}'),
    "labels": templates(),
    "priority": template('{{ template "jira.default.priority" . }}'),
    "issue_type": required(template()),
    "resolve_transition": template(),
    "reopen_transition": template(),
    "wont_fix_resolution": template(),
    "reopen_duration": duration(),
    "fields": anything(),
    "http_config": http_config(),
}


@dataclass(frozen=True, repr=False)
class Jira(IntegrationReceiver):
    """Creates, updates, resolves and reopens the issue of a group."""

    def send(self, message: Message) -> None:
        """Bring the group's issue up to date. Raises ReceiverError where Jira refuses it."""
        fields = self.integration.rendered(message)
        label = f"ALERT{{{dedup_key(message)}}}"
        found = self._find(fields, label)
        if found is None:
            if message.firing:
                self._call(fields, "issue", issue(fields, label))
            return
        key, is_done = found
        self._call(fields, f"issue/{key}", issue(fields, label, is_new=False), "PUT")
        wanted = (
            ""
            if is_done != bool(message.firing)
            else fields["reopen_transition" if message.firing else "resolve_transition"]
        )
        if wanted:
            self._transition(fields, key, wanted)

    def _find(self, fields: Settings, label: str) -> tuple[str, bool] | None:
        """Key of the group's issue, and whether it is done; None where there is none."""
        search = {"jql": query(fields, label), "fields": ["status"], "maxResults": 2}
        path = "search/jql" if _is_cloud(fields) else "search"
        issues = (self._call(fields, path, search) or {}).get("issues") or []
        if not issues:
            return None
        category = issues[0]["fields"]["status"].get("statusCategory") or {}
        return issues[0]["key"], category.get("key") == DONE

    def _transition(self, fields: Settings, key: str, name: str) -> None:
        path = f"issue/{quote(key, safe='')}/transitions"
        known = (self._call(fields, path, None, "GET") or {}).get("transitions") or []
        found = next((item["id"] for item in known if item.get("name") == name), None)
        if found is None:
            raise ReceiverError(f"Jira has no transition {name!r} for {key}", retryable=False)
        self._call(fields, path, {"transition": {"id": found}})

    def _call(self, fields: Settings, path: str, document: Any, method: str = "POST") -> Any:
        base = fields["api_url"].rstrip("/")
        headers = {"Accept": "application/json", "Accept-Language": "en"}
        return self.integration.http.send(f"{base}/{path}", document, headers, method).document


def query(fields: Settings, label: str) -> str:
    """JQL for the group's issue: open, or closed so recently that it is reopened."""
    conditions = [f"project={_quoted(fields['project'])}", f"labels={_quoted(label)}"]
    if fields["wont_fix_resolution"]:
        conditions.append(f"(resolution is EMPTY or resolution != {_quoted(fields['wont_fix_resolution'])})")
    if not fields["reopen_transition"]:
        conditions.append("statusCategory != Done")
    elif fields["reopen_duration"]:
        minutes = int(fields["reopen_duration"] // 60)
        conditions.append(f"(resolutiondate is EMPTY or resolutiondate >= -{minutes}m)")
    return " and ".join(conditions) + " order by status ASC, resolutiondate DESC"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def issue(fields: Settings, label: str, is_new: bool = True) -> dict[str, Any]:
    """The document that creates or updates an issue."""
    description = shortened(fields["description"], MAX_DESCRIPTION)
    is_v3 = urlsplit(fields["api_url"]).path.rstrip("/").endswith("/3")
    found = {
        "summary": shortened(" ".join(fields["summary"].split()), MAX_SUMMARY),
        "description": rich_text(description) if is_v3 else description,
        "labels": [*(name.replace(" ", "_") for name in fields["labels"] if name), label],
        "priority": {"name": fields["priority"]} if fields["priority"] else None,
        **fields["fields"],
    }
    if is_new:
        found |= {"project": {"key": fields["project"]}, "issuetype": {"name": fields["issue_type"]}}
    return {"fields": without_empty(found)}


def rich_text(text: str) -> dict[str, Any]:
    """A text in Atlassian's document format, which the API v3 wants: a paragraph for each line."""
    paragraphs = [
        {"type": "paragraph", "content": [{"type": "text", "text": line}] if line else []}
        for line in text.splitlines()
    ]
    return {"version": 1, "type": "doc", "content": paragraphs}


def _is_cloud(fields: Settings) -> bool:
    host = urlsplit(fields["api_url"]).hostname or ""
    return fields["api_type"] == "cloud" or (fields["api_type"] == "auto" and host.endswith(".atlassian.net"))


KIND = ReceiverKind(SCHEMA, Jira)
