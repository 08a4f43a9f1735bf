"""Kustomize overlays and Helm chart: valid for Kubernetes, equal to each other, locked down, and complete."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import kubernetes_validate
import pytest
import yaml

from alerts.rules.loader import load
from tests.unit.deploy.manifests import (
    CHART,
    VARIANTS,
    Resource,
    by_name,
    chart_values,
    helm_rendered,
    kustomized,
    pod_specs,
)

#: The oldest Kubernetes that the files are for, and the newest whose schemas the tests have.
VERSIONS = ("1.27", kubernetes_validate.latest_version())
OPERATOR = "monitoring.coreos.com/v1"


@pytest.mark.parametrize(
    ("overlay", "version"), [("sqlite", VERSIONS[1]), *product(["postgresql"], VERSIONS)]
)
def test_every_resource_is_valid_for_the_schemas_of_kubernetes(overlay: str, version: str) -> None:
    resources = [item for item in kustomized(overlay) if item["apiVersion"] != OPERATOR]
    assert len(resources) >= 8
    for resource in resources:
        kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("overlay", VARIANTS)
def test_the_chart_renders_what_the_overlay_holds(overlay: str) -> None:
    chart, overlay_ = by_name(helm_rendered(chart_values(overlay))), by_name(kustomized(overlay))
    assert chart.keys() == overlay_.keys()
    for name, resource in overlay_.items():
        assert chart[name] == resource, name


@pytest.mark.parametrize("overlay", VARIANTS)
def test_every_pod_is_locked_down(overlay: str) -> None:
    specs = pod_specs(kustomized(overlay))
    assert specs
    for name, template in specs.items():
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["limits"]["memory"], name
            assert any(mount["mountPath"] == "/tmp" for mount in container["volumeMounts"]), name


@pytest.mark.parametrize("overlay", VARIANTS)
def test_every_pod_has_a_network_policy_and_every_selector_finds_pods(overlay: str) -> None:
    resources = kustomized(overlay)
    pods = {name: template["metadata"]["labels"] for name, template in pod_specs(resources).items()}
    restricted = set()
    for resource in resources:
        for selector in selectors_of(resource):
            found = {name for name, labels in pods.items() if selector.items() <= labels.items()}
            assert found, f"{resource['kind']} {resource['metadata']['name']} selects no pod"
            restricted |= found if resource["kind"] == "NetworkPolicy" else set()
    assert restricted == set(pods)


def selectors_of(resource: Resource) -> list[dict[str, str]]:
    spec = resource["spec"]
    if resource["kind"] == "Service":
        return [spec["selector"]]
    if resource["kind"] == "NetworkPolicy":
        return [spec["podSelector"]["matchLabels"]]
    return [spec["selector"]["matchLabels"]] if resource["kind"] == "PodDisruptionBudget" else []


def test_two_servers_are_known_by_their_names_wherever_a_client_runs() -> None:
    found = by_name(kustomized("postgresql"))
    names = [f"http://spark-controlplane-{n}.spark-controlplane-servers:8420" for n in (0, 1)]
    assert found["StatefulSet/spark-controlplane"]["spec"]["replicas"] == 2
    for name in ("Deployment/spark-controlplane-dashboard", "CronJob/spark-controlplane-rollup"):
        assert environment(found[name])["CONTROLPLANE_URL"] == ",".join(names)
    server = found["StatefulSet/spark-controlplane"]["spec"]["template"]["spec"]["containers"][0]
    # A standby that is never ready would block upgrades and drains for ever.
    assert server["readinessProbe"]["httpGet"]["path"] == "/healthz"


@pytest.mark.parametrize("render", [kustomized, lambda overlay: helm_rendered(chart_values(overlay))])
def test_a_server_advertises_its_own_name(render: Callable[[str], tuple[Resource, ...]]) -> None:
    (server,) = (item for item in render("postgresql") if item["kind"] == "StatefulSet")
    variables = server["spec"]["template"]["spec"]["containers"][0]["env"]
    names = [variable["name"] for variable in variables]
    address = variables[names.index("CONTROLPLANE_ADVERTISE_URL")]["value"]
    assert address == "http://$(POD_NAME).spark-controlplane-servers:8420"
    # Kubernetes replaces only variables that come before.
    assert names.index("POD_NAME") < names.index("CONTROLPLANE_ADVERTISE_URL")


def environment(resource: Resource) -> dict[str, Any]:
    """The environment of the only container of a workload."""
    (spec,) = pod_specs((resource,)).values()
    (container,) = spec["spec"]["containers"]
    return {item["name"]: item.get("value") for item in container["env"]}


def test_the_service_monitor_scrapes_each_server_once_with_a_viewers_token() -> None:
    resources = kustomized("postgresql")
    (monitor,) = (item for item in resources if item["kind"] == "ServiceMonitor")
    assert set(monitor["spec"]) == {"selector", "endpoints"}
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [item for item in resources if item["kind"] == "Service"]
    (service,) = (item for item in services if wanted <= item["metadata"]["labels"].items())
    assert service["metadata"]["name"] == "spark-controlplane-servers"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["authorization"]["credentials"] == {"name": "spark-controlplane-viewer", "key": "token"}
    assert endpoint["honorLabels"] is True


def test_the_prometheus_rule_holds_the_rules_of_the_pack() -> None:
    (resource,) = (item for item in kustomized("postgresql") if item["kind"] == "PrometheusRule")
    groups, mistakes = load(yaml.safe_dump(resource["spec"]), "PrometheusRule")
    assert mistakes == ()
    assert {"AgentLost", "ControlPlaneDown"} <= {rule.name for group in groups for rule in group.rules}


def test_values_of_the_chart_reach_the_resources() -> None:
    values = {
        "image": {"digest": "sha256:" + "a" * 64},
        "imagePullSecrets": [{"name": "registry"}],
        "externalUrl": "https://fleet.example.org",
        "allowedHosts": ["fleet.internal"],
        "notify": {"enabled": True},
        "server": {
            "env": [{"name": "CONTROLPLANE_MAX_SERIES", "value": "200000"}],
            "storageClassName": "fast",
        },
        "history": {"enabled": True, "lakeUrl": "s3://lake/fleet"},
        "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
        "networkPolicy": {"enabled": False},
    }
    resources = helm_rendered(values, release="fleet")
    found = by_name(resources)
    for resource in resources:
        if resource["apiVersion"] != OPERATOR:
            kubernetes_validate.validate(resource, VERSIONS[-1], strict=True)
    server = environment(found["StatefulSet/fleet"])
    assert server["CONTROLPLANE_ALLOWED_HOSTS"].startswith("fleet,fleet-servers,*.fleet-servers,")
    assert server["CONTROLPLANE_ALLOWED_HOSTS"].endswith(",fleet.internal")
    assert server["CONTROLPLANE_MAX_SERIES"] == "200000"
    assert server["CONTROLPLANE_NOTIFY"] == "/run/controlplane/notify.yaml"
    assert server["CONTROLPLANE_LAKE"] == "s3://lake/fleet"
    assert (
        environment(found["Deployment/fleet-dashboard"])["CONTROLPLANE_ALLOWED_HOSTS"] == "fleet.example.org"
    )
    images = {c["image"] for spec in pod_specs(resources).values() for c in spec["spec"]["containers"]}
    assert images == {"registry.example.com/spark-controlplane@sha256:" + "a" * 64}
    assert not [name for name in found if name.startswith(("NetworkPolicy/", "PersistentVolumeClaim/"))]
    assert found["PrometheusRule/fleet"]["metadata"]["labels"]["release"] == "prometheus"
    rules = found["PrometheusRule/fleet"]["spec"]["groups"][0]["rules"]
    assert rules[0]["annotations"]["runbook_url"].startswith("https://fleet.example.org/runbook?name=")


def test_helm_finds_no_fault_in_the_chart() -> None:
    from helm_python import lint

    assert lint(CHART)["errors"] == []


def test_a_value_that_the_chart_does_not_have_is_an_error() -> None:
    from helm_python import HelmValuesError

    with pytest.raises(HelmValuesError):
        helm_rendered({"externalURL": "https://fleet.example.org"})
