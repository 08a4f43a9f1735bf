"""Bodies of the alerting API: alerts, silences, rules, notifications, replays.

Times are RFC 3339 UTC, durations seconds; null means not known or not yet. A field is added freely and renamed
never.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from controlplane.api.bodies import Body, Number, Person, Stamp, Text

LONGEST_SILENCE = 10 * 365 * 86400.0  # seconds


class Input(BaseModel):
    """What a caller sends: nothing that is not named, nothing of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AcknowledgeRequest(Input):
    comment: Text = ""
    actor: Person | None = None


class SilenceRequest(Input):
    """Either `ends_at` or `duration_seconds`; without `starts_at` it begins now."""

    matchers: str | list[str] = Field(max_length=4096)
    starts_at: str | float | None = None
    ends_at: str | float | None = None
    duration_seconds: float | None = Field(default=None, gt=0, le=LONGEST_SILENCE, allow_inf_nan=False)
    comment: Text = ""
    actor: Person | None = None


class ReplayRequest(Input):
    """`rules` is the text of a rule file."""

    rules: str = Field(max_length=200_000)
    start: str | float
    end: str | float | None = None


class MuterBody(Body):
    fingerprint: str
    name: str


class AcknowledgedBody(Body):
    by: str
    at: str
    comment: str


class NotifiedBody(Body):
    at: str
    receiver: str
    reason: str


class AlertBody(Body):
    """`silenced_by`: ids of silences; `inhibited_by`: the alerts that explain this one."""

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
    inhibited_by: list[MuterBody]
    acknowledged: AcknowledgedBody | None
    receivers: list[str]
    notified: NotifiedBody | None


class AlertCountsBody(Body):
    """`silenced`, `inhibited` and `acknowledged` are among those firing."""

    firing: int
    pending: int
    silenced: int
    inhibited: int
    acknowledged: int


class AlertsBody(Body):
    """Firing first, the worst and newest of them on top. `counts` are of all that `query_id` and `label` select."""

    as_of: str
    counts: AlertCountsBody
    alerts: list[AlertBody]


class PastAlertsBody(Body):
    alerts: list[AlertBody]


class NoteBody(Body):
    """A line of the log of notifications. `reason`: why it was sent or not; `alerts` is a number."""

    at: str
    receiver: str
    group_key: str
    outcome: str
    reason: str
    alerts: int
    fingerprints: list[str]


class NotesBody(Body):
    notifications: list[NoteBody]


class OneAlertBody(Body):
    alert: AlertBody


class AlertDetailBody(OneAlertBody, NotesBody):
    """One alert, and what was told of it."""


class MatcherBody(Body):
    name: str
    operator: str
    value: str


class SilenceBody(Body):
    """`text` is the matchers as one text; `alerts`: how many firing alerts it covers now, 0 once it is over."""

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


class OneSilenceBody(Body):
    silence: SilenceBody


class SilencesBody(Body):
    silences: list[SilenceBody]


class RuleBody(Body):
    name: str
    kind: str
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
    """`missed`: evaluations left out since the server's start."""

    name: str
    key: str
    file: str
    interval_seconds: float
    evaluated_at: Stamp
    evaluation_seconds: Number
    missed: int
    rules: list[RuleBody]


class RulesBody(Body):
    as_of: str
    groups: list[RuleGroupBody]


class EpisodeBody(Body):
    """`resolved_at` null: it still fires at the end."""

    name: str
    group: str
    labels: dict[str, str]
    pending_at: str
    fired_at: str
    resolved_at: Stamp
    value: Number


class ProblemBody(Body):
    rule: str
    error: str
    first_at: str
    count: int


class ReplayBody(Body):
    """`until`: how far the replay came. `notes`: what was done otherwise than asked, in words."""

    episodes: list[EpisodeBody]
    evaluations: int
    errors: list[ProblemBody]
    start: str
    until: str
    notes: list[str]


class RunbookBody(Body):
    """`text` is Markdown, written by us: nothing in it is another's."""

    name: str
    text: str
