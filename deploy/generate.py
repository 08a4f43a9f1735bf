"""Write the files of deploy/ that are made from the shipped rules and from the dashboards in code: `python -m deploy.generate`.

A test compares them with what this module makes, so a change of a rule or a dashboard without them fails.
"""

from __future__ import annotations

from pathlib import Path

from controlplane.cli.rule_export import as_yaml, prometheus_rule, rule_file, shipped
from deploy.grafana_dashboards import DASHBOARDS, as_json

DEPLOY = Path(__file__).resolve().parent
#: Address of the dashboard in the samples.
EXTERNAL_URL = "https://streaming.example.com"


def contents() -> dict[Path, str]:
    """The text of each generated file."""
    rules = rule_file(shipped(EXTERNAL_URL))
    return {
        DEPLOY / "kubernetes/components/monitoring/prometheus-rule.yaml": as_yaml(
            prometheus_rule(rules, "spark-controlplane")
        ),
        DEPLOY / "helm/spark-controlplane/files/rules.yaml": as_yaml(rules),
        **{DEPLOY / f"grafana/{name}.json": as_json(name) for name in DASHBOARDS},
    }


def main() -> None:
    """Write the files anew."""
    for path, text in contents().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
