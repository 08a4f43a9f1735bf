"""Request and response bodies of alerts, silences, rules, notifications and replays.

Times are RFC 3339 UTC, durations are in seconds, null means unknown or not yet. Fields may be added but not renamed.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from controlplane.api.bodies import Body, Number, Person, Stamp, Text

MAX_SILENCE_SECONDS = 10 * 365 * 86400.0  # seconds


class Input(BaseModel):
    """Base of the request bodies: rejects unknown fields and other types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AcknowledgeRequest(Input):
    """`POST …/acknowledge`."""

    comment: Text = ""
    actor: Person | None = None


class TrialRequest(Input):
    """`POST /receivers/try`."""

    receiver: Text
    actor: Person | None = None


class SilenceRequest(Input):
    """A new silence: either `ends_at` or `duration_seconds`; without `starts_at` it begins now."""

    matchers: str | list[str] = Field(max_length=4096)
    starts_at: str | float | None = None
    ends_at: str | float | None = None
    duration_seconds: float | None = Field(default=None, gt=0, le=MAX_SILENCE_SECONDS, allow_inf_nan=False)
    comment: Text = ""
    actor: Person | None = None


class ReplayRequest(Input):
    """`rules`: the text of a rule file."""

    rules: str = Field(max_length=200_000)
    start: str | float
    end: str | float | None = None


class InhibitorBody(Body):
    """An alert that inhibits another."""

    fingerprint: str
    name: str


class AcknowledgedBody(Body):
    """Who acknowledged an alert, when, and the comment."""

    by: str
    at: str
    comment: str


class NotifiedBody(Body):
    """The last notification about an alert; `reason`: why it was sent."""

    at: str
    receiver: str
    reason: str


class AlertBody(Body):
    """An alert. `silenced_by`: ids of silences; `inhibited_by`: the alerts that inhibit it.

    `deliverable`: whether one of its receivers has a webhook.
    """

    fingerprint: str
    name: str
    state: str
    severity: str
    labels: dict[str, str]
    annotations: dict[str, str]
    value: Number
    app: str | None
    query: str | None
    query_id: str | None
    group: str
    rule: str
    active_at: str
    fired_at: Stamp
    resolved_at: Stamp
    reason: str
    silenced_by: list[str]
    inhibited_by: list[InhibitorBody]
    acknowledged: AcknowledgedBody | None
    receivers: list[str]
    deliverable: bool
    notified: NotifiedBody | None


class AlertCountsBody(Body):
    """Numbers of alerts; `silenced`, `inhibited` and `acknowledged` count firing alerts."""

    firing: int
    pending: int
    silenced: int
    inhibited: int
    acknowledged: int


class AlertsBody(Body):
    """Alerts, firing first, then by severity and time. `counts`: of all alerts selected by `query_id` and `label`."""

    as_of: str
    counts: AlertCountsBody
    alerts: list[AlertBody]


class PastAlertsBody(Body):
    """Alerts that fired, newest first."""

    alerts: list[AlertBody]


class RuleStatisticsBody(Body):
    """Firings of a rule in a period. `useless`: not acknowledged, and over by themselves within the group interval."""

    rule: str
    severity: str
    firings: int
    queries: int
    firing_now: int
    total_seconds: float
    median_seconds: float | None
    acknowledged: int
    useless: int
    advice: str


class AlertStatisticsBody(Body):
    """Firings by rule, most useless ones first."""

    rules: list[RuleStatisticsBody]


class NoteBody(Body):
    """A notification. `reason`: why it was sent or not; `alerts`: number of alerts in it."""

    at: str
    receiver: str
    group_key: str
    outcome: str
    reason: str
    alerts: int
    fingerprints: list[str]


class NotesBody(Body):
    """Notifications, newest first."""

    notifications: list[NoteBody]


class IntegrationBody(Body):
    """A webhook of a receiver. `failing_since` and `error`: set while its last delivery failed."""

    name: str
    failing_since: Stamp
    error: str | None


class ReceiverBody(Body):
    """A receiver. `routed`: a route leads to it. Without integrations it delivers nothing."""

    name: str
    routed: bool
    integrations: list[IntegrationBody]


class DeliveryProblemBody(Body):
    """Why notifications are not delivered, and how to change it."""

    summary: str
    remedy: str


class ReceiversBody(Body):
    """The configured receivers. `problem`: null where notifications are delivered."""

    problem: DeliveryProblemBody | None
    receivers: list[ReceiverBody]


class TrialResultBody(Body):
    """Outcome of a trial notification at one integration. `error`: null where the service accepted it."""

    name: str
    delivered: bool
    error: str | None


class TrialBody(Body):
    """Outcome of a trial notification at each integration of a receiver."""

    receiver: str
    integrations: list[TrialResultBody]


class OneAlertBody(Body):
    """A single alert."""

    alert: AlertBody


class AlertDetailBody(OneAlertBody, NotesBody):
    """An alert with its notifications."""


class MatcherBody(Body):
    """A label matcher; `operator` is `=`, `!=`, `=~` or `!~`."""

    name: str
    operator: str
    value: str


class SilenceBody(Body):
    """A silence. `text`: the matchers as text; `alerts`: number of firing alerts it silences now, 0 once it has ended.

    `alertmanager`: the Alertmanager that has it, where it is not of this server; it silences notifications there only.
    """

    id: str
    matchers: list[MatcherBody]
    text: str
    starts_at: str
    ends_at: str
    created_by: str
    comment: str
    state: str
    updated_at: str
    alerts: int
    alertmanager: str | None = None


class OneSilenceBody(Body):
    """A single silence."""

    silence: SilenceBody


class SilencesBody(Body):
    """Silences, newest first."""

    silences: list[SilenceBody]


class RuleBody(Body):
    """A rule with its state and its last evaluation. `meaning`: of a rule of the shipped pack, in plain English."""

    name: str
    kind: str
    meaning: str
    expr: str
    for_seconds: float
    keep_firing_for_seconds: float
    labels: dict[str, str]
    annotations: dict[str, str]
    line: int
    state: str
    firing: int
    pending: int
    health: str
    error: str | None
    evaluated_at: Stamp
    evaluation_seconds: Number


class RuleGroupBody(Body):
    """A rule group. `missed`: evaluations skipped since the server's start."""

    name: str
    key: str
    file: str
    interval_seconds: float
    evaluated_at: Stamp
    evaluation_seconds: Number
    missed: int
    rules: list[RuleBody]


class RulesBody(Body):
    """Rule groups with their rules."""

    as_of: str
    groups: list[RuleGroupBody]


class EpisodeBody(Body):
    """An alert of a replay; `resolved_at` null: it still fires at the end."""

    name: str
    group: str
    labels: dict[str, str]
    pending_at: str
    fired_at: str
    resolved_at: Stamp
    value: Number


class ProblemBody(Body):
    """An evaluation error of a rule during a replay."""

    rule: str
    error: str
    first_at: str
    count: int


class ReplayBody(Body):
    """`until`: the time up to which rules were replayed. `notes`: deviations from the request, as sentences."""

    episodes: list[EpisodeBody]
    evaluations: int
    errors: list[ProblemBody]
    start: str
    until: str
    notes: list[str]


class RunbookBody(Body):
    """A runbook; `text` is trusted Markdown that ships with the server."""

    name: str
    text: str
