"""Launcher of drivers on Kubernetes: a SparkApplication of kubeflow's operator, or of Apache's.

The object has the application's name, so the API server itself refuses a second one. It is deleted before the next
start, and a start waits until no driver pod is left. An object that the operator calls ended, while a driver pod is not
(its node may be cut off), is `unknown`. Four requests of the API are used, which httpx sends.
"""

from __future__ import annotations

import copy
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml

from alerts.yaml.tree import Node, YamlMapping, YamlScalar, YamlSequence
from controlplane.apps.launchers.seam import (
    CALL_SECONDS,
    Launch,
    LauncherKind,
    LauncherSettings,
    Section,
    tail,
    wait_until,
)
from controlplane.apps.model import DriverPhase, DriverStatus, LauncherError, StartedDriver

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DRIVER_CONTAINER = "spark-kubernetes-driver"
APP_LABEL, LAUNCH_ANNOTATION = "spark-controlplane/app", "spark-controlplane/launch"
#: A name of Kubernetes' that also fits the labels and services that the operators derive from it.
NAME = re.compile(r"[a-z]([a-z0-9-]{0,50}[a-z0-9])?")
DELETE_SECONDS = 60.0
_STARTING, _RUNNING, _ENDED = DriverPhase.STARTING, DriverPhase.RUNNING, DriverPhase.ENDED


class Operator(NamedTuple):
    """What distinguishes an operator: its API, where it reports the state, and how it labels driver pods.

    `phases`: states of the operator; any other is unknown.
    """

    group: str
    version: str
    state_path: tuple[str, ...]
    message_path: tuple[str, ...]
    pod_label: str
    phases: Mapping[str, DriverPhase]


OPERATORS = {
    "kubeflow": Operator(
        "sparkoperator.k8s.io",
        "v1beta2",
        ("applicationState", "state"),
        ("applicationState", "errorMessage"),
        "sparkoperator.k8s.io/app-name",
        {
            **dict.fromkeys(("", "SUBMITTED", "PENDING_SUBMISSION", "SUBMISSION_FAILED"), _STARTING),
            **dict.fromkeys(("PENDING_RERUN", "INVALIDATING", "RESUMING"), _STARTING),
            **dict.fromkeys(("RUNNING", "SUCCEEDING", "FAILING", "SUSPENDING"), _RUNNING),
            **dict.fromkeys(("COMPLETED", "FAILED", "SUSPENDED"), _ENDED),
        },
    ),
    "apache": Operator(
        "spark.apache.org",
        "v1",
        ("currentState", "currentStateSummary"),
        ("currentState", "message"),
        "spark.operator/spark-app-name",
        {
            **dict.fromkeys(("", "Submitted", "ScheduledToRestart", "DriverRequested"), _STARTING),
            **dict.fromkeys(("DriverStarted", "DriverReady", "InitializedBelowThresholdExecutors"), _RUNNING),
            **dict.fromkeys(("RunningHealthy", "RunningWithBelowThresholdExecutors"), _RUNNING),
            # The driver has ended, and the operator still releases its resources.
            **dict.fromkeys(
                ("DriverStartTimedOut", "ExecutorsStartTimedOut", "DriverReadyTimedOut"), _RUNNING
            ),
            **dict.fromkeys(("Succeeded", "Failed", "SchedulingFailure", "DriverEvicted"), _RUNNING),
            **dict.fromkeys(("ResourceReleased", "TerminatedWithoutReleaseResources"), _ENDED),
        },
    ),
}


@dataclass(frozen=True)
class KubernetesLauncher:
    """Creates and deletes a SparkApplication. `api`, `token_file`, `ca_file`: by default those of this pod's account."""

    operator: str
    namespace: str
    manifest: Mapping[str, Any]
    api: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    token_secret: str | None = None
    agent: str | None = None

    def start(self, launch: Launch) -> Mapping[str, Any]:
        """Delete the object of an ended driver, then create the new one."""
        name = launch.driver.app
        before = self._object_state(name)
        if before.may_live:
            raise LauncherError(f"the SparkApplication {name} exists: {before.reason}", may_live=True)
        self._delete(name, DELETE_SECONDS)
        answer = self._request("POST", self._objects, json=self.object_of(launch))
        if answer.status_code == 409:
            raise LauncherError(f"the SparkApplication {name} already exists", may_live=True)
        created = _checked(answer)
        return {"name": name, "namespace": self.namespace, "uid": created.get("metadata", {}).get("uid")}

    def object_of(self, launch: Launch) -> dict[str, Any]:
        """The SparkApplication: that of the file with the application's name and the agent's environment."""
        kind, document = OPERATORS[self.operator], copy.deepcopy(dict(self.manifest))
        metadata, spec = document.setdefault("metadata", {}), document.setdefault("spec", {})
        metadata |= {"name": launch.driver.app, "namespace": self.namespace}
        metadata["labels"] = {**metadata.get("labels", {}), APP_LABEL: launch.driver.app}
        metadata["annotations"] = {
            **metadata.get("annotations", {}),
            LAUNCH_ANNOTATION: launch.driver.launch_id,
        }
        variables: list[dict[str, Any]] = [
            {"name": name, "value": value} for name, value in launch.environment.items()
        ]
        if self.token_secret:
            secret, _, key = self.token_secret.partition("/")
            reference = {"name": secret, "key": key or "token"}
            variables.append({"name": "CONTROLPLANE_TOKEN", "valueFrom": {"secretKeyRef": reference}})
        add = _add_to_kubeflow if self.operator == "kubeflow" else _add_to_apache
        add(spec, variables, self.agent)
        return {**document, "apiVersion": f"{kind.group}/{kind.version}", "kind": "SparkApplication"}

    def stop(self, driver: StartedDriver, grace_seconds: float) -> None:
        """Delete the object and wait until no driver pod is left; Kubernetes ends pods by SIGTERM."""
        self._delete(driver.app, grace_seconds + DELETE_SECONDS)

    def state(self, driver: StartedDriver) -> DriverStatus:
        """The operator's state, checked against the driver pods."""
        try:
            return self._object_state(driver.app)
        except LauncherError as error:
            return DriverStatus(DriverPhase.UNKNOWN, f"{error}.")

    def logs(self, driver: StartedDriver, lines: int) -> str:
        """The end of the newest driver pod's log."""
        pods = self._pods(driver.app)
        if not pods:
            return "There is no driver pod."
        newest = max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")))
        path = f"/api/v1/namespaces/{self.namespace}/pods/{newest['metadata']['name']}/log"
        answer = self._request("GET", path, params={"tailLines": str(lines), "container": DRIVER_CONTAINER})
        if answer.status_code != 200:
            raise LauncherError(_problem(answer))
        return tail(answer.text, lines)

    @property
    def _objects(self) -> str:
        kind = OPERATORS[self.operator]
        return f"/apis/{kind.group}/{kind.version}/namespaces/{self.namespace}/sparkapplications"

    def _object_state(self, name: str) -> DriverStatus:
        kind, answer = OPERATORS[self.operator], self._request("GET", f"{self._objects}/{name}")
        running = [pod["metadata"]["name"] for pod in self._pods(name) if _runs(pod)]
        if answer.status_code == 404:
            found = DriverStatus(_ENDED, "There is no SparkApplication.")
        else:
            status = _checked(answer).get("status") or {}
            state = str(_at(status, kind.state_path) or "")
            message = str(_at(status, kind.message_path) or "").strip().partition("\n")[0][:300]
            reason = f"The SparkApplication is {state or 'new'}" + (f": {message}" if message else ".")
            found = DriverStatus(kind.phases.get(state, DriverPhase.UNKNOWN), reason)
        if found.phase is _ENDED and running:
            return DriverStatus(
                DriverPhase.UNKNOWN, f"{found.reason} The driver pod {running[0]} has not ended."
            )
        return found

    def _pods(self, name: str) -> list[dict[str, Any]]:
        selector = f"{OPERATORS[self.operator].pod_label}={name},spark-role=driver"
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return list(
            _checked(self._request("GET", path, params={"labelSelector": selector})).get("items") or []
        )

    def _delete(self, name: str, seconds: float) -> None:
        """Delete the object with what it owns, and wait; nothing where there is none."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
        answer = self._request("DELETE", f"{self._objects}/{name}", json=body)
        if answer.status_code != 404:
            _checked(answer)
        if not wait_until(lambda: self._is_gone(name), seconds):
            message = f"the SparkApplication {name} or its driver pod is still there {seconds:.0f} s after its deletion"
            raise LauncherError(message, may_live=True)

    def _is_gone(self, name: str) -> bool:
        left = self._request("GET", f"{self._objects}/{name}").status_code != 404
        return not left and not any(map(_runs, self._pods(name)))

    def _request(self, method: str, path: str, **rest: Any) -> httpx.Response:
        api = self.api or _own_api()
        token = _read(Path(self.token_file) if self.token_file else ACCOUNT / "token")
        tls = (
            _tls(self.ca_file or (None if self.api else str(ACCOUNT / "ca.crt")))
            if api[:5] == "https"
            else False
        )
        try:
            with httpx.Client(base_url=api, verify=tls, timeout=CALL_SECONDS, trust_env=False) as client:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                return client.request(method, path, headers=headers, **rest)
        except httpx.HTTPError as error:
            sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            message = f"the Kubernetes API at {api} gave no answer ({error or type(error).__name__})"
            raise LauncherError(message, may_live=sent) from None


@cache
def _tls(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise LauncherError(
            f"the certificates {ca} cannot be read: {error.strerror or error}", True
        ) from None


def _own_api() -> str:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise LauncherError("this server does not run in a pod: set api in the launcher", may_live=True)
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""  # the API then answers 401, which is reported


def _runs(pod: Mapping[str, Any]) -> bool:
    return _at(pod, ("status", "phase")) not in ("Succeeded", "Failed")


def _at(document: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = document
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _checked(answer: httpx.Response) -> dict[str, Any]:
    """The body of a good answer."""
    if not answer.is_success:
        raise LauncherError(_problem(answer))
    document = answer.json()
    return document if isinstance(document, dict) else {}


def _problem(answer: httpx.Response) -> str:
    try:
        message = str(answer.json().get("message") or "")
    except (ValueError, AttributeError):
        message = ""
    return f"the Kubernetes API answered {answer.status_code}" + (f": {message[:300]}" if message else "")


def _add_to_kubeflow(spec: dict[str, Any], variables: list[dict[str, Any]], agent: str | None) -> None:
    driver = spec.setdefault("driver", {})
    driver["env"] = [*driver.get("env", []), *variables]
    spec.setdefault("restartPolicy", {"type": "Never"})
    if agent:
        deps = spec.setdefault("deps", {})
        deps["pyFiles"] = [*deps.get("pyFiles", []), agent]


def _add_to_apache(spec: dict[str, Any], variables: list[dict[str, Any]], agent: str | None) -> None:
    """Spark itself sets the variables of the driver pod in cluster mode; a secret needs the pod's template."""
    template = spec.setdefault("driverSpec", {}).setdefault("podTemplateSpec", {})
    containers = template.setdefault("spec", {}).setdefault("containers", [])
    if not containers:
        containers.append({"name": DRIVER_CONTAINER})
    # Spark takes the container of its name, else the first.
    container = next((c for c in containers if c.get("name") == DRIVER_CONTAINER), containers[0])
    container["env"] = [*container.get("env", []), *variables]
    tolerations = spec.setdefault("applicationTolerations", {})
    tolerations.setdefault("restartConfig", {"restartPolicy": "Never"})
    if agent:
        conf = spec.setdefault("sparkConf", {})
        conf["spark.submit.pyFiles"] = ",".join(filter(None, [conf.get("spark.submit.pyFiles"), agent]))


def restart_policy(settings: LauncherSettings) -> str:
    """The operator's own restart policy in the manifest; `Never` where it is left out."""
    spec = settings["manifest"].get("spec") or {}
    paths = {
        "kubeflow": ("restartPolicy", "type"),
        "apache": ("applicationTolerations", "restartConfig", "restartPolicy"),
    }
    return str(_at(spec, paths[settings["operator"]]) or "Never")


def _document(node: Node) -> Any:
    """A YAML node as JSON."""
    if isinstance(node, YamlMapping):
        return {key.value: _document(value) for key, value in node.entries}
    if isinstance(node, YamlSequence):
        return [_document(item) for item in node.items]
    return _scalar(node)


def _scalar(node: YamlScalar) -> Any:
    if not node.plain:
        return node.value
    value = yaml.safe_load(node.value) if node.value else None
    return value if isinstance(value, bool | int | float | str | None) else node.value


def _fields(section: Section) -> LauncherSettings:
    operator = section.text("operator", needed=True)
    if operator and operator not in OPERATORS:
        mark = section.fields["operator"].mark
        section.reader.add_error(
            mark, f"operator: {operator[:40]!r} is not one of {', '.join(sorted(OPERATORS))}"
        )
    manifest = section.fields.get("manifest")
    if not isinstance(manifest, YamlMapping) or not any(key.value == "spec" for key, _ in manifest.entries):
        section.missing("manifest: a SparkApplication with its spec")
    return {
        "operator": operator,
        "namespace": section.text("namespace", needed=True),
        "manifest": _document(manifest) if isinstance(manifest, YamlMapping) else {},
        "api": section.text("api"),
        "token_file": section.path("token_file"),
        "ca_file": section.path("ca_file"),
        "token_secret": section.text("token_secret"),
        "agent": section.text("agent"),
    }


def _build(settings: LauncherSettings, directory: Path) -> KubernetesLauncher:
    return KubernetesLauncher(**settings)


KIND = LauncherKind(
    "kubernetes",
    ("operator", "namespace", "manifest", "api", "token_file", "ca_file", "token_secret", "agent"),
    _fields,
    _build,
)
