"""Load rule files and the notification configuration into one value, or report every error in them.

Without rule files the shipped pack is used; without a configuration the webhook of the settings, if any. `SHIPPED`
among the rule files stands for the pack. Called at the start and whenever a file has changed.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from alerts.matching.labels import Labels
from alerts.notify import alertmanagers, catalogue
from alerts.notify import config as routing
from alerts.notify.alertmanagers import AlertmanagerEndpoint
from alerts.notify.configuration.schema import Settings as Fields
from alerts.notify.http.building import http_client
from alerts.notify.receivers.base import Receiver
from alerts.notify.remote_write import selectors
from alerts.rules import loader, pack
from alerts.rules.model import Rule, RuleGroup
from alerts.templates.library import library
from alerts.yaml.tree import DocumentError
from controlplane.errors import SettingsError
from controlplane.metrics.remote_write.sending import RemoteWriteTarget
from controlplane.settings import Settings

T = TypeVar("T")
SHIPPED = "shipped"
#: For groups without an interval.
DEFAULT_INTERVAL_SECONDS = 15.0


@dataclass(frozen=True)
class Rulebook:
    """Rule groups, notification configuration, and receivers by configured name. `notify`: the configuration's file."""

    groups: tuple[RuleGroup, ...]
    config: routing.Config
    receivers: Mapping[str, tuple[Receiver, ...]]
    interval: float = DEFAULT_INTERVAL_SECONDS
    notify: Path | None = None
    alertmanagers: tuple[AlertmanagerEndpoint, ...] = ()
    remote_write: tuple[RemoteWriteTarget, ...] = ()


def load(settings: Settings) -> Rulebook:
    """Load all files. Raises SettingsError with every error, one per line: `FILE:LINE:COLUMN: message`."""
    mistakes: list[str] = []
    groups = tuple(_groups(settings, mistakes))
    mistakes += [f"two groups are called {name!r} in {source}" for source, name in _twice(groups)]
    config = _config(settings, mistakes)
    files = configuration_files(settings)
    receivers = _receivers(config, files, mistakes) if config is not None else {}
    alertmanagers = _alertmanagers(config, files, mistakes) if config is not None else ()
    remote_write = _remote_write(config, files, mistakes) if config is not None else ()
    if mistakes or config is None:
        raise SettingsError("\n".join(mistakes), detail={"mistakes": mistakes})
    interval = DEFAULT_INTERVAL_SECONDS * min(1.0, settings.rules_scale)
    return Rulebook(groups, config, receivers, interval, settings.notify, alertmanagers, remote_write)


def rule_files(settings: Settings, mistakes: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and content of each rule file."""
    for name in settings.rules or (SHIPPED,):
        if name == SHIPPED:
            yield SHIPPED, pack.render(settings.rules_scale, f"{settings.dashboard_url}/runbook?name=")
        elif (text := _read(Path(name), mistakes)) is not None:
            yield name, text


def _groups(settings: Settings, mistakes: list[str]) -> Iterator[RuleGroup]:
    for name, text in rule_files(settings, mistakes):
        groups, found = loader.load(text, source=name)
        mistakes += format_errors(name, found)
        yield from groups


def _config(settings: Settings, mistakes: list[str]) -> routing.Config | None:
    if settings.notify is None:
        text: str | None = pack.render_routing(settings.rules_scale, settings.webhook)
    else:
        text = _read(settings.notify, mistakes)
    if text is None:
        return None
    config, found = routing.load(text)
    mistakes += format_errors(str(settings.notify or "CONTROLPLANE_WEBHOOK"), found)
    return config


@dataclass(frozen=True)
class ConfigurationFiles:
    """Files that a configuration names; relative paths start at its own folder."""

    folder: Path = Path()

    def path(self, path: str) -> str:
        return str(self.folder / path)

    def read(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def matching(self, patterns: Iterable[str]) -> list[Path]:
        """Files of `templates`, in the order of patterns and names."""
        return [Path(name) for pattern in patterns for name in sorted(glob.glob(self.path(pattern)))]


def configuration_files(settings: Settings) -> ConfigurationFiles:
    """The files of the configuration in use."""
    return ConfigurationFiles(settings.notify.parent if settings.notify else Path())


def _receivers(
    config: routing.Config, files: ConfigurationFiles, mistakes: list[str]
) -> dict[str, tuple[Receiver, ...]]:
    def build() -> dict[str, tuple[Receiver, ...]]:
        texts = [(str(path), path.read_text(encoding="utf-8")) for path in files.matching(config.templates)]
        return catalogue.build(config, files, library(texts))

    return _built(build, mistakes) or {}


def _alertmanagers(
    config: routing.Config, files: ConfigurationFiles, mistakes: list[str]
) -> tuple[AlertmanagerEndpoint, ...]:
    def build() -> tuple[AlertmanagerEndpoint, ...]:
        settings = [catalogue.resolved(item, files) for item in config.alertmanagers]
        return alertmanagers.endpoints(settings, files.read)

    return _built(build, mistakes) or ()


def _remote_write(
    config: routing.Config, files: ConfigurationFiles, mistakes: list[str]
) -> tuple[RemoteWriteTarget, ...]:
    def build() -> tuple[RemoteWriteTarget, ...]:
        settings = (catalogue.resolved(item, files) for item in config.remote_write)
        return tuple(_target(item, config.external_labels, files) for item in settings)

    return _built(build, mistakes) or ()


def _target(settings: Fields, external: Labels, files: ConfigurationFiles) -> RemoteWriteTarget:
    return RemoteWriteTarget(
        url=settings["url"],
        client=http_client(settings, files.read).with_timeout(settings["remote_timeout"]),
        headers=settings["headers"],
        interval=settings["interval"],
        selectors=selectors(settings),
        external_labels=external,
        name=settings["name"],
    )


def _built(build: Callable[[], T], mistakes: list[str]) -> T | None:
    """What `build` returns; None where files or values that a configuration names are unusable."""
    try:
        return build()
    except (OSError, UnicodeDecodeError) as error:
        mistakes.append(f"cannot read {getattr(error, 'filename', None) or 'a secret'}: {_why(error)}")
    except ValueError as error:
        mistakes += str(error).splitlines()
    return None


def _read(path: Path, mistakes: list[str]) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        mistakes.append(f"cannot read {path}: {_why(error)}")
        return None


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or "it is not UTF-8 text"


def format_errors(name: str, mistakes: Iterable[DocumentError]) -> list[str]:
    """`FILE:LINE:COLUMN: message` for each error."""
    return [f"{name}:{m.line}:{m.column}: {m.message}" for m in mistakes]


def _twice(groups: Iterable[RuleGroup]) -> Iterator[tuple[str, str]]:
    """Groups with equal keys, from a file listed twice; their states could not be distinguished."""
    seen: set[str] = set()
    for group in groups:
        if group.key in seen:
            yield group.source, group.name
        seen.add(group.key)


def rule_keys(group: RuleGroup) -> tuple[str, ...]:
    """Keys of a group's rules, stable when other rules are inserted: `Name`, `Name#2`."""
    seen: dict[str, int] = {}
    return tuple(_numbered(rule, seen) for rule in group.rules)


def _numbered(rule: Rule, seen: dict[str, int]) -> str:
    count = seen[rule.name] = seen.get(rule.name, 0) + 1
    return rule.name if count == 1 else f"{rule.name}#{count}"
