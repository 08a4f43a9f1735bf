"""Fields of `global`: defaults that receivers inherit."""

from __future__ import annotations

from alerts.notify.configuration.schema import (
    Schema,
    boolean,
    duration,
    mapping,
    pairs,
    secret,
    template,
    text,
)
from alerts.notify.http.fields import HTTP_CONFIG, TLS_CONFIG, secret_url, url


def smarthost_problem(value: str) -> str | None:
    """Why a text does not name a mail server; None where it does."""
    host, found, port = value.rpartition(":")
    return None if found and host and port.isdigit() else "expected HOST:PORT"


GLOBAL: Schema = {
    "resolve_timeout": duration(),
    "external_labels": pairs(),  # Prometheus': added to what is sent to other servers
    "http_config": mapping(HTTP_CONFIG),
    "smtp_from": template(),
    "smtp_hello": text("localhost"),
    "smtp_smarthost": text(problem=smarthost_problem),
    "smtp_auth_username": text(),
    "smtp_auth_password": secret(),
    "smtp_auth_secret": secret(),
    "smtp_auth_identity": text(),
    "smtp_require_tls": boolean(True),
    "smtp_force_implicit_tls": boolean(None),
    "smtp_tls_config": mapping(TLS_CONFIG),
    "slack_api_url": secret_url(),
    "slack_app_token": secret(),
    "slack_app_url": url(),
    "pagerduty_url": url(),
    "opsgenie_api_url": url(),
    "opsgenie_api_key": secret(),
    "jsm_api_url": url(),
    "jsm_api_key": secret(),
    "wechat_api_url": url(),
    "wechat_api_secret": secret(),
    "wechat_api_corp_id": text(),
    "victorops_api_url": url(),
    "victorops_api_key": secret(),
    "telegram_api_url": url(),
    "telegram_bot_token": secret(),
    "webex_api_url": url(),
    "rocketchat_api_url": url(),
    "rocketchat_token": secret(),
    "rocketchat_token_id": secret(),
    "jira_api_url": url(),
    "mattermost_webhook_url": secret_url(),
}
