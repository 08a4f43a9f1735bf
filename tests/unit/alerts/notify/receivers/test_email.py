"""E-mail, through a real SMTP server."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from alerts.errors import ReceiverError
from tests.ports import free_port
from tests.unit.alerts.notify.messages import RESOLVED, message
from tests.unit.alerts.notify.receivers.fakes import problems, receiver


class Mailbox:
    """Keeps what arrives; refuses the recipient nobody@ and, with `busy`, everything for now."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.sessions: list[Any] = []
        self.busy = False

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.busy:
            return "451 4.3.0 try again later"
        if address.startswith("nobody@"):
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        self.recipients.append(list(envelope.rcpt_tos))
        self.sessions.append(session)
        return "250 accepted"


def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    valid = isinstance(data, LoginPassword) and data == LoginPassword(b"user", b"pass")
    return AuthResult(success=valid, handled=False)


@contextmanager
def mail_server(**given: Any) -> Iterator[tuple[Mailbox, int]]:
    mailbox, port = Mailbox(), free_port()
    controller = Controller(mailbox, hostname="127.0.0.1", port=port, **given)
    controller.start()
    try:
        yield mailbox, port
    finally:
        controller.stop()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """A server's context for 127.0.0.1, and its certificate."""
    folder = tmp_path_factory.mktemp("tls")
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    keys = ("-newkey", "rsa:2048", "-keyout", folder / "key.pem", "-out", folder / "cert.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-nodes", "-days", "2", *keys, *subject], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context, folder / "cert.pem"


def settings(port: int, more: str = "", to: str = "ann@example.org") -> str:
    return f"{{to: '{to}', from: 'Control <control@example.org>', smarthost: '127.0.0.1:{port}'{more}}}"


def body(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert isinstance(part, EmailMessage)
    return str(part.get_content())


def test_a_mail_has_a_text_and_an_html_form() -> None:
    with mail_server() as (mailbox, port):
        more = ", require_tls: false, headers: {X-Team: '{{ .GroupLabels.app }}'}, threading: {enabled: true}"
        receiver("email", settings(port, more, "Ann <ann@example.org>, bob@example.org")).send(message())
        (mail,) = mailbox.mails
    assert mailbox.recipients == [["ann@example.org", "bob@example.org"]]
    assert (mail["Subject"], mail["X-Team"]) == ("[FIRING:1] orders (shop) has failed.", "shop")
    assert mail["From"] == "Control <control@example.org>"
    assert mail["Date"] and mail["Message-Id"].endswith("@example.org>") and mail["References"]
    assert "Silence: http://control.example" in body(mail, "plain")
    html = body(mail, "html")
    assert '<a href="http://control.example/runbook?name=QueryFailed.md">Runbook</a>' in html
    assert "&lt;b&gt;an&lt;/b&gt;" in html


def test_a_subject_of_its_own_is_one_line() -> None:
    with mail_server() as (mailbox, port):
        more = (
            ", require_tls: false, html: '', headers: {subject: \"a {{ .Status }}\\r\\nBcc: x@example.org\"}"
        )
        receiver("email", settings(port, more)).send(message(RESOLVED))
        (mail,) = mailbox.mails
    assert mail["Subject"] == "a resolved Bcc: x@example.org"
    assert mail["Bcc"] is None
    assert mail.get_content_type() == "text/plain"


def test_tls_and_a_password_are_used(certificate: tuple[ssl.SSLContext, Path]) -> None:
    context, path = certificate
    with mail_server(
        tls_context=context, require_starttls=True, authenticator=authenticate, auth_required=True
    ) as (mailbox, port):
        more = f", tls_config: {{ca_file: {path}}}, auth_username: user, auth_password: "
        receiver("email", settings(port, more + "pass")).send(message())
        assert mailbox.sessions[0].authenticated
        assert mailbox.sessions[0].ssl is not None
        with pytest.raises(ReceiverError, match="535") as caught:
            receiver("email", settings(port, more + "wrong")).send(message())
        assert not caught.value.retryable
        with pytest.raises(ReceiverError, match=r"(?i)certificate"):
            receiver("email", settings(port, ", auth_username: user, auth_password: pass")).send(message())


def test_tls_from_the_start_is_used_where_it_is_asked_for(certificate: tuple[ssl.SSLContext, Path]) -> None:
    context, path = certificate
    with mail_server(ssl_context=context) as (mailbox, port):
        more = f", force_implicit_tls: true, tls_config: {{ca_file: {path}, server_name: localhost}}"
        receiver("email", settings(port, more)).send(message())
    assert len(mailbox.mails) == 1


def test_without_tls_nothing_is_sent_where_tls_is_required() -> None:
    with mail_server() as (mailbox, port), pytest.raises(ReceiverError, match="STARTTLS") as caught:
        receiver("email", settings(port)).send(message())
    assert not caught.value.retryable
    assert mailbox.mails == []


def test_refusals_are_permanent_or_pass() -> None:
    with mail_server() as (mailbox, port):
        given = ", require_tls: false"
        with pytest.raises(ReceiverError, match=r"550 5\.1\.1 no such user") as refused:
            receiver("email", settings(port, given, "nobody@example.org")).send(message())
        assert not refused.value.retryable
        mailbox.busy = True
        with pytest.raises(ReceiverError, match="451") as busy:
            receiver("email", settings(port, given)).send(message())
        assert busy.value.retryable


def test_an_unknown_recipient_does_not_keep_the_mail_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with mail_server() as (mailbox, port):
        receiver("email", settings(port, ", require_tls: false", "nobody@example.org, ann@example.org")).send(
            message()
        )
    assert mailbox.recipients == [["ann@example.org"]]
    assert "refused the recipient nobody@example.org: 550" in caplog.text


def test_a_server_that_is_away_may_come_back() -> None:
    with pytest.raises(ReceiverError, match="could not be reached") as caught:
        receiver("email", settings(free_port(), ", require_tls: false")).send(message())
    assert caught.value.retryable


def test_what_is_missing_is_named() -> None:
    found = " ".join(problems("email", "{to: a@example.org}"))
    assert (
        "from is not set" in found
        and "smarthost is not set, neither here nor in global (smtp_smarthost)" in found
    )
    assert "HOST:PORT" in problems("email", "{to: a, from: b, smarthost: c}")[0]
    assert "given twice" in problems("email", "{to: a, from: b, smarthost: 'c:25', headers: {a: x, A: y}}")[0]
