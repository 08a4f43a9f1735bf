"""`controlplane rules export`: rules as a file of Prometheus, or as a PrometheusRule of the Prometheus Operator.

Needs no server. Without FILE it exports the shipped rules, and with them the rules about the server itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from alerts.rules import loader, pack
from controlplane.cli.options import settings_of
from controlplane.console.errors import UsageProblem

FORMATS = ("prometheus", "prometheusrule")


@click.command("export")
@click.option("--format", "form", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True)
@click.option("--name", default="spark-controlplane", show_default=True, help="Name of the PrometheusRule.")
@click.option("--namespace", metavar="NAME", help="Namespace of the PrometheusRule.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="Label of the PrometheusRule, for the ruleSelector of a Prometheus; may be repeated.",
)
@click.option(
    "--external-url", metavar="URL", help="Address of the dashboard; links to runbooks begin with it."
)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE…]")
def export_rules(
    form: str,
    name: str,
    namespace: str | None,
    labels: tuple[str, ...],
    external_url: str | None,
    files: tuple[Path, ...],
) -> None:
    """Print rules for another Prometheus: the shipped ones, or those of FILE."""
    texts = [_checked(file) for file in files] or shipped(
        settings_of(external_url=external_url).dashboard_url
    )
    document = rule_file(texts)
    if form == "prometheusrule":
        document = prometheus_rule(document, name, namespace, dict(map(_label, labels)))
    click.echo(as_yaml(document), nl=False)


def shipped(dashboard_url: str) -> list[str]:
    """The rule files about queries and about the server; runbooks are pages of the dashboard."""
    runbooks = f"{dashboard_url}/runbook?name="
    return [pack.render(runbooks=runbooks), pack.render_server_rules(runbooks=runbooks)]


def rule_file(texts: Iterable[str]) -> dict[str, Any]:
    """One rule file with the groups of all files; UsageProblem where two groups have one name."""
    groups = [group for text in texts for group in yaml.safe_load(text)["groups"]]
    names = [group["name"] for group in groups]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageProblem(f"two groups are called {twice[0]!r}")
    return {"groups": groups}


def prometheus_rule(
    document: Mapping[str, Any],
    name: str,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The resource of the Prometheus Operator with these groups."""
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata,
        "spec": dict(document),
    }


def as_yaml(document: Mapping[str, Any]) -> str:
    """YAML in the order of the document, with expressions as blocks."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _checked(file: Path) -> str:
    """The text of a rule file; UsageProblem with every error of it."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(
            f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}"
        ) from None
    _, mistakes = loader.load(text, str(file))
    if mistakes:
        raise UsageProblem("\n".join(f"{file}:{m.line}:{m.column}: {m.message}" for m in mistakes))
    return text


def _label(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise UsageProblem(f"--label {text!r} is not of the form NAME=VALUE")
    return name, value
