"""The image, built from the Dockerfile and run as compose.yaml runs it: read-only, as an ordinary user, healthy.

No registry is needed: the base image is a Debian root file system that mmdebstrap makes. The packages come from PyPI.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.live import eventually
from tests.paths import ROOT
from tests.programs import missing, required

BASE, IMAGE = "localhost/controlplane-test-base", "localhost/controlplane-test"
#: How containers can be run on this machine: as they are, or in one that withholds CAP_SYS_RESOURCE or cgroups v2.
LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096")
WAYS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    ((), ()),
    ((), LIMITS),
    (("--runtime=runc",), LIMITS),
)
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


@dataclass
class Podman:
    """podman with a storage of its own. `runtime` and `limits`: options that make `run` work on this machine."""

    program: str
    storage: Path
    runtime: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    started: list[str] = field(default_factory=list)

    def __call__(
        self, *arguments: str, check: bool = True, seconds: float = 600
    ) -> subprocess.CompletedProcess[str]:
        where = (
            f"--root={self.storage / 'root'}",
            f"--runroot={self.storage / 'run'}",
            "--cgroup-manager=cgroupfs",
        )
        command = [self.program, *where, *self.runtime, *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        assert answer.returncode == 0 or not check, f"{' '.join(arguments)}: {answer.stdout}{answer.stderr}"
        return answer

    def run(self, name: str, service: str, command: Sequence[str], *options: str) -> None:
        """Run a service of compose.yaml with its restrictions, without a network of the host."""
        given = SERVICES[service]
        flags = [f"--cap-drop={name}" for name in given["cap_drop"]]
        flags += [f"--security-opt={name.replace(':true', '')}" for name in given["security_opt"]]
        flags += [f"--tmpfs={path}:rw,mode=1777" for path in given["tmpfs"]]
        flags += [f"--env={name}={value}" for name, value in given.get("environment", {}).items()]
        flags += ["--read-only"] if given["read_only"] else []
        if "entrypoint" in given:
            flags.append(f"--entrypoint={json.dumps(given['entrypoint'])}")
        self.started.append(name)
        self("run", f"--name={name}", *flags, *self.limits, *options, IMAGE, *command)

    def ask(self, name: str, code: str) -> str:
        """The output of a Python program in a running container."""
        return self("exec", name, "python", "-c", code, seconds=60).stdout.strip()


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """podman with the image; ends the test where containers cannot run here."""
    # Not a folder of pytest: podman takes at most 50 characters.
    found = Podman(required("podman", "podman"), Path(tempfile.mkdtemp(prefix="podman-")))
    tar = tmp_path_factory.mktemp("base") / "base.tar"
    make_base(tar)
    try:
        found("import", "--quiet", str(tar), BASE)
        tar.unlink()
        found.runtime, found.limits = way_to_run(found)
        build = (
            "build",
            "--quiet",
            "--layers=false",
            "--format=docker",
            "--isolation=chroot",
            "--network=host",
        )
        arguments = (f"--build-arg=BASE={BASE}", "--build-arg=LOCK=server")
        found(*build, *arguments, f"--tag={IMAGE}", str(ROOT))
        yield found
    finally:
        found("rm", "--force", "--time=0", *found.started, check=False)
        found("system", "reset", "--force", check=False)
        shutil.rmtree(found.storage, ignore_errors=True)


def make_base(tar: Path) -> None:
    """A minimal Debian with Python, as the Dockerfile needs it, and the certificates of this machine."""
    program = required("mmdebstrap", "mmdebstrap")
    packages = "--include=python3,python3-venv,python-is-python3,ca-certificates"
    certificates = "--customize-hook=copy-in /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs"
    command = [program, "--quiet", "--variant=minbase", packages, certificates, codename(), str(tar)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if answer.returncode != 0:
        missing(f"mmdebstrap cannot make a root file system here: {answer.stderr[-500:]}")


def codename() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("VERSION_CODENAME="))


def way_to_run(podman: Podman) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The first way in which a container runs on this machine."""
    problems = []
    for podman.runtime, podman.limits in WAYS:
        answer = podman("run", "--rm", "--network=none", *podman.limits, BASE, "true", check=False)
        if answer.returncode == 0:
            return podman.runtime, podman.limits
        problems.append(answer.stderr.strip())
    missing(f"containers do not run here: {problems}")


@pytest.mark.soak
def test_server_and_dashboard_run_as_compose_runs_them(podman: Podman) -> None:
    volume, server, ui = (f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("data", "server", "ui"))
    data, hosts = f"--volume={volume}:/data", podman.storage / "hosts"
    hosts.write_text("127.0.0.1 localhost server\n")  # compose's name of the server
    named = ("--no-hosts", f"--volume={hosts}:/etc/hosts:ro")
    command = SERVICES["server"]["command"]
    podman.run(server, "server", command, data, *named, "--detach", "--network=none")
    eventually(lambda: healthy(podman, server), seconds=120)
    podman.run(f"token-{server}", "viewer-token", SERVICES["viewer-token"]["command"], data, "--network=none")
    namespace = f"--network=container:{server}"
    podman.run(ui, "ui", SERVICES["ui"]["command"], f"{data}:ro", *named, "--detach", namespace)
    eventually(lambda: healthy(podman, ui), seconds=120)

    for name in (server, ui):
        assert podman.ask(name, "import os; print(os.getuid())") == "10001"
        read_only = podman("exec", name, "touch", "/opt/controlplane/x", check=False)
        assert "Read-only file system" in read_only.stderr
    assert podman.ask(ui, status_of("http://127.0.0.1:8501/")) == "200"
    assert podman.ask(ui, status_of("http://127.0.0.1:8501/", host="rebound.example")) == "403"
    assert podman.ask(ui, whoami("http://server:8420", "/data/viewer.token")) == "dashboard viewer"

    podman("stop", "--time=25", ui, server)
    ended = json.loads(podman("inspect", server).stdout)[0]["State"]
    assert ended["ExitCode"] == 0, podman("logs", server).stdout


def healthy(podman: Podman, name: str) -> bool:
    """Whether the health check of the image, as the container's engine runs it, succeeds."""
    return podman("healthcheck", "run", name, check=False, seconds=60).returncode == 0


def status_of(url: str, host: str = "localhost") -> str:
    return (
        "import urllib.request as u, urllib.error as e\n"
        f"try: print(u.urlopen(u.Request({url!r}, headers={{'Host': {host!r}}})).status)\n"
        "except e.HTTPError as error: print(error.code)"
    )


def whoami(server: str, file: str) -> str:
    return (
        "import json, urllib.request as u\n"
        f"token = open({file!r}).read().strip()\n"
        f"request = u.Request({server + '/api/v1/whoami'!r}, headers={{'Authorization': 'Bearer ' + token}})\n"
        "who = json.load(u.urlopen(request)); print(who['name'], who['role'])"
    )
