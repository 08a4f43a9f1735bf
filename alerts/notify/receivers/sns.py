"""Amazon SNS receiver: `Publish` to a topic, an endpoint or a telephone number, signed with Signature Version 4."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode
from xml.etree import ElementTree

from alerts.errors import ReceiverError
from alerts.notify.configuration.schema import (
    Settings,
    boolean,
    mapping,
    secret,
    template,
    template_pairs,
    text,
)
from alerts.notify.http.client import HttpResponse, checked
from alerts.notify.http.fields import http_config
from alerts.notify.http.sigv4 import AwsCredentials, find_credentials, sign
from alerts.notify.message import Message
from alerts.notify.receivers.base import (
    IntegrationReceiver,
    ReceiverKind,
    dedup_key,
    shortened,
    shortened_bytes,
    without_empty,
)

MAX_BYTES, MAX_SMS, MAX_SUBJECT = 256_000, 1600, 100
#: Error codes of AWS that pass by themselves, with status 400.
RETRYABLE_CODES = frozenset("Throttling ThrottledException ThrottlingException RequestLimitExceeded".split())
_SIGV4 = {
    "region": text(),
    "access_key": text(),
    "secret_key": secret(),
    "profile": text(),
    "role_arn": text(),
    "external_id": text(),
}
SCHEMA = {
    "send_resolved": boolean(True),
    "api_url": template(),
    "sigv4": mapping(_SIGV4),
    "topic_arn": template(),
    "phone_number": template(),
    "target_arn": template(),
    "subject": template('{{ template "sns.default.subject" . }}'),
    "message": template('{{ template "sns.default.message" . }}'),
    "attributes": template_pairs(),
    "http_config": http_config(),
}


@dataclass(frozen=True, repr=False)
class Sns(IntegrationReceiver):
    """Publishes a message."""

    def send(self, message: Message) -> None:
        """Publish a message. Raises ReceiverError where AWS refuses it or no credentials are found."""
        fields = self.integration.rendered(message)
        keys = fields["sigv4"] or dict.fromkeys(_SIGV4, "")
        region = _region(fields, keys)
        if not region:
            raise ReceiverError("sigv4.region is not set, and neither is AWS_REGION", retryable=False)
        credentials = self._credentials(keys, region)
        address = fields["api_url"] or f"https://sns.{region}.amazonaws.com/"
        check(address, self._post(address, form(fields, message), credentials, region, "sns"))

    def _post(
        self, url: str, form: dict[str, str], credentials: AwsCredentials, region: str, service: str
    ) -> HttpResponse:
        body = urlencode(form).encode(errors="replace")
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        signed = sign("POST", url, headers, body, credentials, region, service, datetime.now(UTC))
        return self.integration.http.request(
            "POST", url, body, {name: v for name, v in signed.items() if name != "host"}
        )

    def _credentials(self, keys: Settings, region: str) -> AwsCredentials:
        own = AwsCredentials(keys["access_key"], keys["secret_key"]) if keys["access_key"] else None
        found = own or find_credentials(keys["profile"])
        if found is None:
            raise ReceiverError("no AWS credentials: set sigv4 or AWS_ACCESS_KEY_ID", retryable=False)
        return self._assumed(keys, region, found) if keys["role_arn"] else found

    def _assumed(self, keys: Settings, region: str, own: AwsCredentials) -> AwsCredentials:
        """Temporary credentials of a role."""
        form = without_empty({
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": keys["role_arn"],
            "RoleSessionName": "spark-controlplane",
            "ExternalId": keys["external_id"],
        })  # fmt: skip
        address = f"https://sts.{region}.amazonaws.com/"
        response = self._post(address, form, own, region, "sts")
        check(address, response)
        found = {
            name: _element(response, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")
        }
        return AwsCredentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])


def _region(fields: Settings, keys: Settings) -> str:
    """The configured region, or that of the topic's ARN, or of the environment."""
    arn = re.match(r"arn:[^:]+:sns:([^:]+):", fields["topic_arn"])
    return keys["region"] or (arn[1] if arn else "") or os.environ.get("AWS_REGION", "")


def form(fields: Settings, message: Message) -> dict[str, str]:
    """The form of `Publish`."""
    text = fields["message"]
    bounded = shortened(text, MAX_SMS) if fields["phone_number"] else shortened_bytes(text, MAX_BYTES)
    found = {
        "Action": "Publish",
        "Version": "2010-03-31",
        "TopicArn": fields["topic_arn"],
        "TargetArn": fields["target_arn"],
        "PhoneNumber": fields["phone_number"],
        "Subject": _subject(fields["subject"]),
        "Message": bounded or "(no details)",
    }
    if fields["topic_arn"].endswith(".fifo"):
        # Equal messages of a group within five minutes are one; its end differs from its start.
        own = hashlib.sha256(f"{message.group_key}\n{bounded}".encode(errors="replace")).hexdigest()
        found |= {"MessageGroupId": dedup_key(message), "MessageDeduplicationId": own}
    attributes = {**fields["attributes"], **({"truncated": "true"} if bounded != text else {})}
    for number, (name, value) in enumerate(attributes.items(), start=1):
        entry = f"MessageAttributes.entry.{number}"
        found |= {
            f"{entry}.Name": name,
            f"{entry}.Value.DataType": "String",
            f"{entry}.Value.StringValue": value,
        }
    return without_empty(found)


def _subject(text: str) -> str:
    """A subject that SNS accepts: printable ASCII, at most 100 characters."""
    line = "".join(char if " " <= char <= "~" else "?" for char in " ".join(text.split()))
    return line[:MAX_SUBJECT]


def check(url: str, response: HttpResponse) -> None:
    """Raise ReceiverError where AWS answers with an error."""
    if code := _element(response, "Code") if response.status >= 400 else "":
        retryable = response.status >= 500 or code in RETRYABLE_CODES
        text = f"AWS answered {response.status} {code}: {_element(response, 'Message')[:200]}"
        raise ReceiverError(text, retryable, response.status)
    checked(url, response)


def _element(response: HttpResponse, name: str) -> str:
    """Text of the first XML element of a name; empty where there is none."""
    try:
        root = ElementTree.fromstring(response.body)
    except ElementTree.ParseError:
        return ""
    return next((element.text or "" for element in root.iter() if element.tag.rpartition("}")[2] == name), "")


def problem(settings: Settings) -> str | None:
    """Why the settings are incomplete."""
    if sum(bool(settings[name]) for name in ("topic_arn", "target_arn", "phone_number")) != 1:
        return "exactly one of topic_arn, target_arn and phone_number must be set"
    keys = settings["sigv4"]
    if keys is not None and bool(keys["access_key"]) != bool(keys["secret_key"]):
        return "sigv4: access_key and secret_key belong together"
    return None


KIND = ReceiverKind(SCHEMA, Sns, problem)
