"""The same configurations are valid for amtool and here, and they route alerts to the same receivers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alerts.notify.config import load
from alerts.routing import matching_routes
from tests.unit.alerts.rules.test_pack import peer

BASE = "route: {receiver: a}\nreceivers: [{name: a}]\n"


def receiver(kind: str, settings: str, general: str = "{}") -> str:
    return (
        f"global: {general}\nroute: {{receiver: a}}\nreceivers:\n- name: a\n  {kind}_configs: [{settings}]\n"
    )


def http(settings: str) -> str:
    return receiver("webhook", f"{{url: 'http://h.example/', http_config: {settings}}}")


def route(settings: str) -> str:
    intervals = "time_intervals: [{name: night, time_intervals: [{times: [{start_time: '20:00', end_time: '24:00'}]}]}]"
    return (
        f"route: {{receiver: a, routes: [{settings}]}}\nreceivers: [{{name: a}}, {{name: b}}]\n{intervals}\n"
    )


def interval(settings: str) -> str:
    return f"{BASE}time_intervals: [{{name: t, time_intervals: [{settings}]}}]\n"


MAIL = "{smtp_smarthost: 'mail.example:25', smtp_from: 'a@example.org'}"
TEXTS = [
    BASE,
    f"{BASE}global: {{resolve_timeout: 5m, http_config: {{follow_redirects: false}}}}",
    f"{BASE}templates: ['/nowhere/*.tmpl', 'x.tmpl']",
    receiver("email", "{to: b@example.org}", MAIL),
    receiver("email", "{to: b@example.org, from: c, smarthost: 'm:587', hello: h, require_tls: false}"),
    receiver("email", "{to: b@example.org, headers: {Subject: x, subject: y}}", MAIL),
    receiver("email", "{to: b@example.org}"),
    receiver("email", "{from: b@example.org, smarthost: 'm:25'}"),
    receiver("email", "{to: b, tls_config: {insecure_skip_verify: true}, text: t, html: ''}", MAIL),
    receiver("slack", "{channel: '#c'}", "{slack_api_url: 'http://s.example/'}"),
    receiver("slack", "{channel: '#c', api_url_file: /nowhere}"),
    receiver("slack", "{channel: '#c'}"),
    receiver(
        "slack", "{api_url: 'http://s.example/', fields: [{title: t, value: v, short: true}], color: red}"
    ),
    receiver(
        "slack",
        "{api_url: 'http://s.example/', actions: [{type: button, text: t, url: u}], mrkdwn_in: [text]}",
    ),
    receiver("slack", "{api_url: 'http://s.example/', nosuch: 1}"),
    receiver("pagerduty", "{routing_key: k, severity: critical, details: {a: b}, images: [{src: s}]}"),
    receiver("pagerduty", "{service_key: k}"),
    receiver("pagerduty", "{}"),
    receiver(
        "opsgenie", "{api_key: k, responders: [{name: n, type: team}], tags: 'a,b', update_alerts: true}"
    ),
    receiver("opsgenie", "{api_key: k, responders: [{name: n, id: i, type: team}]}"),
    receiver("opsgenie", "{api_key: k, responders: [{name: n, type: nosuch}]}"),
    receiver("opsgenie", "{}"),
    receiver("opsgenie", "{}", "{opsgenie_api_key: k}"),
    receiver("victorops", "{api_key: k, routing_key: r}"),
    receiver("victorops", "{api_key: k}"),
    receiver("victorops", "{api_key: k, routing_key: r, custom_fields: {entity_state: x}}"),
    receiver("pushover", "{token: t, user_key: u, retry: 1m, expire: 1h, html: true}"),
    receiver("pushover", "{token: t}"),
    receiver("telegram", "{bot_token: t, chat_id: -100123, parse_mode: MarkdownV2}"),
    receiver("telegram", "{bot_token: t}"),
    receiver("telegram", "{bot_token: t, chat_id: 1, parse_mode: nosuch}"),
    receiver(
        "sns",
        "{topic_arn: 'arn:aws:sns:eu-west-1:1:t', sigv4: {region: eu-west-1, access_key: a, secret_key: b}}",
    ),
    receiver("sns", "{phone_number: '+1', topic_arn: t, sigv4: {}}"),
    receiver("sns", "{sigv4: {}}"),
    receiver("discord", "{webhook_url: 'https://d.example/x', title: t}"),
    receiver("discord", "{}"),
    receiver("webex", "{room_id: r, http_config: {authorization: {credentials: c}}}"),
    receiver("webex", "{room_id: r}"),
    receiver("wechat", "{corp_id: c, api_secret: s, message_type: markdown}"),
    receiver("wechat", "{corp_id: c}"),
    receiver("webhook", "{url: 'http://h.example/', max_alerts: 3, send_resolved: false}"),
    receiver("webhook", "{url: 'ftp://h.example/'}"),
    receiver("webhook", "{}"),
    receiver("nosuch", "{}"),
    http("{basic_auth: {username: u, password: p}}"),
    http("{basic_auth: {username: u, password_file: /nowhere}}"),
    http("{authorization: {type: Custom, credentials: c}}"),
    http("{authorization: {type: Basic, credentials: c}}"),
    http("{bearer_token: t, basic_auth: {username: u}}"),
    http(
        "{oauth2: {client_id: i, client_secret: s, token_url: 'http://t.example/', scopes: [a], endpoint_params: {b: c}}}"
    ),
    http("{oauth2: {client_id: i, client_secret: s}}"),
    http(
        "{proxy_url: 'http://p.example:3128', tls_config: {ca_file: ca.pem, server_name: n, min_version: TLS12}}"
    ),
    http("{tls_config: {min_version: TLS99}}"),
    http("{enable_http2: false, follow_redirects: true}"),
    http("{nosuch: 1}"),
    route("{receiver: b, match: {team: data}, match_re: {env: 'a|b'}}"),
    route("{receiver: b, match_re: {env: '('}}"),
    route('{receiver: b, matchers: [\'{a="b", c!~"d"}\', e=f, \'g = "h,i"\']}'),
    route("{receiver: b, matchers: ['a']}"),
    route("{receiver: nosuch}"),
    route("{group_by: ['...', a]}"),
    route("{group_by: [a, a]}"),
    route("{group_by: ['...']}"),
    route("{group_wait: 0s, group_interval: 1m, repeat_interval: 1h30m}"),
    route("{group_interval: 0s}"),
    route("{repeat_interval: 0s}"),
    route("{mute_time_intervals: [night], active_time_intervals: [night]}"),
    route("{mute_time_intervals: [nosuch]}"),
    "route: {receiver: a, continue: true}\nreceivers: [{name: a}]",
    "route: {receiver: a, continue: false, match: {}, matchers: []}\nreceivers: [{name: a}]",
    "route: {receiver: a, match: {b: c}}\nreceivers: [{name: a}]",
    "route: {receiver: a, mute_time_intervals: [t]}\nreceivers: [{name: a}]\ntime_intervals: [{name: t}]",
    "route: {}\nreceivers: [{name: a}]",
    "receivers: [{name: a}]",
    "route: {receiver: a}\nreceivers: [{name: a}, {name: a}]",
    "route: {receiver: a}\nreceivers: [{name: a}, {webhook_configs: []}]",
    f"{BASE}time_intervals: [{{name: t}}]\nmute_time_intervals: [{{name: t}}]",
    f"{BASE}mute_time_intervals: [{{name: t, time_intervals: []}}]",
    interval("{times: [{start_time: '09:00', end_time: '17:00'}], weekdays: ['monday:friday', Sunday]}"),
    interval(
        "{days_of_month: ['1:5', '-3:-1', '15'], months: ['1:3', 'may:august', december], years: ['2020:2022']}"
    ),
    interval("{location: Europe/Paris}"),
    interval("{location: Nowhere/Land}"),
    interval("{times: [{start_time: '17:00', end_time: '09:00'}]}"),
    interval("{times: [{start_time: '9:00', end_time: '10:00'}]}"),
    interval("{times: [{start_time: '09:00'}]}"),
    interval("{times: [{start_time: '00:00', end_time: '24:00'}]}"),
    interval("{weekdays: [someday]}"),
    interval("{weekdays: ['friday:monday']}"),
    interval("{days_of_month: ['0']}"),
    interval("{days_of_month: ['5:1']}"),
    interval("{days_of_month: ['-1:1']}"),
    interval("{days_of_month: ['25:-5']}"),
    interval("{days_of_month: ['20:-5']}"),
    interval("{months: ['may:january']}"),
    interval("{years: ['2022:2020']}"),
    f"{BASE}inhibit_rules: [{{source_match: {{a: b}}, target_match_re: {{c: d}}, equal: [e]}}]",
    f"{BASE}inhibit_rules: [{{source_matchers: [a=b], target_matchers: ['c=~\"d\"']}}]",
    f"{BASE}inhibit_rules: [{{source_matchers: [a=b]}}]",
    f"{BASE}inhibit_rules: [{{source_match_re: {{a: '('}}}}]",
    f"{BASE}nosuch: 1",
    "",
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[bool]:
    """Whether amtool accepts each of TEXTS."""
    folder = tmp_path_factory.mktemp("configurations")
    paths = [folder / f"{number:03}.yml" for number in range(len(TEXTS))]
    for path, text in zip(paths, TEXTS, strict=True):
        path.write_text(text, encoding="utf-8")
    answer = peer("amtool", "prometheus-alertmanager", "check-config", *map(str, paths))
    found = re.findall(r"^Checking '.*/(\d+)\.yml'  (SUCCESS|FAILED)", answer.stdout, re.M)
    assert [int(number) for number, _ in found] == list(range(len(TEXTS))), answer.stdout
    return [verdict == "SUCCESS" for _, verdict in found]


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_amtool_accepts_and_refuses_the_same(number: int, verdicts: list[bool]) -> None:
    loaded, errors = load(TEXTS[number])
    assert (loaded is not None) == verdicts[number], (TEXTS[number], errors)


TREE = """
route:
  receiver: root
  routes:
    - matchers: ['team="da\\"ta"']
      receiver: quoted
    - matchers: [team=da\\"ta\\nx]
      receiver: escaped
    - matchers: ['{env =~ "prod|stage", team!=ops}', severity=critical]
      receiver: pager
      continue: true
    - match: {env: prod}
      match_re: {team: d.*}
      receiver: data
      routes:
        - match_re: {severity: ''}
          receiver: plain
        - matchers: [a==b]
          receiver: equals
    - matchers: ['note=~"^a{1}$"']
      receiver: pattern
    - matchers: ['note = x y z ']
      receiver: spaces
    - matchers: ["path=C:\\\\dir"]
      receiver: windows
receivers: [{name: root}, {name: quoted}, {name: escaped}, {name: pager}, {name: data}, {name: plain}, {name: equals},
  {name: pattern}, {name: spaces}, {name: windows}]
"""
LABELS = [
    {"team": "none"},
    {"team": 'da"ta'},
    {"team": 'da"ta\nx'},
    {"env": "prod", "team": "data", "severity": "critical"},
    {"env": "prod", "team": "data", "severity": "warning"},
    {"env": "prod", "team": "data"},
    {"env": "prod", "team": "data", "severity": "warning", "a": "=b"},
    {"env": "stage", "team": "ops", "severity": "critical"},
    {"note": "a"},
    {"note": "aa"},
    {"note": "x y z"},
    {"path": "C:\\dir"},
]


@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_amtool_routes_to_the_same_receivers(labels: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "am.yml").write_text(TREE, encoding="utf-8")
    pairs = [f'{name}="{_escaped(value)}"' for name, value in labels.items()]
    where = ("config", "routes", "test", "--config.file", str(tmp_path / "am.yml"))
    answer = peer("amtool", "prometheus-alertmanager", *where, *pairs)
    assert answer.returncode == 0, answer.stderr
    loaded, errors = load(TREE)
    assert loaded is not None, errors
    ours = [found.receiver for found in matching_routes(loaded.route, labels)]
    assert ours == re.split(r"[,\n]", answer.stdout.strip())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
