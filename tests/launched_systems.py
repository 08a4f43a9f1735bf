"""What launchers talk to, in memory: a standalone master's REST API, and the Kubernetes API with an operator.

The shapes that the fakes check and answer are those of Spark 4.3 and of the operators' resource definitions
(sparkoperator.k8s.io/v1beta2, spark.apache.org/v1).
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

from tests.served import Answer, ReceivedRequest

Json = dict[str, Any]

# -- a standalone master ---------------------------------------------------------------------------

CREATE_FIELDS = {
    "action": str,
    "appResource": str,
    "mainClass": str,
    "clientSparkVersion": str,
    "appArgs": list,
    "environmentVariables": dict,
    "sparkProperties": dict,
}


@dataclass
class FakeMaster:
    """The REST API of a standalone master. `standby`: it answers as Spark's standby does."""

    standby: bool = False
    token: str | None = None
    drivers: dict[str, str] = field(default_factory=dict)
    submissions: list[Json] = field(default_factory=list)

    def answer(self, request: ReceivedRequest) -> Answer:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return 403, {"message": "Forbidden"}
        action, _, driver = request.path.removeprefix("/v1/submissions/").partition("/")
        if self.standby:
            text = "Exception from the cluster: java.lang.Exception: Current state is not alive: STANDBY. "
            return 200, {"action": "CreateSubmissionResponse", "success": False, "message": text}
        if action == "create":
            return self._created(request.document)
        state = self.drivers.get(driver)
        if action == "status":
            if state is None:
                return 200, {"action": "SubmissionStatusResponse", "success": False, "submissionId": driver}
            answer = {"action": "SubmissionStatusResponse", "success": True, "driverState": state}
            return 200, answer | {"submissionId": driver, "workerHostPort": "10.0.0.7:40001"}
        if state in ("SUBMITTED", "RUNNING"):
            self.drivers[driver] = "KILLED"
        return 200, {"action": "KillSubmissionResponse", "success": state is not None, "submissionId": driver}

    def _created(self, body: Json) -> Answer:
        wrong = [name for name, kind in CREATE_FIELDS.items() if not isinstance(body.get(name), kind)]
        texts = [*body["environmentVariables"].values(), *body["sparkProperties"].values(), *body["appArgs"]]
        if wrong or not all(isinstance(text, str) for text in texts):
            return 400, {"action": "ErrorResponse", "message": f"Malformed request: {wrong}"}
        driver = f"driver-20261122-{len(self.drivers):04d}"
        self.drivers[driver] = "RUNNING"
        self.submissions.append(body)
        return 200, {"action": "CreateSubmissionResponse", "success": True, "submissionId": driver}


# -- Kubernetes ------------------------------------------------------------------------------------

#: Fields of the objects' `spec` with their types, a part of the resource definitions; any other is refused here.
KUBEFLOW_SPEC = {
    "type": str, "mode": str, "image": str, "imagePullPolicy": str, "sparkVersion": str,
    "mainApplicationFile": str, "mainClass": str, "arguments": list, "sparkConf": dict, "hadoopConf": dict,
    "volumes": list, "driver": dict, "executor": dict, "deps": dict, "restartPolicy": dict,
    "pythonVersion": str, "timeToLiveSeconds": int, "suspend": bool,
}  # fmt: skip
APACHE_SPEC = {
    "mainClass": str, "jars": str, "pyFiles": str, "driverArgs": list, "sparkConf": dict, "runtimeVersions": dict,
    "applicationTolerations": dict, "driverSpec": dict, "executorSpec": dict, "proxyUser": str,
}  # fmt: skip


@dataclass
class FakeKubernetes:
    """The Kubernetes API with one operator, which runs a driver pod for each SparkApplication at once.

    `hanging`: pods outlive the deletion of their object, as on a node that is cut off.
    """

    operator: str
    token: str = "kubernetes-token"
    hanging: bool = False
    objects: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    created: list[Json] = field(default_factory=list)

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return 401, {"kind": "Status", "message": "Unauthorized"}
        if found := re.fullmatch(r"/api/v1/namespaces/streams/pods(?:/([^/]+)/log)?", request.path):
            return self._pods(request, found[1])
        group = {"kubeflow": "sparkoperator.k8s.io/v1beta2", "apache": "spark.apache.org/v1"}[self.operator]
        found = re.fullmatch(
            rf"/apis/{group}/namespaces/streams/sparkapplications(?:/([^/]+))?", request.path
        )
        if found is None:
            return 404, {"kind": "Status", "message": "the server could not find the requested resource"}
        if request.method == "POST":
            return self._create(request.document, group)
        if found[1] not in self.objects:
            return 404, {"kind": "Status", "reason": "NotFound"}
        return self._delete(found[1]) if request.method == "DELETE" else (200, self.objects[found[1]])

    def set_state(self, name: str, state: str, message: str = "") -> None:
        """The state that the operator reports."""
        status = {
            "kubeflow": {"applicationState": {"state": state, "errorMessage": message}},
            "apache": {"currentState": {"currentStateSummary": state, "message": message}},
        }
        self.objects[name]["status"] = status[self.operator]

    def _create(self, document: Json, group: str) -> Answer:
        fields = KUBEFLOW_SPEC if self.operator == "kubeflow" else APACHE_SPEC
        spec, name = document.get("spec", {}), document["metadata"]["name"]
        wrong = [key for key, value in spec.items() if not isinstance(value, fields.get(key, ()))]  # type: ignore[arg-type]
        if wrong or document.get("apiVersion") != group or document.get("kind") != "SparkApplication":
            return 422, {"kind": "Status", "message": f"SparkApplication is invalid: {wrong}"}
        if name in self.objects:
            return 409, {"kind": "Status", "reason": "AlreadyExists"}
        self.created.append(document)
        self.objects[name] = document | {
            "metadata": {**document["metadata"], "uid": f"uid-{len(self.created)}"}
        }
        self.set_state(name, "RUNNING" if self.operator == "kubeflow" else "RunningHealthy")
        self.pods[name] = {
            "metadata": {"name": f"{name}-driver", "creationTimestamp": f"{time.time():.0f}"},
            "status": {"phase": "Running"},
        }
        return 201, self.objects[name]

    def _delete(self, name: str) -> Answer:
        del self.objects[name]
        if not self.hanging:
            self.pods.pop(name, None)
        return 200, {"kind": "Status", "status": "Success"}

    def _pods(self, request: ReceivedRequest, log_of: str | None) -> Answer:
        if log_of is not None:
            return 200, "first line\nlast line\n"
        label = (
            "sparkoperator.k8s.io/app-name"
            if self.operator == "kubeflow"
            else "spark.operator/spark-app-name"
        )
        selector = dict(part.split("=") for part in request.parameters["labelSelector"].split(","))
        if selector["spark-role"] != "driver":
            return 200, {"items": []}
        name = selector[label]
        return 200, {"items": [self.pods[name]] if name in self.pods else []}
