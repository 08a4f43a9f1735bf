"""Grafana dashboards as code: fleet, query, state and server. `deploy.generate` writes them as JSON.

Every expression uses metrics of the catalogue only; a test evaluates each of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    GraphDrawStyle,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
PREFIX = "spark_streaming_"
TROUBLE = ', status=~"failed|lost|unreachable|stuck|lagging|backing_off"'
HEIGHT, HALF, WHOLE = 8, 12, 24


@dataclass(frozen=True)
class Panel:
    """A panel of `kind`; `queries`: expression -> legend. `unit` is one of Grafana's."""

    title: str
    queries: dict[str, str]
    unit: str = "short"
    kind: str = "lines"
    span: int = HALF
    help: str = ""


def fleet(name: str, more: str = "") -> str:
    """A selector of a query's metric over the chosen applications."""
    return f'{PREFIX}{name}{{app=~"$app"{more}}}'


def query(name: str, more: str = "") -> str:
    """A selector of a metric of the chosen query."""
    return f'{PREFIX}{name}{{app=~"$app", query=~"$query"{more}}}'


def per_query(function: str, selector: str) -> str:
    """The ten queries with the highest value."""
    return f"topk(10, {function} by (app, query) ({selector}))"


def rate(selector: str) -> str:
    """The rate per second of a counter."""
    return f"rate({selector}[$__rate_interval])"


QUERY = "{{app}} / {{query}}"
FLEET = (
    Panel(
        "Queries by status",
        {f"count by (status) ({fleet('query_status')} == 1)": "{{status}}"},
        kind="stat",
        span=WHOLE,
    ),
    Panel(
        "Queries in trouble",
        {f"{fleet('query_status', TROUBLE)} == 1": ""},
        kind="table",
        span=WHOLE,
    ),
    Panel(
        "Statuses",
        {f"count by (status) ({fleet('query_status')} == 1)": "{{status}}"},
        kind="stacked",
    ),
    Panel("Input rate", {f"sum by (app) ({rate(fleet('input_rows_total'))})": "{{app}}"}, "rowsps"),
    Panel(
        "Largest backlogs",
        {per_query("sum", fleet("source_lag_rows")): QUERY},
        "short",
        help="Rows not read yet.",
    ),
    Panel(
        "Oldest backlogs",
        {per_query("max", fleet("source_lag_seconds")): QUERY},
        "s",
        help="Age of the oldest row that is not read yet.",
    ),
    Panel(
        "Highest utilization",
        {per_query("max", fleet("utilization_ratio")): QUERY},
        "percentunit",
        help="Batch duration over the time between triggers. Above 100 % a query cannot keep its trigger interval.",
    ),
    Panel(
        "Starts and failures in an hour",
        {
            f"sum by (app) (increase({fleet('query_starts_total')}[1h]))": "{{app}} starts",
            f"sum by (app) (increase({fleet('query_failures_total')}[1h]))": "{{app}} failures",
        },
    ),
    Panel(
        "Overloaded driver hosts",
        {f"max by (app) ({fleet('driver_host_overloaded')})": "{{app}}"},
        "bool_yes_no",
    ),
    Panel(
        "Time since the last heartbeat",
        {f"time() - max by (app) ({fleet('agent_heartbeat_timestamp_seconds')})": "{{app}}"},
        "s",
    ),
)
QUERY_PANELS = (
    Panel("Status", {f"{query('query_status')} == 1": "{{status}}"}, kind="states", span=WHOLE),
    Panel(
        "Input and processing rate",
        {
            query("input_rows_per_second"): "input",
            query("processed_rows_per_second"): "processing",
            f"sum({query('source_arrival_rows_per_second')})": "arrival",
        },
        "rowsps",
    ),
    Panel(
        "Batch duration",
        {
            query("batch_duration_seconds"): "duration",
            query("trigger_interval_seconds"): "trigger interval",
            query("baseline_batch_duration_seconds", ', quantile="0.9"'): "90 % of past weeks",
        },
        "s",
    ),
    Panel("Phases of a batch", {query("batch_phase_seconds"): "{{phase}}"}, "s", "stacked"),
    Panel("Age of the running batch", {query("batch_age_seconds"): "age"}, "s"),
    Panel(
        "Backlog",
        {query("source_lag_rows"): "{{source}}", query("source_lag_offsets"): "{{source}} (offsets)"},
        help="Rows not read yet. Sources whose offsets do not count rows have offsets only.",
    ),
    Panel(
        "Backlog age",
        {
            query("source_lag_seconds"): "{{source}}",
            query("source_catch_up_seconds"): "{{source}}: time to catch up",
        },
        "s",
    ),
    Panel(
        "Watermark lag",
        {query("watermark_lag_seconds"): "lag", query("watermark_delay_seconds"): "delay"},
        "s",
    ),
    Panel("Failures in an hour", {f"increase({query('query_failures_total')}[1h])": "{{error_class}}"}),
    Panel("Executors", {fleet("executors"): "{{agent}}"}),
    Panel(
        "Driver heap",
        {fleet("driver_heap_bytes"): "{{agent}}", fleet("driver_heap_max_bytes"): "{{agent}} maximum"},
        "bytes",
    ),
)
STATE = (
    Panel("State rows", {query("state_rows"): "{{query}}: {{operator}}"}),
    Panel("State memory", {query("state_memory_bytes"): "{{query}}: {{operator}}"}, "bytes"),
    Panel(
        "State rows written and removed",
        {
            rate(query("state_rows_updated_total")): "{{query}}: {{operator}} written",
            rate(query("state_rows_removed_total")): "{{query}}: {{operator}} removed",
        },
        "rowsps",
    ),
    Panel(
        "Rows dropped as too late",
        {rate(query("state_rows_dropped_by_watermark_total")): "{{query}}: {{operator}}"},
        "rowsps",
    ),
    Panel(
        "Commit time of the state stores",
        {query("state_commit_seconds"): "{{query}}: {{operator}}"},
        "s",
        help="Sum over all tasks of the batch.",
    ),
    Panel(
        "Versions since the oldest snapshot",
        {query("state_snapshot_lag_versions"): "{{query}}: {{operator}}"},
        help="A recovery replays them. Spark 4.0 or newer.",
    ),
    Panel("RocksDB files", {query("rocksdb_sst_files_bytes"): "{{query}}: {{operator}}"}, "bytes"),
    Panel(
        "RocksDB block cache in the last batch",
        {
            query("rocksdb_block_cache_hits"): "{{query}}: {{operator}} hits",
            query("rocksdb_block_cache_misses"): "{{query}}: {{operator}} misses",
        },
    ),
    Panel("Checkpoint size", {query("checkpoint_bytes"): "{{query}}"}, "bytes"),
    Panel("Checkpoint files", {query("checkpoint_files"): "{{query}}"}),
    Panel(
        "Findings of the checkpoint check",
        {f"{query('checkpoint_findings')} > 0": ""},
        kind="table",
        span=WHOLE,
    ),
)
SERVER = (
    Panel(
        "Queries by status", {"max by (status) (controlplane_queries)": "{{status}}"}, kind="stat", span=WHOLE
    ),
    Panel("Active server", {"controlplane_active": "{{instance}}"}, kind="states", span=WHOLE),
    Panel(
        "Events",
        {
            f"sum by (instance) ({rate('controlplane_events_stored_total')})": "{{instance}} stored",
            f"sum by (instance) ({rate('controlplane_events_duplicate_total')})": "{{instance}} duplicate",
            f"sum by (instance) ({rate('controlplane_events_rejected_total')})": "{{instance}} rejected",
        },
        "ops",
    ),
    Panel("Duration of the last commit", {"controlplane_store_commit_seconds": "{{instance}}"}, "s"),
    Panel(
        "Rule evaluations",
        {
            f"sum by (instance) ({rate('controlplane_rule_evaluations_total')})": "{{instance}}",
            f"sum by (instance) ({rate('controlplane_rule_evaluation_failures_total')})": "{{instance}} failed",
        },
        "ops",
    ),
    Panel(
        "Notifications in an hour",
        {
            "sum by (instance) (increase(controlplane_notifications_sent_total[1h]))": "{{instance}} sent",
            "sum by (instance) (increase(controlplane_notifications_failed_total[1h]))": "{{instance}} failed",
        },
    ),
    Panel(
        "Series in memory",
        {
            "controlplane_series": "{{instance}}",
            rate("controlplane_series_refused_total"): "{{instance}} refused/s",
        },
    ),
    Panel(
        "Refusals over a quota in an hour",
        {"sum by (app, quota) (increase(controlplane_quota_refused_total[1h]))": "{{app}}: {{quota}}"},
    ),
    Panel("Duration of the own scrape", {"controlplane_scrape_seconds": "{{instance}}"}, "s"),
    Panel(
        "Agents and open actions", {"controlplane_agents": "agents", "controlplane_open_actions": "actions"}
    ),
    Panel(
        "Events that agents dropped in an hour",
        {f"sum by (app, reason) (increase({PREFIX}agent_events_dropped_total[1h]))": "{{app}}: {{reason}}"},
    ),
    Panel(
        "Longest callback on Spark's listener thread",
        {f"topk(10, {PREFIX}listener_callback_seconds)": "{{app}} {{agent}}"},
        "s",
        help="What the agent costs the driver.",
    ),
)
#: File name -> title, panels, names of the variables.
DASHBOARDS: dict[str, tuple[str, Sequence[Panel], Sequence[str]]] = {
    "fleet": ("Spark streaming: fleet", FLEET, ("app",)),
    "query": ("Spark streaming: query", QUERY_PANELS, ("app", "query")),
    "state": ("Spark streaming: state and checkpoints", STATE, ("app", "query")),
    "server": ("Spark streaming: control plane", SERVER, ()),
}


def as_json(name: str) -> str:
    """A dashboard as Grafana imports it."""
    title, panels, variables = DASHBOARDS[name]
    built = (
        dashboard.Dashboard(title)
        .uid(f"spark-streaming-{name}")
        .tags(["spark", "structured streaming"])
        .time("now-1h" if name == "fleet" else "now-3h", "now")
        .refresh("30s")
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for variable in variables:
        built = built.with_variable(_variable(variable, single=name == "query"))
    for number, panel in enumerate(panels, 1):
        built = built.with_panel(_panel(panel).id(number))
    text = JSONEncoder(sort_keys=True, indent=2).encode(built.build())
    return json.dumps(_without_nulls(json.loads(text)), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _without_nulls(value: Any) -> Any:
    """Grafana takes its default where a field is absent, not where it is null."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _variable(name: str, single: bool) -> Any:
    """`app`, and `query` of the chosen applications."""
    chosen = f'{{app=~"$app"}}, {name}' if name == "query" else f", {name}"
    text = f"label_values({PREFIX}query_up{chosen})"
    variable = (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(SOURCE)
        .query({"query": text, "refId": name})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return variable if single else variable.include_all(True).all_value(".*").multi(True)


def _panel(panel: Panel) -> Any:
    built = _KINDS[panel.kind]().title(panel.title).unit(panel.unit).datasource(SOURCE)
    built = built.height(HEIGHT).span(panel.span)
    if panel.help:
        built = built.description(panel.help)
    for number, (expression, legend) in enumerate(panel.queries.items()):
        target = prometheus.Dataquery().expr(expression).ref_id(chr(ord("A") + number)).legend_format(legend)
        instant = panel.kind in ("stat", "table")
        target = target.instant() if instant else target.range()
        built = built.with_target(target.format(PromQueryFormat.TABLE) if panel.kind == "table" else target)
    return built


def _lines() -> Any:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    return timeseries.Panel().draw_style(GraphDrawStyle.LINE).fill_opacity(0).legend(legend.show_legend(True))


def _stacked() -> Any:
    return _lines().fill_opacity(40).stacking(common.StackingConfig().mode(StackingMode.NORMAL))


def _stat() -> Any:
    return stat.Panel().color_mode(BigValueColorMode.NONE)


_KINDS = {
    "lines": _lines,
    "stacked": _stacked,
    "stat": _stat,
    "table": table.Panel,
    "states": statetimeline.Panel,
}
