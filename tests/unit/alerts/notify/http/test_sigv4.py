"""The signature of AWS' own published example."""

from __future__ import annotations

from datetime import UTC, datetime

from alerts.notify.http.sigv4 import AwsCredentials, sign


def test_the_example_of_the_documentation_has_the_published_signature() -> None:
    """ "Create a signed AWS API request" of the IAM user guide: ListUsers on 2015-08-30."""
    credentials = AwsCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    url = "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08"
    now = datetime(2015, 8, 30, 12, 36, 0, tzinfo=UTC)
    signed = sign("GET", url, headers, b"", credentials, "us-east-1", "iam", now)
    expected = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    assert signed["authorization"].endswith(f"Signature={expected}")
    assert "SignedHeaders=content-type;host;x-amz-date" in signed["authorization"]
