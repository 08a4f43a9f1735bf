"""Amazon SNS: the form of Publish, its signature, its errors."""

from __future__ import annotations

import hashlib
import hmac
import re
from pathlib import Path

import pytest

from alerts.errors import ReceiverError
from tests.unit.alerts.notify.messages import RESOLVED, message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, problems, receiver, serving

ERROR = "<ErrorResponse xmlns='http://sns.amazonaws.com/doc/2010-03-31/'><Error><Code>{}</Code><Message>m</Message></Error></ErrorResponse>"
PUBLISHED = "<PublishResponse xmlns='http://sns.amazonaws.com/doc/2010-03-31/'><PublishResult><MessageId>1</MessageId></PublishResult></PublishResponse>"


def signature(request: Request, secret: str) -> str:
    """The signature as the service computes it from what arrived."""
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([^,]+), Signature=(\w+)",
        request.headers["authorization"],
    )
    assert found is not None
    names = found[5].split(";")
    assert {"host", "x-amz-date"} <= set(names)
    canonical = "\n".join([
        request.method, request.path, "", "".join(f"{name}:{request.headers[name]}\n" for name in names), found[5],
        hashlib.sha256(request.body).hexdigest(),
    ])  # fmt: skip
    scope = f"{found[2]}/{found[3]}/{found[4]}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{request.headers['x-amz-date']}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    expected = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return "" if expected == found[6] else "SignatureDoesNotMatch"


def service(request: Request) -> Answer:
    if code := signature(request, "secret"):
        return Answer(403, ERROR.format(code))
    form = request.form
    subject = form.get("Subject", "")
    valid = form["Action"] == "Publish" and form["Message"] and len(subject) <= 100 and subject.isascii()
    return Answer(200, PUBLISHED) if valid else Answer(400, ERROR.format("InvalidParameter"))


def settings(
    url: str, more: str = "", topic: str = "arn:aws:sns:eu-west-1:1:team", secret: str = "secret"
) -> str:
    keys = f"sigv4: {{access_key: AKID, secret_key: {secret}}}"
    return f"{{api_url: '{url}/', topic_arn: '{topic}', {keys}{more}}}"


def test_a_message_is_published_to_a_topic_with_a_valid_signature() -> None:
    with serving(service) as api:
        more = ", subject: 'Ünïcode {{ .Status }}', attributes: {severity: '{{ .CommonLabels.severity }}'}"
        receiver("sns", settings(api.url, more)).send(message())
    form = api.requests[0].form
    assert (form["TopicArn"], form["Subject"]) == ("arn:aws:sns:eu-west-1:1:team", "?n?code firing")
    assert form["MessageAttributes.entry.1.Value.StringValue"] == "critical"
    assert "/eu-west-1/sns/" in api.requests[0].headers["authorization"]


def test_a_fifo_topic_keeps_start_and_end_apart() -> None:
    with serving(service) as api:
        sns = receiver("sns", settings(api.url, topic="arn:aws:sns:eu-west-1:1:team.fifo"))
        for sent in (message(), message(), message(RESOLVED)):
            sns.send(sent)
    groups = {request.form["MessageGroupId"] for request in api.requests}
    first, again, end = (request.form["MessageDeduplicationId"] for request in api.requests)
    assert len(groups) == 1
    assert first == again != end


@pytest.mark.parametrize(("code", "retryable"), [("Throttling", True), ("AuthorizationError", False)])
def test_errors_are_permanent_or_pass(code: str, retryable: bool) -> None:
    with serving(service) as api:
        api.failures = [Answer(400, ERROR.format(code))]
        with pytest.raises(ReceiverError, match=code) as caught:
            receiver("sns", settings(api.url)).send(message())
    assert caught.value.retryable is retryable


def test_a_wrong_key_is_permanent() -> None:
    with serving(service) as api, pytest.raises(ReceiverError, match="SignatureDoesNotMatch") as caught:
        receiver("sns", settings(api.url, secret="other")).send(message())
    assert not caught.value.retryable


def test_credentials_come_from_a_profile_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").write_text("[ops]\naws_access_key_id = A\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    with serving(service) as api:
        given = f"{{api_url: '{api.url}/', phone_number: '+1', message: '{'x' * 2000}', sigv4: {{region: r, profile: ops}}}}"
        receiver("sns", given).send(message())
        assert len(api.requests[0].form["Message"]) == 1600
        with pytest.raises(ReceiverError, match="no AWS credentials"):
            receiver("sns", given.replace("ops", "nobody")).send(message())


def test_what_is_missing_is_named() -> None:
    assert "exactly one of topic_arn" in problems("sns", "{}")[0]
    assert "belong together" in problems("sns", "{topic_arn: t, sigv4: {access_key: a}}")[0]
