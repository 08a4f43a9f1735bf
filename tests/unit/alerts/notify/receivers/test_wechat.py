"""WeChat Work's message API."""

from __future__ import annotations

import pytest

from alerts.errors import ReceiverError
from tests.unit.alerts.notify.messages import message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, receiver, serving


class WeChatApi:
    """Answers 200 to everything; `valid` is the token in force."""

    def __init__(self) -> None:
        self.valid, self.code = 0, 0

    def answer(self, request: Request) -> Answer:
        if request.path.startswith("/cgi-bin/gettoken?corpid=c&corpsecret="):
            if not request.path.endswith("=s"):
                return Answer(200, {"errcode": 40001, "errmsg": "invalid credential"})
            self.valid += 1
            return Answer(200, {"errcode": 0, "access_token": f"t{self.valid}", "expires_in": 7200})
        if not request.path.endswith(f"?access_token=t{self.valid}"):
            return Answer(200, {"errcode": 42001, "errmsg": "access_token expired"})
        fits = len(request.json["text"]["content"].encode()) <= 2048
        return Answer(200, {"errcode": self.code if fits else 40058, "errmsg": "…"})


def settings(url: str, secret: str = "s") -> str:
    return f"{{corp_id: c, api_secret: {secret}, api_url: '{url}/cgi-bin/', to_user: '@all', agent_id: '1', message: '{'é' * 3000}'}}"


def test_a_message_is_sent_with_a_token_that_is_kept_and_renewed() -> None:
    server = WeChatApi()
    with serving(server.answer) as api:
        wechat = receiver("wechat", settings(api.url))
        wechat.send(message())
        wechat.send(message())
        assert [request.path.split("?")[0] for request in api.requests].count("/cgi-bin/gettoken") == 1
        server.valid = 7  # the service has dropped the token
        wechat.send(message())
    assert (api.requests[1].json["touser"], api.requests[1].json["msgtype"]) == ("@all", "text")


@pytest.mark.parametrize(("code", "retryable"), [(45009, True), (81013, False)])
def test_errors_are_permanent_or_pass(code: int, retryable: bool) -> None:
    server = WeChatApi()
    server.code = code
    with serving(server.answer) as api, pytest.raises(ReceiverError, match=str(code)) as caught:
        receiver("wechat", settings(api.url)).send(message())
    assert caught.value.retryable is retryable


def test_a_wrong_secret_is_permanent() -> None:
    with serving(WeChatApi().answer) as api, pytest.raises(ReceiverError, match="40001") as caught:
        receiver("wechat", settings(api.url, "wrong")).send(message())
    assert not caught.value.retryable
