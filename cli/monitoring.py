"""`pybroker monitoring`: files with which Prometheus and Grafana watch a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .options import UserError

PROMETHEUS = """global:
  scrape_interval: 15s
rule_files: [alerts.yml]
scrape_configs:
  - job_name: kafka
    static_configs:
      - targets: {targets}
"""
DASHBOARDS_OF_DIRECTORY = """apiVersion: 1
providers:
  - name: pybroker
    type: file
    options:
      path: {directory}
"""


@click.command(
    epilog="""\b
Examples:
  pybroker start --metrics-port 9101
  pybroker monitoring watch -t 127.0.0.1:9101 -t 127.0.0.1:9102
  prometheus --config.file watch/prometheus.yml
"""
)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    required=True,
    metavar="HOST:PORT",
    help="Metrics address of a broker; repeat it for each broker.",
)
def monitoring(directory: Path, targets: tuple[str, ...]) -> None:
    """Write files for Prometheus and Grafana into DIRECTORY.

    prometheus.yml scrapes the targets. alerts.yml has alerts, each with advice. grafana/*.json are
    dashboards of the cluster, topics, groups and broker internals: import them, or point Grafana's
    provisioning at grafana/provisioning.yml.
    """
    from ..broker.observability.alerts import rules_file
    from ..broker.observability.dashboards import dashboards

    grafana = directory / "grafana"
    files = {
        directory / "prometheus.yml": PROMETHEUS.format(targets=json.dumps(list(targets))),
        directory / "alerts.yml": rules_file(),
        grafana / "provisioning.yml": DASHBOARDS_OF_DIRECTORY.format(
            directory=json.dumps(str(grafana.resolve()))
        ),
    }
    for name, dashboard in dashboards().items():
        files[grafana / f"{name}.json"] = json.dumps(dashboard, indent=2) + "\n"
    try:
        grafana.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text)
            click.echo(path)
    except OSError as error:
        raise UserError(f"cannot write {error.filename}: {error.strerror}") from None
