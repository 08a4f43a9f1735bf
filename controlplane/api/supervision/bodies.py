"""Bodies of policies, desired states and the ledger. The conventions are those of `controlplane.api.bodies`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from controlplane.api.bodies import ActionBody, Body, Person, Stamp, Text
from controlplane.supervision.policy_file import MAX_CHARS


class PoliciesRequest(BaseModel):
    """`PUT …/policies`. `text`: the file as YAML."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(max_length=MAX_CHARS)
    reason: Text = ""
    actor: Person | None = None


class DesiredRequest(BaseModel):
    """`PUT …/desired`. `suspended` and `stopped` also stop a running query, `running` starts one that does not run.

    `drain`: the running batch may finish first. `act`: false sets the state alone.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    state: Literal["running", "suspended", "stopped"]
    reason: Text = ""
    actor: Person | None = None
    drain: bool = True
    act: bool = True


class PolicyBody(Body):
    """A policy: `match` as in the file, `restart` with all defaults filled in. `queries`: how many it holds for."""

    name: str
    match: list[str]
    mode: str
    restart: dict[str, Any]
    queries: int


class PolicyVersionBody(Body):
    """A version of the document; 0 is the built-in one."""

    version: int
    applied_at: Stamp
    applied_by: str
    reason: str


class PoliciesBody(Body):
    """The policies in force, in order, as parsed and as text; `history`: the newest versions, newest first."""

    version: int
    applied_at: Stamp
    applied_by: str
    reason: str
    text: str
    policies: list[PolicyBody]
    conditions: dict[str, str]
    history: list[PolicyVersionBody]


class DesiredBody(Body):
    """The desired state; `actor` and `at` are null where nobody has set it."""

    state: str
    actor: str | None
    at: Stamp
    reason: str


class DesiredAnswer(Body):
    """The desired state, and the action that was requested for it; null where the query already is as desired."""

    desired: DesiredBody
    action: ActionBody | None


class HoldBody(Body):
    """A policy in mode `act` has given up: a person is needed."""

    policy: str
    code: str
    why: str
    since: str


class MatchBody(Body):
    """A policy that was compared with the query, and why it matches or does not."""

    policy: str
    matches: bool
    why: str


class NextDecisionBody(Body):
    """What the policy would decide now."""

    decision: str
    code: str
    why: str
    due_at: Stamp


class ExplainBody(Body):
    """Which policy holds for a query, and why. `next` is null while the query is not in trouble.

    `retry`: whether another try helps after its failure. `restarts`: how many of the budget are used.
    """

    query_id: str
    desired: DesiredBody
    policy: PolicyBody | None
    why: str
    compared: list[MatchBody]
    hold: HoldBody | None
    status: str
    retry: str | None
    restarts: int
    next: NextDecisionBody | None


class LedgerEntryBody(Body):
    """A decision, taken (`acted`) or only considered, and its outcome."""

    id: str
    at: str
    query_id: str
    app: str
    name: str | None
    policy: str
    mode: str
    trigger: str
    decision: str
    code: str
    why: str
    acted: bool
    action_id: str | None
    run_id: str | None
    condition: str | None
    inputs: dict[str, Any]
    outcome: str | None
    outcome_at: Stamp
    outcome_why: str
    assessment: str | None


class LedgerFigures(Body):
    """Restarts and pages of the period by what they were worth: helped, useless, wrong, or still open."""

    helped: int
    useless: int
    wrong: int
    open: int


class LedgerBody(Body):
    """Decisions, newest first. `figures`: of all decisions since `since`, by mode."""

    since: str
    entries: list[LedgerEntryBody]
    figures: dict[str, LedgerFigures]
