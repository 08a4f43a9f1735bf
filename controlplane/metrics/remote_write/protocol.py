"""Messages of Prometheus' remote-write protocol 1.0, as protobuf compressed with snappy. Pure.

The classes are made by the protobuf library from the descriptor below, which has the names and numbers of the
protocol's specification.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import cramjam
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from listeners.protocol.catalogue import Metric

HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
#: The value that ends a series: a NaN with these bits.
STALE_MARKER = struct.unpack("<d", (0x7FF0000000000002).to_bytes(8, "little"))[0]
_PACKAGE = "prometheus"
_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {"string": _FIELD.TYPE_STRING, "double": _FIELD.TYPE_DOUBLE, "int64": _FIELD.TYPE_INT64}
#: Message -> field -> number, type, whether it repeats. A type that is no scalar is a message, or the enum Type.
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str, bool]]] = {
    "Label": {"name": (1, "string", False), "value": (2, "string", False)},
    "Sample": {"value": (1, "double", False), "timestamp": (2, "int64", False)},
    "TimeSeries": {"labels": (1, "Label", True), "samples": (2, "Sample", True)},
    "MetricMetadata": {
        "type": (1, "Type", False),
        "metric_family_name": (2, "string", False),
        "help": (4, "string", False),
        "unit": (5, "string", False),
    },
    "WriteRequest": {"timeseries": (1, "TimeSeries", True), "metadata": (3, "MetricMetadata", True)},
}
_METRIC_TYPES = ("UNKNOWN", "COUNTER", "GAUGE", "HISTOGRAM", "GAUGEHISTOGRAM", "SUMMARY", "INFO", "STATESET")


def _descriptor() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="remote_write.proto", package=_PACKAGE, syntax="proto3")
    kinds = file.enum_type.add(name="Type")
    for number, name in enumerate(_METRIC_TYPES):
        kinds.value.add(name=name, number=number)
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, kind, repeats) in fields.items():
            label = _FIELD.LABEL_REPEATED if repeats else _FIELD.LABEL_OPTIONAL
            field = described.field.add(name=name, number=number, label=label)
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type = _FIELD.TYPE_ENUM if kind == "Type" else _FIELD.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
    return file


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_descriptor())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


WriteRequest, TimeSeries = _message("WriteRequest"), _message("TimeSeries")


def encoded_labels(labels: Mapping[str, str]) -> bytes:
    """A series without samples; its labels are sorted, as receivers require."""
    pairs = [{"name": name, "value": value} for name, value in sorted(labels.items()) if value]
    return bytes(TimeSeries(labels=pairs).SerializeToString())


def write_request(
    samples: Iterable[tuple[bytes, float]], at: float, metadata: Iterable[Metric] = ()
) -> bytes:
    """The body of a request with one sample a series at `at` (Unix seconds). `samples`: encoded labels and value."""
    request, timestamp = WriteRequest(), round(at * 1000)
    for labels, value in samples:
        series = request.timeseries.add()
        series.MergeFromString(labels)
        series.samples.add(value=value, timestamp=timestamp)
    for metric in metadata:
        kind = _METRIC_TYPES.index(metric.type.upper()) if metric.type.upper() in _METRIC_TYPES else 0
        request.metadata.add(type=kind, metric_family_name=metric.name, help=metric.help, unit=metric.unit)
    return bytes(cramjam.snappy.compress_raw(request.SerializeToString()))
