"""Tests of the Kubernetes launcher beyond the contract: objects, states, and pods that outlive their object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.apps.launchers import kubernetes
from controlplane.apps.launchers.kubernetes import KubernetesLauncher
from controlplane.apps.launchers.seam import Launch
from controlplane.apps.model import DriverPhase, LauncherError, StartedDriver
from tests.launched_systems import FakeKubernetes
from tests.served import served

DRIVER = StartedDriver("billing", "l1", "kubernetes", {}, "1", 1.0, "ada")
LAUNCH = Launch(DRIVER, {"CONTROLPLANE_APP": "billing"})
KUBEFLOW = {"mode": "cluster", "driver": {"cores": 1, "env": [{"name": "A", "value": "b"}]}}
APACHE = {"pyFiles": "local:///app.py", "sparkConf": {"spark.submit.pyFiles": "local:///lib.zip"}}


@dataclass
class Cluster:
    api: FakeKubernetes
    launcher: KubernetesLauncher

    def phase(self) -> DriverPhase:
        return self.launcher.state(DRIVER).phase


@contextmanager
def cluster(tmp_path: Path, operator: str = "kubeflow", **options: Any) -> Iterator[Cluster]:
    api = FakeKubernetes(operator)
    (tmp_path / "token").write_text(api.token)
    spec = KUBEFLOW if operator == "kubeflow" else APACHE
    with served(api.answer) as url:
        launcher = KubernetesLauncher(
            operator, "streams", {"spec": spec}, url, str(tmp_path / "token"), **options
        )
        yield Cluster(api, launcher)


def test_kubeflows_object(tmp_path: Path) -> None:
    with cluster(tmp_path, token_secret="plane/agent", agent="local:///agent.zip") as found:
        found.launcher.start(LAUNCH)
    (made,) = found.api.created
    assert (made["apiVersion"], made["kind"]) == ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    assert made["metadata"]["labels"] == {"spark-controlplane/app": "billing"}
    reference = {"secretKeyRef": {"name": "plane", "key": "agent"}}
    assert made["spec"]["driver"]["env"] == [
        {"name": "A", "value": "b"},
        {"name": "CONTROLPLANE_APP", "value": "billing"},
        {"name": "CONTROLPLANE_TOKEN", "valueFrom": reference},
    ]
    assert made["spec"]["restartPolicy"] == {"type": "Never"}
    assert made["spec"]["deps"] == {"pyFiles": ["local:///agent.zip"]}
    assert "restartPolicy" not in KUBEFLOW, "the declared manifest must not change"


def test_apaches_object(tmp_path: Path) -> None:
    with cluster(tmp_path, "apache", agent="local:///agent.zip") as found:
        found.launcher.start(LAUNCH)
    (made,) = found.api.created
    assert made["apiVersion"] == "spark.apache.org/v1"
    (container,) = made["spec"]["driverSpec"]["podTemplateSpec"]["spec"]["containers"]
    assert container == {
        "name": "spark-kubernetes-driver",
        "env": [{"name": "CONTROLPLANE_APP", "value": "billing"}],
    }
    assert made["spec"]["applicationTolerations"]["restartConfig"] == {"restartPolicy": "Never"}
    assert made["spec"]["sparkConf"]["spark.submit.pyFiles"] == "local:///lib.zip,local:///agent.zip"


@pytest.mark.parametrize(
    ("operator", "state", "phase"),
    [
        ("kubeflow", "", DriverPhase.STARTING),
        ("kubeflow", "PENDING_RERUN", DriverPhase.STARTING),
        ("kubeflow", "FAILING", DriverPhase.RUNNING),
        ("kubeflow", "UNKNOWN", DriverPhase.UNKNOWN),
        ("apache", "ScheduledToRestart", DriverPhase.STARTING),
        ("apache", "RunningWithBelowThresholdExecutors", DriverPhase.RUNNING),
        ("apache", "Failed", DriverPhase.RUNNING),  # its resources are not released yet
        ("apache", "Hibernating", DriverPhase.UNKNOWN),
    ],
)
def test_states_of_the_operators(tmp_path: Path, operator: str, state: str, phase: DriverPhase) -> None:
    with cluster(tmp_path, operator) as found:
        found.launcher.start(LAUNCH)
        found.api.set_state("billing", state, "why\n\tat java")
        status = found.launcher.state(DRIVER)
    assert status.phase is phase
    assert status.reason == f"The SparkApplication is {state or 'new'}: why"


@pytest.mark.parametrize(("operator", "state"), [("kubeflow", "FAILED"), ("apache", "ResourceReleased")])
def test_an_ended_object_with_a_living_pod_is_unknown(tmp_path: Path, operator: str, state: str) -> None:
    with cluster(tmp_path, operator) as found:
        found.launcher.start(LAUNCH)
        found.api.set_state("billing", state)
        assert found.phase() is DriverPhase.UNKNOWN
        with pytest.raises(LauncherError, match="billing-driver has not ended") as error:
            found.launcher.start(LAUNCH)
        assert error.value.may_live
        found.api.pods["billing"]["status"]["phase"] = "Failed"
        assert found.phase() is DriverPhase.ENDED
        found.launcher.start(replace(LAUNCH, driver=replace(DRIVER, launch_id="l2")))
    assert len(found.api.created) == 2


def test_a_pod_that_outlives_its_object_holds_the_start_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "DELETE_SECONDS", 0.1)
    with cluster(tmp_path) as found:
        found.launcher.start(LAUNCH)
        found.api.hanging = True
        with pytest.raises(LauncherError, match="still there") as error:
            found.launcher.stop(DRIVER, 0.1)
        assert error.value.may_live
        assert found.phase() is DriverPhase.UNKNOWN


def test_what_the_api_refuses_is_named(tmp_path: Path) -> None:
    with cluster(tmp_path) as found:
        wrong = replace(found.launcher, manifest={"spec": {"mode": 1}})
        with pytest.raises(LauncherError, match=r"422: SparkApplication is invalid: \['mode'\]"):
            wrong.start(LAUNCH)


def test_outside_of_a_pod_the_address_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    found = KubernetesLauncher("kubeflow", "streams", {"spec": {}}).state(DRIVER)
    assert (found.phase, found.reason) == (
        DriverPhase.UNKNOWN,
        "this server does not run in a pod: set api in the launcher.",
    )
