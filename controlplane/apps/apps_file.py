"""Read `apps.yaml`: the declared applications, or every error with its line and column. Pure."""

from __future__ import annotations

import re

from alerts.yaml.fields import FieldReader, Fields
from alerts.yaml.parser import parse
from alerts.yaml.tree import DocumentError, Node, YamlMapping, YamlScalar
from controlplane.apps.environment import VERSION_LABEL
from controlplane.apps.launchers import kubernetes
from controlplane.apps.launchers.catalogue import KINDS
from controlplane.apps.launchers.seam import LauncherSettings, Section
from controlplane.apps.model import DRAIN_SECONDS, GRACE_SECONDS, AppSpec, DesiredAppState
from listeners.protocol import wire
from listeners.protocol.errors import AgentError

_APP = ("name", "launcher", "version", "labels", "env", "desired", "restart", "stop")
#: The name is also that of a directory and an environment variable's value.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_APPS = 1_000


def load(text: str) -> tuple[tuple[AppSpec, ...], tuple[DocumentError, ...]]:
    """The applications of a file; none where there is any error, and all errors in order of lines."""
    tree, mistakes = parse(text)
    reader = _AppReader()
    apps = reader.apps(tree) if tree is not None else ()
    if tree is None and not mistakes:
        mistakes = (DocumentError(1, 1, "the file is empty; it needs a list of apps"),)
    found = tuple(sorted({*mistakes, *reader.errors}))
    return (() if found else apps), found


class _AppReader(FieldReader):
    def apps(self, tree: Node) -> tuple[AppSpec, ...]:
        fields = self.mapping(tree, "the file", ("apps",))
        if isinstance(tree, YamlMapping) and "apps" not in fields:
            self.add_error(tree.mark, "the file has no list of apps")
        found: dict[str, AppSpec] = {}
        for node in self.items(fields, "apps")[: MAX_APPS + 1]:
            spec = self._app(node)
            if spec.name in found and spec.name:
                self.add_error(node.mark, f"the app {spec.name!r} is declared twice")
            found[spec.name] = spec
        if len(found) > MAX_APPS:
            self.add_error(tree.mark, f"the file has more than {MAX_APPS} apps")
        return tuple(found.values())

    def _app(self, node: Node) -> AppSpec:
        fields = self.mapping(node, "an app", _APP)
        name = self._name(node, fields)
        kind, launcher = self._launcher(node, fields, name)
        values, files = self._environment(fields)
        version = self.string(fields, "version")
        labels = self._labels(fields, version)
        grace, drain = self._stop(fields)
        policy = self._policy(fields, kind, launcher)
        return AppSpec(
            name=name,
            kind=kind,
            launcher=launcher,
            version=version.value if version else "",
            labels=labels,
            environment=values,
            environment_files=files,
            desired=self._desired(fields),
            policy=policy,
            grace_seconds=grace,
            drain_seconds=drain,
        )

    def _name(self, node: Node, fields: Fields) -> str:
        name = self.string(fields, "name")
        if name is None:
            self.add_error(node.mark, "an app needs a name")
            return ""
        if not NAME.fullmatch(name.value):
            allowed = "letters, digits, '.', '_' and '-', beginning with a letter or digit"
            self.add_error(name.mark, f"the name {name.value[:60]!r} must be 1 to 100 {allowed}")
        return name.value

    def _launcher(self, node: Node, fields: Fields, name: str) -> tuple[str, LauncherSettings]:
        section = fields.get("launcher")
        if section is None:
            self.add_error(node.mark, f"an app needs a launcher; its kind is one of {', '.join(KINDS)}")
            return "", {}
        named = self._kind(section)
        if named is None:
            return "", {}
        kind = KINDS[named.value]
        own = self.mapping(section, f"a launcher of kind {kind.name}", ("kind", *kind.fields))
        settings = kind.read(Section(self, own, section.mark, kind.name))
        if kind is kubernetes.KIND and not kubernetes.NAME.fullmatch(name):
            message = (
                "on Kubernetes must be at most 52 small letters, digits and '-', beginning with a letter"
            )
            self.add_error(node.mark, f"the name {name[:60]!r} of an app {message}")
        return kind.name, settings

    def _kind(self, section: Node) -> YamlScalar | None:
        """The kind, where it is known."""
        if not isinstance(section, YamlMapping):
            self.mapping(section, "launcher", ())
            return None
        kind = self.string({key.value: value for key, value in section.entries}, "kind")
        if kind is None:
            self.add_error(section.mark, f"a launcher needs a kind: {', '.join(KINDS)}")
        elif kind.value not in KINDS:
            self.add_error(kind.mark, f"there is no launcher {kind.value[:40]!r}; kinds: {', '.join(KINDS)}")
            return None
        return kind

    def _labels(self, fields: Fields, version: YamlScalar | None) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in self.pairs(fields, "labels"):
            if "," in value.value or "," in key.value or "=" in key.value:
                self.add_error(value.mark, f"labels: {key.value[:60]!r} must have no comma")
            if key.value == VERSION_LABEL and version is not None:
                self.add_error(key.mark, f"labels: {VERSION_LABEL} is set by the field version")
            found[key.value] = value.value
        if version is not None and "," in version.value:
            self.add_error(version.mark, "version: must have no comma")
        try:
            wire.check_labels(found)
        except AgentError as error:
            self.add_error(fields["labels"].mark, f"labels: {error}")
        return found

    def _environment(self, fields: Fields) -> tuple[dict[str, str], dict[str, str]]:
        """Variables with their values, and those whose value is read from a file at the start."""
        node = fields.get("env")
        values: dict[str, str] = {}
        files: dict[str, str] = {}
        if not isinstance(node, YamlMapping):
            list(self.pairs(fields, "env"))
            return values, files
        for key, value in node.entries:
            if not VARIABLE.fullmatch(key.value):
                self.add_error(key.mark, f"env: {key.value[:60]!r} is not the name of a variable")
            if isinstance(value, YamlMapping):
                file = self.string(self.mapping(value, f"env.{key.value}", ("file",)), "file")
                if file is None or not file.value.startswith("/"):
                    self.add_error(value.mark, f"env.{key.value}: needs file, an absolute path")
                files[key.value] = file.value if file else ""
            elif isinstance(value, YamlScalar):
                values[key.value] = "" if value.is_null else value.value
            else:
                self.add_error(value.mark, f"env.{key.value}: expected a string, or a mapping with file")
        return values, files

    def _desired(self, fields: Fields) -> DesiredAppState:
        desired = self.string(fields, "desired")
        if desired is None:
            return DesiredAppState.RUNNING
        if desired.value not in tuple(DesiredAppState):
            self.add_error(desired.mark, f"desired: {desired.value[:40]!r} is neither running nor stopped")
            return DesiredAppState.STOPPED
        return DesiredAppState(desired.value)

    def _stop(self, fields: Fields) -> tuple[float, float]:
        """Seconds of grace and of drain."""
        if "stop" not in fields:
            return GRACE_SECONDS, DRAIN_SECONDS
        stop = self.mapping(fields["stop"], "stop", ("grace", "drain"))
        grace, drain = self.seconds(stop, "grace"), self.seconds(stop, "drain")
        return GRACE_SECONDS if grace is None else grace, DRAIN_SECONDS if drain is None else drain

    def _policy(self, fields: Fields, kind: str, launcher: LauncherSettings) -> str | None:
        """The restart policy's name. Another system must not restart the same driver."""
        if "restart" not in fields:
            return None
        policy = self.string(self.mapping(fields["restart"], "restart", ("policy",)), "policy")
        if policy is None:
            self.add_error(fields["restart"].mark, "restart needs policy: the name of a restart policy")
            return None
        if not self.errors and _restarts_itself(kind, launcher):
            message = (
                "two systems would restart this driver: leave out supervise, or the operator's restart policy"
            )
            self.add_error(policy.mark, f"restart: {message}")
        return policy.value


def _restarts_itself(kind: str, launcher: LauncherSettings) -> bool:
    if kind == "kubernetes":
        return kubernetes.restart_policy(launcher) != "Never"
    return bool(launcher.get("supervise"))
