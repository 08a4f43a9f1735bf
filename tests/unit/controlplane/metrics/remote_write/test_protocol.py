"""Messages of remote write as bytes: the wire format of the specification, written by hand here."""

from __future__ import annotations

import struct

import cramjam
import numpy as np

from alerts.promql.series import is_stale
from controlplane.metrics.remote_write.protocol import (
    STALE_MARKER,
    WriteRequest,
    encoded_labels,
    write_request,
)
from listeners.protocol.catalogue import BY_NAME


def test_a_request_has_the_bytes_of_the_specification() -> None:
    body = write_request([(encoded_labels({"b": "2", "__name__": "m", "empty": ""}), 1.5)], 1.25)
    name, label = b"\n\x08__name__\x12\x01m", b"\n\x01b\x12\x012"
    sample = b"\x09" + struct.pack("<d", 1.5) + b"\x10\xe2\x09"  # 1250 ms as varint
    series = b"\n%c%s\n%c%s\x12%c%s" % (len(name), name, len(label), label, len(sample), sample)
    assert bytes(cramjam.snappy.decompress_raw(body)) == b"\n%c%s" % (len(series), series)


def test_the_staleness_marker_is_that_of_prometheus() -> None:
    assert struct.pack(">d", STALE_MARKER).hex() == "7ff0000000000002"
    assert is_stale(np.array([STALE_MARKER])).tolist() == [True]
    request = WriteRequest()
    request.ParseFromString(bytes(cramjam.snappy.decompress_raw(write_request([(b"", STALE_MARKER)], 0.0))))
    assert struct.pack(">d", request.timeseries[0].samples[0].value).hex() == "7ff0000000000002"


def test_metadata_names_type_and_help() -> None:
    metric = BY_NAME["spark_streaming_batches_total"]
    request = WriteRequest()
    request.ParseFromString(bytes(cramjam.snappy.decompress_raw(write_request((), 0.0, [metric]))))
    (found,) = request.metadata
    assert (found.type, found.metric_family_name, found.help) == (1, metric.name, metric.help)
