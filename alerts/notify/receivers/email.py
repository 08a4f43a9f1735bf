"""E-mail receiver: SMTP with TLS, as HTML and plain text."""

from __future__ import annotations

import contextlib
import logging
import smtplib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, getaddresses, make_msgid, parseaddr
from typing import Any

from alerts.errors import ReceiverError
from alerts.notify.configuration.schema import (
    Settings,
    boolean,
    mapping,
    required,
    secret,
    template,
    template_pairs,
    text,
)
from alerts.notify.global_fields import smarthost_problem
from alerts.notify.http.connections import connect_checked, cut_after
from alerts.notify.http.fields import TLS_CONFIG
from alerts.notify.http.tls import tls_context
from alerts.notify.message import Message
from alerts.notify.receivers.base import IntegrationReceiver, ReceiverKind, dedup_key

log = logging.getLogger(__name__)
TIMEOUT_SECONDS, DEADLINE_SECONDS = 10.0, 30.0
IMPLICIT_TLS_PORT = "465"
HTML = '{{ template "email.default.html" . }}'
TEXT = '{{ template "email.default.text" . }}'
SUBJECT = '{{ template "email.default.subject" . }}'


SCHEMA = {
    "send_resolved": boolean(False),
    "to": required(template()),
    "from": template(inherits="smtp_from", required=True),
    "smarthost": text(inherits="smtp_smarthost", required=True, problem=smarthost_problem),
    "hello": text("localhost", inherits="smtp_hello"),
    "auth_username": text(inherits="smtp_auth_username"),
    "auth_password": secret(inherits="smtp_auth_password"),
    "auth_secret": secret(inherits="smtp_auth_secret"),
    "auth_identity": text(inherits="smtp_auth_identity"),
    "require_tls": boolean(None, inherits="smtp_require_tls"),
    "force_implicit_tls": boolean(None, inherits="smtp_force_implicit_tls"),
    "tls_config": mapping(TLS_CONFIG, inherits="smtp_tls_config"),
    "headers": template_pairs(),
    "html": template(HTML),
    "text": template(),
    "threading": mapping({"enabled": boolean(), "thread_by_date": text("daily")}),
}


@dataclass(frozen=True, repr=False)
class Email(IntegrationReceiver):
    """Sends a mail through a smarthost."""

    def send(self, message: Message) -> None:
        """Send a mail. Raises ReceiverError; answers of the class 4xx are retryable, 5xx are not."""
        fields = self.integration.rendered(message)
        html = self.integration.render(self.integration.settings["html"], message, as_html=True)
        mail = self._mail({**fields, "html": html}, message)
        sender = parseaddr(fields["from"])[1]
        recipients = [address for _, address in getaddresses([fields["to"]]) if address]
        try:
            with self._session(fields) as session:
                refused = session.send_message(mail, sender, recipients)
        except smtplib.SMTPRecipientsRefused as error:
            raise _refusal(next(iter(error.recipients.values()))) from None
        except smtplib.SMTPResponseException as error:
            raise _refusal((error.smtp_code, error.smtp_error)) from None
        except (smtplib.SMTPException, OSError) as error:
            cause = str(error) or type(error).__name__
            reason = f"{fields['smarthost']} could not be reached: {cause[:200]}"
            raise ReceiverError(reason, not isinstance(error, smtplib.SMTPNotSupportedError)) from None
        for address, (code, why) in refused.items():
            log.warning(
                "%s: the server refused the recipient %s: %d %s", self.name, address, code, _text(why)
            )

    def _mail(self, fields: Settings, message: Message) -> EmailMessage:
        mail = EmailMessage()
        subject = next((v for k, v in fields["headers"].items() if k.lower() == "subject"), None)
        headers = {
            "From": fields["from"],
            "To": fields["to"],
            "Subject": self.integration.render(SUBJECT, message) if subject is None else subject,
            "Date": formatdate(message.sent_at or None, localtime=True),
            "Message-Id": make_msgid(domain=parseaddr(fields["from"])[1].partition("@")[2] or None),
            **self._thread(fields, message),
        }
        own = {name.lower() for name in fields["headers"]}
        headers = {name: value for name, value in headers.items() if name.lower() not in own} | fields[
            "headers"
        ]
        if subject is not None:
            headers = {**{k: v for k, v in headers.items() if k.lower() != "subject"}, "Subject": subject}
        for name, value in headers.items():
            mail[name] = " ".join(value.split())
        mail.set_content(fields["text"] or self.integration.render(TEXT, message))
        if fields["html"]:
            mail.add_alternative(fields["html"], subtype="html")
        return mail

    def _thread(self, fields: Settings, message: Message) -> dict[str, str]:
        """A reference that all mails of a group share, so that they are shown together."""
        if not (fields["threading"] or {}).get("enabled"):
            return {}
        reference = f"<{dedup_key(message)}@spark-controlplane>"
        return {"References": reference, "In-Reply-To": reference}

    @contextlib.contextmanager
    def _session(self, fields: Settings) -> Iterator[smtplib.SMTP]:
        """A session that is encrypted and authenticated as configured."""
        host, _, port = fields["smarthost"].rpartition(":")
        host = host.strip("[]")
        tls, implicit = fields["tls_config"], fields["force_implicit_tls"]
        context, name = tls_context(tls), (tls["server_name"] if tls else "") or host
        is_implicit = port == IMPLICIT_TLS_PORT if implicit is None else implicit
        session = CheckedSmtp(context if is_implicit else None, name, fields["hello"])
        try:
            with cut_after(DEADLINE_SECONDS, lambda: session.sock) as late:
                try:
                    _expect(session.connect(host, int(port)), 220)
                    session.ehlo_or_helo_if_needed()
                    if not is_implicit:
                        _start_tls(session, fields, context)
                    _login(session, fields)
                    yield session
                except (smtplib.SMTPException, OSError):
                    if late.is_set():
                        raise TimeoutError(f"no answer within {DEADLINE_SECONDS:g} s") from None
                    raise
        finally:
            with contextlib.suppress(smtplib.SMTPException, OSError):
                session.quit()


class CheckedSmtp(smtplib.SMTP):
    """SMTP over a checked address; with `implicit` TLS from the start."""

    def __init__(self, implicit: Any, server_name: str, hello: str):
        super().__init__(local_hostname=hello, timeout=TIMEOUT_SECONDS)
        self._implicit, self._host = implicit, server_name
        self.identity = ""

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        plain = connect_checked(host, port, timeout)
        return self._implicit.wrap_socket(plain, server_hostname=self._host) if self._implicit else plain

    def auth_plain(self, challenge: Any = None) -> str:
        """PLAIN with the authorization identity."""
        return f"{self.identity}\0{self.user}\0{self.password}"


def _start_tls(session: CheckedSmtp, fields: Settings, context: Any) -> None:
    wants = True if fields["require_tls"] is None else fields["require_tls"]
    if session.has_extn("starttls"):
        session.starttls(context=context)
        session.ehlo()
    elif wants:
        reason = f"{fields['smarthost']} does not offer STARTTLS, and require_tls is true"
        raise ReceiverError(reason, retryable=False)


def _login(session: CheckedSmtp, fields: Settings) -> None:
    """Authenticate: CRAM-MD5 with the secret, PLAIN and LOGIN with the password; by what the server offers."""
    if not fields["auth_username"]:
        return
    offered = session.esmtp_features.get("auth", "").upper().split()
    uses_secret = fields["auth_secret"] and "CRAM-MD5" in offered
    session.identity = fields["auth_identity"]
    if not uses_secret and fields["auth_secret"] and not fields["auth_password"]:
        raise ReceiverError(f"{fields['smarthost']} does not offer CRAM-MD5 for auth_secret", retryable=False)
    if not uses_secret:  # else the library would try CRAM-MD5 with the password first
        session.esmtp_features["auth"] = " ".join(method for method in offered if method != "CRAM-MD5")
    session.login(fields["auth_username"], fields["auth_secret"] if uses_secret else fields["auth_password"])


def _expect(answer: tuple[int, bytes], code: int) -> None:
    if answer[0] != code:
        raise smtplib.SMTPConnectError(*answer)


def _refusal(answer: tuple[int, bytes | str]) -> ReceiverError:
    code, reason = answer
    return ReceiverError(f"the mail server answered {code} {_text(reason)}", 400 <= code < 500, code)


def _text(reason: bytes | str) -> str:
    return (reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason).strip()[:200]


def problem(settings: Settings) -> str | None:
    """Why the settings are incomplete."""
    names = [name.lower() for name in settings["headers"]]
    twice = next((name for name in names if names.count(name) > 1), None)
    return f"headers: {twice} is given twice" if twice else None


KIND = ReceiverKind(SCHEMA, Email, problem)
