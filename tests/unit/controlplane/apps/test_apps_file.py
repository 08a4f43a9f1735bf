"""Tests of the file of applications: what it means, and errors with their places."""

from __future__ import annotations

import textwrap

import pytest

from controlplane.apps.apps_file import load
from controlplane.apps.model import AppSpec, DesiredAppState

CONTRACT = """
apps:
  - name: billing
    launcher: {kind: process, command: [python, -m, listeners.run, billing.py], cwd: /srv/billing}
    version: "2026-11-22.1"
    labels: {team: payments, env: prod}
    env: {LEVEL: debug, KEY: {file: /etc/key}}
    desired: stopped
    restart: {policy: payments}
    stop: {grace: 1m, drain: 0s}
"""
KUBERNETES = """
apps:
  - name: billing
    launcher:
      kind: kubernetes
      operator: kubeflow
      namespace: streams
      manifest: {spec: {mode: cluster, driver: {cores: 1}, timeToLiveSeconds: 60, suspend: false, image: "1.0"}}
"""


def errors(text: str) -> list[str]:
    return [str(error) for error in load(textwrap.dedent(text))[1]]


def app(line: str) -> str:
    """A file with one app, whose last field is `line` in line 4."""
    return f"apps:\n  - name: billing\n    launcher: {{kind: process, command: [x]}}\n    {line}\n"


def test_the_example_of_the_contract_is_read() -> None:
    (spec,), mistakes = load(CONTRACT)
    assert mistakes == ()
    assert spec == AppSpec(
        name="billing",
        kind="process",
        launcher={"command": ["python", "-m", "listeners.run", "billing.py"], "cwd": "/srv/billing"},
        version="2026-11-22.1",
        labels={"team": "payments", "env": "prod"},
        environment={"LEVEL": "debug"},
        environment_files={"KEY": "/etc/key"},
        desired=DesiredAppState.STOPPED,
        policy="payments",
        grace_seconds=60.0,
        drain_seconds=0.0,
    )
    assert AppSpec.from_json(spec.to_json()) == spec


def test_a_manifest_keeps_the_types_of_yaml() -> None:
    (spec,), _ = load(KUBERNETES)
    assert spec.launcher["manifest"]["spec"] == {
        "mode": "cluster",
        "driver": {"cores": 1},
        "timeToLiveSeconds": 60,
        "suspend": False,
        "image": "1.0",
    }


def test_every_error_has_its_place() -> None:
    text = """\
    apps:
      - name: billing
        launcher: {kind: procces, command: [x]}
      - name: ../etc
        launcher: {kind: process, comand: [x]}
        desired: suspended
      - launcher: {kind: standalone, masters: [host:6066]}
    """
    assert errors(text) == [
        "line 3, column 22: there is no launcher 'procces'; kinds: process, standalone, kubernetes, command",
        "line 4, column 11: the name '../etc' must be 1 to 100 letters, digits, '.', '_' and '-', "
        "beginning with a letter or digit",
        "line 5, column 15: a launcher of kind process needs command, a list such as [a, b]",
        "line 5, column 31: a launcher of kind process has no field 'comand'; did you mean 'command'?",
        "line 6, column 14: desired: 'suspended' is neither running nor stopped",
        "line 7, column 5: an app needs a name",
        "line 7, column 15: a launcher of kind standalone needs program",
        "line 7, column 15: a launcher of kind standalone needs spark_master",
        "line 7, column 44: masters: 'host:6066' is not an address such as https://host:6066",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("labels: {team: 'a,b'}", "labels: 'team' must have no comma"),
        ("labels: {a b: c}", "labels:"),
        ("env: {A-B: c}", "env: 'A-B' is not the name of a variable"),
        ("env: {A: {file: key}}", "env.A: needs file, an absolute path"),
        ("env: {A: [b]}", "env.A: expected a string"),
        ("env: [A]", "env: expected a mapping"),
        ("stop: {grace: soon}", "grace:"),
        ("restart: {}", "restart needs policy"),
        ("restarts: {policy: a}", "did you mean 'restart'?"),
    ],
)
def test_a_mistake_in_a_field(line: str, message: str) -> None:
    (found,) = errors(app(line))
    assert found.startswith("line 4, ")
    assert message in found


def test_the_version_is_no_label_twice() -> None:
    found = errors(app("labels: {version: a}\n    version: b"))
    assert found == ["line 4, column 14: labels: version is set by the field version"]


@pytest.mark.parametrize("text", ["", "apps: 1", "appz: []", "[]", "apps: [1]", "{}"])
def test_another_document_is_an_error(text: str) -> None:
    assert load(text)[0] == ()
    assert load(text)[1]


def test_names_are_declared_once() -> None:
    first = app("")
    assert "is declared twice" in errors(first + first.removeprefix("apps:\n"))[0]


@pytest.mark.parametrize(
    "launcher",
    [
        "{kind: standalone, masters: ['http://m:6066'], spark_master: 'spark://m:7077', program: a.py, supervise: true}",
        "{kind: kubernetes, operator: kubeflow, namespace: n, manifest: {spec: {restartPolicy: {type: Always}}}}",
        "{kind: kubernetes, operator: apache, namespace: n, manifest: {spec: {applicationTolerations: "
        "{restartConfig: {restartPolicy: OnFailure}}}}}",
    ],
)
def test_only_one_system_restarts_a_driver(launcher: str) -> None:
    text = f"apps:\n  - name: a\n    launcher: {launcher}\n"
    assert errors(text) == []
    assert "two systems would restart this driver" in errors(text + "    restart: {policy: p}\n")[0]


def test_a_name_on_kubernetes_is_one_of_kubernetes() -> None:
    assert errors(KUBERNETES) == []
    assert "small letters" in errors(KUBERNETES.replace("name: billing", "name: Billing.App"))[0]
    assert "is not one of apache, kubeflow" in errors(KUBERNETES.replace("kubeflow", "other"))[0]
