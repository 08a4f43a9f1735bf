"""The shape of a query at its start: the properties that its checkpoint depends on, as one JSON object.

Sources in order, sink, stateful operators of the analyzed plan, output mode, trigger, and the configuration
that Spark pins. `controlplane preflight` compares shapes to decide whether a changed query will restart. Read
from a running query of a classic session with about a hundred py4j calls (15 ms when warm), on the agent's
own thread, after the start.
"""

from __future__ import annotations

import re
from typing import Any, Callable

from listeners.protocol import redaction
from listeners.spark import operators, plans
from listeners.spark.operators import attempt, columns_of, items, java_map, scala_map, tree_of

VERSION = 1
MAX_ITEMS = 200
#: Options that define what is read and written and how fast; no other option leaves the driver.
OPTIONS = frozenset(
    (
        "path pathglobfilter recursivefilelookup maxfilespertrigger maxbytespertrigger maxfileage latestfirst"
        " filenameonly cleansource multiline mergeschema ignoremissingfiles ignorecorruptfiles"
        " subscribe subscribepattern assign topic startingoffsets startingoffsetsbytimestamp failondataloss"
        " kafka.bootstrap.servers maxoffsetspertrigger minoffsetspertrigger maxtriggerdelay minpartitions"
        " includeheaders groupidprefix rowspersecond rowsperbatch rampuptime numpartitions startingversion"
        " startingtimestamp readchangefeed ignoredeletes ignorechanges skipchangecommits streamname"
        " asyncprogresstrackingenabled asyncprogresstrackingcheckpointintervalms partitionby queryname"
    ).split()
)
PARTITIONS = "spark.sql.shuffle.partitions"
#: Since 4.2 the number in force is a separate setting, not the session's own.
PARTITIONS_IN_FORCE = "spark.sql.streaming.internal.stateStore.partitions"
STREAMING = "spark.sql.streaming."
#: Read by name, because their defaults matter too. Most are pinned in the offset log.
CONFS = (
    PARTITIONS,
    STREAMING + "stateStore.providerClass",
    STREAMING + "multipleWatermarkPolicy",
    STREAMING + "stateStore.stateSchemaCheck",
    STREAMING + "stateStore.encodingFormat",
    STREAMING + "stateStore.checkpointFormatVersion",
    STREAMING + "stateStore.rocksdb.changelogCheckpointing.enabled",
    STREAMING + "stateStore.rocksdb.trackTotalNumberOfRows",
    STREAMING + "offsetLog.formatVersion",
    STREAMING + "queryEvolution.enableSourceEvolution",
    STREAMING + "queryEvolution.enableSinkEvolution",
    STREAMING + "statefulOperator.allowMultiple",
)
#: What a checkpoint pins, read from the session that executes the batches.
PINNED = CONFS[:3]

_WATERMARK = re.compile(r"(?:[0-9a-f-]{36}, )?(\S+)#\d+L?[^,]*: [^,]+, (.+)$")
_NAMED = re.compile(r"name=([A-Za-z0-9_]+)\s*$")
_JAVA_ID = re.compile(r"@[0-9a-f]{4,}\b")
_USER_INFO = re.compile(r"(\w+://)[^/@\s:]+:[^/@\s]+@")
_URL_QUERY = re.compile(r"(\w+://[^\s?]+)\?[^\s,\])]*")
#: Format of a relation → the type in its stream's description.
EXPECTED_TYPES = {"rate": "RateStreamV2", "kafka": "KafkaV2"}
Redact = Callable[[str], str]


def shape_of(query: Any, redact: Redact | None = None) -> dict[str, Any]:
    """The shape of a running query (PySpark's handle or the Java query); None for unknown parts.

    `redact` is applied to every text. Never raises; changes nothing in the query.
    """
    # py4j objects seem to have every attribute, so `__dict__` is read directly.
    jsq = getattr(query, "__dict__", {}).get("_jsq", query)
    execution = _ask(jsq, "streamingQuery") or jsq
    return build_shape(execution, _ask(jsq, "name"), lambda: _sink(execution), redact)


def build_shape(
    execution: Any, name: str | None, sink: Callable[[], dict[str, Any] | None], redact: Redact | None = None
) -> dict[str, Any]:
    """The shape of a StreamExecution, or of what answers like it (`listeners.spark.planned`)."""
    kind, seconds = plans.parse_trigger(attempt(lambda: execution.trigger().toString()))
    found = {
        "v": VERSION,
        "spark": attempt(lambda: str(execution.sparkSession().version())),
        "name": name,
        "sink": attempt(sink),
        "outputMode": attempt(lambda: str(execution.outputMode().toString()).lower()),
        "trigger": {"kind": kind, "seconds": seconds},
        "conf": attempt(lambda: _conf(execution.sparkSession(), CONFS)),
        "settings": attempt(lambda: _settings(execution.sparkSession())),
        "pinned": attempt(lambda: _pinned(execution.sparkSessionForStream())),
        **_of_plan(execution),
    }
    return dict(_redacted(found, redact or _plain_redact))


def _of_plan(execution: Any) -> dict[str, Any]:
    """The parts that the analyzed plan shows; each is None if there is no plan."""
    analyzed = _ask(execution, "analyzedPlan")
    if analyzed is None:
        return dict.fromkeys(("sources", "outputSchema", "operators", "watermarks", "filters"))
    tree = plans.nodes(tree_of(analyzed))
    return {
        "sources": attempt(lambda: _sources(execution, analyzed)),
        "outputSchema": attempt(lambda: [[name, type] for _, name, type in columns_of(analyzed)]),
        "operators": attempt(lambda: operators.operators(execution, analyzed, tree)),
        "watermarks": _watermarks(tree),
        "filters": [plans.digest(plans.strip_ids(n.text)) for n in tree if n.name == "Filter"][:MAX_ITEMS],
    }


def _ask(java: Any, name: str) -> Any:
    def call() -> Any:
        return getattr(java, name)()

    return attempt(call)


def _plain_redact(text: str) -> str:
    return redaction.redact(text, redaction.compile_regex(None))


def _redacted(value: Any, redact: Redact, key: str = "") -> Any:
    if isinstance(value, str):
        text = _URL_QUERY.sub(r"\1", _USER_INFO.sub(r"\1", _JAVA_ID.sub("", value)))
        is_secret = key and redact(f"{key}=x") != f"{key}=x"
        return redaction.REDACTED if is_secret else redact(text)
    if isinstance(value, dict):
        return {name: _redacted(each, redact, name) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted(each, redact) for each in value]
    return value


# -- sources and sink ------------------------------------------------------------------------------


def _sources(execution: Any, analyzed: Any) -> list[dict[str, Any]]:
    """The sources in Spark's order: a source's position is its place in the offset log."""
    leaves = _streaming_leaves(analyzed)
    running = [str(source.toString()) for source in items(execution.sources())]
    if not running:  # not created yet: only the plan describes them
        return [{**_expected(str(leaf.toString())), **_leaf(leaf)} for leaf in leaves]
    from_plan = [_leaf(leaf) for leaf in leaves] if len(leaves) == len(running) else [{} for _ in running]
    return [{**describe(text), **more} for text, more in zip(running, from_plan)]


def _expected(text: str) -> dict[str, Any]:
    """The future description of a source not created yet; its type is None if the plan does not show it."""
    if text.startswith("FileSource["):
        return describe("FileStreamSource" + text[len("FileSource") :])
    return {**describe(text), "type": EXPECTED_TYPES.get(text)}


def describe(text: str) -> dict[str, Any]:
    """A source or sink by its own description, without format, options and name."""
    return {
        "type": text.partition("[")[0].rpartition(".")[2].partition("@")[0][:200],
        "description": text[:500],
        "format": None,
        "options": {},
        "name": None,
    }


def _streaming_leaves(analyzed: Any) -> list[Any]:
    """The streaming relations of the plan, without duplicates: Spark creates one source for each."""
    leaves = [leaf for leaf in items(analyzed.collectLeaves())[:MAX_ITEMS] if leaf.isStreaming()]
    distinct_leaves: list[Any] = []
    for leaf in leaves:
        if not any(leaf.equals(each) for each in distinct_leaves):
            distinct_leaves.append(leaf)
    return distinct_leaves


def _leaf(leaf: Any) -> dict[str, Any]:
    """A relation's format, allowed options and, with source evolution, its name."""
    named = _NAMED.search(tree_of(leaf).strip())
    if leaf.getClass().getSimpleName() == "StreamingRelation":
        source = leaf.dataSource()
        format, options = source.className(), scala_map(source.options())
    else:
        format, options = leaf.sourceName(), java_map(leaf.extraOptions())
    name = named.group(1) if named else None
    return {"format": str(format)[:200], "options": allowed_options(options), "name": name}


def _sink(execution: Any) -> dict[str, Any]:
    sink = execution.sink()
    found = describe(str(sink.toString()))
    found["type"] = re.split(r"[.$]", str(sink.getClass().getName()).rstrip("$"))[-1]
    found["format"] = attempt(lambda: _file_format(sink)) if found["type"] == "FileStreamSink" else None
    found["options"] = (
        attempt(lambda: allowed_options(scala_map(execution.logicalPlan().writeOptions()))) or {}
    )
    return found


def _file_format(sink: Any) -> str:
    field = sink.getClass().getDeclaredField("fileFormat")
    field.setAccessible(True)
    return str(field.get(sink).toString())[:100]


def allowed_options(options: dict[str, str]) -> dict[str, str]:
    """The options that may leave the driver, with their names in lower case."""
    kept = {key.lower(): str(value)[:500] for key, value in options.items() if key.lower() in OPTIONS}
    return dict(sorted(kept.items()))


# -- watermarks and configuration ------------------------------------------------------------------


def _watermarks(tree: list[plans.Node]) -> list[dict[str, Any]]:
    texts = [
        match for node in tree if node.name == "EventTimeWatermark" and (match := _WATERMARK.match(node.text))
    ]
    return [{"column": found.group(1), "delay": found.group(2)} for found in texts]


def _conf(session: Any, names: tuple[str, ...]) -> dict[str, str]:
    """Settings with their defaults; settings that this Spark lacks are left out."""
    conf = session.conf()
    asked = {name: str(conf.getOption(name).toString()) for name in names}
    return {name: text[5:-1] for name, text in asked.items() if text.startswith("Some(")}


def _pinned(session: Any) -> dict[str, str]:
    """The values in force: a checkpoint's own values override the program's."""
    found = _conf(session, (*PINNED, PARTITIONS_IN_FORCE))
    partitions = found.pop(PARTITIONS_IN_FORCE, None)
    return {**found, PARTITIONS: partitions} if partitions else found


def _settings(session: Any) -> dict[str, str]:
    """Every `spark.sql.streaming.*` that the program or its cluster sets."""
    found = scala_map(session.sessionState().conf().getAllConfs())
    return {k: v[:500] for k, v in sorted(found.items()) if k.startswith(STREAMING)}
