"""What may have caused the failure of a query: its driver and host, its sources, sink and catalog, the condition. Pure.

Called by `controlplane.incidents.log`; `controlplane.incidents.engine` finds the causes that several failures share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from controlplane.health import terminal_status
from controlplane.health.context import QueryContext
from controlplane.health.driver_status import driver_down
from controlplane.health.failure_catalogue import rule_of
from controlplane.incident_model import Cause, CauseKind, IncidentMember
from controlplane.incidents.engine import QueryFailure
from controlplane.locations import LOCAL_SCHEMES, checkpoint_key, split_location
from controlplane.model import Failure, QueryStatus, QueryView
from controlplane.supervision_model import DesiredState

#: Statuses that make a query a member of an incident.
TROUBLE = frozenset({QueryStatus.FAILED, QueryStatus.LOST, QueryStatus.UNREACHABLE, QueryStatus.STUCK})
#: Statuses in which a member is neither down nor up yet.
UNDECIDED = frozenset({QueryStatus.RESTARTING, QueryStatus.STARTING, QueryStatus.BACKING_OFF})
#: Label of a query with the catalog that it uses: Spark does not report it.
CATALOG_LABEL = "catalog"
MAX_CAUSE_CHARS = 120
_TOPICS = re.compile(r"^KafkaV2\[(Subscribe|Assign)\[(.*)\]\]$")
_LOCATED = re.compile(r"^\w+\[([a-z][a-z0-9+.-]*:/\S*|/\S*)\]$")
_PARTITION = re.compile(r"-\d+$")
_FIGURES = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\d+")


def failure_of(context: QueryContext, status: QueryStatus, since: float, host: str) -> QueryFailure | None:
    """A query that is down since `since`, with its possible causes; None where it is not, or where nobody wants it to run.

    `host`: of its driver, empty where unknown.
    """
    view = context.view
    if status not in TROUBLE or view.supervised.state is not DesiredState.RUNNING:
        return None
    run_id = view.run.run_id if view.run else None
    driver = driver_of(view)
    member = IncidentMember(
        view.query_id, view.app, view.name, run_id, status.value, since, since, driver=driver
    )
    gone = driver if _is_driver_gone(context, status) else ""
    return QueryFailure(member, frozenset(_causes(context, status, gone, host)))


def driver_of(view: QueryView) -> str:
    """The Spark application of a query's driver, which clients of one Spark Connect server share; else its agent."""
    agent = view.agent
    return (agent.app_id or agent.agent) if agent is not None else ""


def uses(view: QueryView, host: str) -> Iterator[Cause]:
    """Host, sources, sink and catalog of a query."""
    if host:
        yield Cause(CauseKind.HOST, host)
    if catalog := view.labels.get(CATALOG_LABEL):
        yield Cause(CauseKind.CATALOG, catalog)
    sample = view.progress[-1] if view.progress else None
    for place in places((sample.sink if sample else "") or view.facts.sink or "", host):
        yield Cause(CauseKind.SINK, place)
    for source in sample.sources if sample else ():
        yield from (Cause(CauseKind.SOURCE, place) for place in places(source.name, host))


def places(description: str, host: str) -> tuple[str, ...]:
    """The topics or the location in Spark's description of a source or sink; nothing where it names none.

    A local path counts for each host.
    """
    if (topics := _TOPICS.match(description)) is not None:
        names = (name.strip() for name in topics.group(2).split(","))
        assigned = topics.group(1) == "Assign"
        return tuple(sorted({f"topic {_PARTITION.sub('', n) if assigned else n}" for n in names if n}))
    if (located := _LOCATED.match(description)) is None:
        return ()
    location = located.group(1)
    scheme, _, path = split_location(location)
    place = f"{path} on {host}" if scheme in LOCAL_SCHEMES and host else checkpoint_key(location, host)
    return (place[:MAX_CAUSE_CHARS],) if place else ()


def _is_driver_gone(context: QueryContext, status: QueryStatus) -> bool:
    silent = status is QueryStatus.LOST and context.active and context.silent
    return silent or status is QueryStatus.UNREACHABLE or driver_down(context) is not None


def _causes(context: QueryContext, status: QueryStatus, driver: str, host: str) -> Iterator[Cause]:
    """A driver that is gone explains its queries; else what the query uses, and the condition of its failure."""
    if driver:
        yield Cause(CauseKind.DRIVER, driver)
    shared = [cause for cause in uses(context.view, host) if cause.kind is not CauseKind.HOST]
    if host and (driver or status is QueryStatus.STUCK):
        yield Cause(CauseKind.HOST, host)
    if driver:
        return
    yield from shared
    if status is QueryStatus.FAILED and (
        value := condition(terminal_status.failure(context), context.view.app)
    ):
        yield Cause(CauseKind.CONDITION, value)


def condition(failure: Failure, app: str) -> str:
    """What failures with one cause share: the condition, else the root cause without its figures; empty if unknown.

    A condition that no restart cures lies in the program or its data, so it counts for each application.
    """
    rule = rule_of(failure.kind)
    known = rule is not None and not rule.vague
    text = failure.kind if known else _FIGURES.sub("#", failure.root_cause or failure.message)
    if not failure.text or failure.change is not None:
        return ""
    own = f" in {app}" if failure.retry == "never" else ""
    return f"{text[:MAX_CAUSE_CHARS]}{own}"
