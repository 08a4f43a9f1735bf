"""WeChat Work receiver: a message of an application, with an access token that is cached."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from alerts.errors import ReceiverError
from alerts.notify.configuration.schema import Settings, boolean, secret, template, text
from alerts.notify.http.client import checked
from alerts.notify.http.fields import http_config, url
from alerts.notify.message import Message
from alerts.notify.receivers.base import IntegrationReceiver, ReceiverKind, shortened_bytes, without_empty

API = "https://qyapi.weixin.qq.com/cgi-bin/"
MAX_BYTES = 2048
#: Error codes: the token is invalid or expired; the service is busy or its frequency limit is reached.
TOKEN_ERRORS, RETRYABLE_ERRORS = frozenset({40014, 41001, 42001}), frozenset({-1, 45009, 45033})
SCHEMA = {
    "send_resolved": boolean(False),
    "api_secret": secret(inherits="wechat_api_secret", required=True),
    "corp_id": text(inherits="wechat_api_corp_id", required=True),
    "api_url": url(inherits="wechat_api_url"),
    "message": template('{{ template "wechat.default.message" . }}'),
    "message_type": text(
        "text", problem=lambda kind: None if kind in ("text", "markdown") else "text or markdown"
    ),
    "agent_id": template('{{ template "wechat.default.agent_id" . }}'),
    "to_user": template('{{ template "wechat.default.to_user" . }}'),
    "to_party": template('{{ template "wechat.default.to_party" . }}'),
    "to_tag": template('{{ template "wechat.default.to_tag" . }}'),
    "http_config": http_config(),
}


@dataclass
class _Token:
    text: str = ""
    until: float = 0.0


@dataclass(frozen=True, repr=False)
class WeChat(IntegrationReceiver):
    """Sends a message to users, parties or tags."""

    token: _Token = field(default_factory=_Token)

    def send(self, message: Message) -> None:
        """Send a message. Raises ReceiverError where WeChat refuses it; it answers 200 to everything."""
        fields = self.integration.rendered(message)
        code, text = self._post(fields)
        if code in TOKEN_ERRORS:
            self.token.until = 0.0
            code, text = self._post(fields)
        if code:
            raise ReceiverError(f"WeChat answered {code}: {text}", code in RETRYABLE_ERRORS)

    def _post(self, fields: Settings) -> tuple[int, str]:
        address = f"{_base(fields)}message/send?{urlencode({'access_token': self._token(fields)})}"
        return _error(self.integration.http.send(address, document(fields)).document)

    def _token(self, fields: Settings) -> str:
        if time.monotonic() >= self.token.until:
            pair = {"corpid": fields["corp_id"], "corpsecret": fields["api_secret"]}
            address = f"{_base(fields)}gettoken?{urlencode(pair)}"
            answer = checked(address, self.integration.http.request("GET", address, b"")).document
            code, text = _error(answer)
            if code:
                raise ReceiverError(f"WeChat answered {code}: {text}", code in RETRYABLE_ERRORS)
            lifetime = float(answer.get("expires_in") or 7200)
            self.token.text, self.token.until = answer["access_token"], time.monotonic() + lifetime - 60
        return self.token.text


def _base(fields: Settings) -> str:
    return (fields["api_url"] or API).rstrip("/") + "/"


def _error(answer: Any) -> tuple[int, str]:
    """Error code and text of an answer; 0: none."""
    if not isinstance(answer, dict):
        return -1, "no JSON document"
    return int(answer.get("errcode") or 0), str(answer.get("errmsg"))[:200]


def document(fields: Settings) -> dict[str, Any]:
    """The JSON document of a message."""
    kind = fields["message_type"]
    return without_empty({
        "touser": fields["to_user"],
        "toparty": fields["to_party"],
        "totag": fields["to_tag"],
        "agentid": fields["agent_id"],
        "msgtype": kind,
        kind: {"content": shortened_bytes(fields["message"], MAX_BYTES)},
        "safe": "0",
    })  # fmt: skip


KIND = ReceiverKind(SCHEMA, WeChat)
