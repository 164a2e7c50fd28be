"""``holdfast render``: prints what an administrator applies, includes or submits.

A literal table, name → module. A module is imported only when its document is rendered: a node may
lack what the other documents need.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence
from typing import cast

from holdfast.cli.console import complain, say_document
from holdfast.errors import HoldfastError, UsageError
from holdfast.render.document import Document, suggest

TABLE: Mapping[str, str] = {
    "soperator": "slurm_hooks.deploy.soperator:VALUES",
    "soperator-nodeset": "slurm_hooks.deploy.soperator:NODESET",
    "slinky": "slurm_hooks.deploy.slinky:VALUES",
    "slurm-conf": "slurm_hooks.deploy.slurm_conf:LINES",
    "slurm-hook": "slurm_hooks.deploy.slurm_conf:HOOK",
    "systemd": "slurm_hooks.deploy.systemd:UNIT",
    "daemonset": "slurm_hooks.deploy.daemonset:DAEMONSET",
    "configuration": "slurm_hooks.deploy.configuration:FILE",
    "inspection": "slurm_hooks.deploy.inspection:INSPECTION",
    "inspection-cronjob": "slurm_hooks.deploy.inspection:CRONJOB",
    "sbatch": "slurm_hooks.deploy.batch:SCRIPT",
    "rbac": "k8s_bridge.render.rights:RBAC",
    "workloads-rbac": "k8s_bridge.render.rights:WORKLOADS_RBAC",
    "worker-pods": "k8s_bridge.render.rights:WORKER_PODS",
    "deployment": "k8s_bridge.render.pod:DEPLOYMENT",
    "network-policy": "k8s_bridge.render.pod:NETWORK_POLICY",
    "off": "k8s_bridge.render.pod:OFF",
    "prometheus-rules": "holdfast.monitoring.documents:RULES",
    "pod-monitor": "holdfast.monitoring.documents:BRIDGE_MONITOR",
    "agent-pod-monitor": "holdfast.monitoring.documents:AGENT_MONITOR",
    "dashboard": "holdfast.monitoring.documents:DASHBOARD",
    "bash-completion": "holdfast.cli.commands.completion.documents:BASH",
    "man-page": "holdfast.cli.commands.completion.documents:MAN",
}
"""Name of the document → where its ``Document`` is."""


def document(what: str) -> Document:
    """Raises ``UsageError`` for a word that is not in the table."""
    if what not in TABLE:
        raise UsageError(f"nothing called {what!r} to render{suggest(what, TABLE)}")
    module, _, name = TABLE[what].partition(":")
    return cast("Document", getattr(importlib.import_module(module), name))


def render_text(what: str, **values: str) -> str:
    """The document's text. Raises ``UsageError`` for an unknown name or an invalid value."""
    return document(what).text(what, values)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    width = max(map(len, TABLE)) + 2
    rows = [f"  {name:{width}}{document(name).about}" for name in TABLE]
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast render",
        description="Print a document to be applied, included or submitted:\n" + "\n".join(rows),
        epilog="examples:\n"
        "  holdfast render rbac | kubectl apply -f -\n"
        "  holdfast render slurm-conf --set onto=/etc/slurm/slurm.conf\n"
        "  holdfast render soperator --values    # what can be set, and what it means",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", metavar="WHAT", help=", ".join(TABLE))
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="set a value; may be repeated",
    )
    parser.add_argument(
        "--values", action="store_true", help="print the values that the document takes"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``holdfast render``. Exit status 0, or 2 for a usage error."""
    arguments = parser().parse_args(argv)
    try:
        text = _values(arguments.what) if arguments.values else _render(arguments)
    except HoldfastError as error:
        complain(f"holdfast render: {error}")
        return 2
    say_document(text)
    return 0


def _render(arguments: argparse.Namespace) -> str:
    pairs = [setting.partition("=") for setting in arguments.settings]
    bad = next((name for name, equals, _ in pairs if not equals or not name), None)
    if bad is not None:
        raise UsageError(f"--set takes NAME=VALUE, got {bad!r}")
    return render_text(arguments.what, **{name: value for name, _, value in pairs})


def _values(what: str) -> str:
    """One line for each value: its name with the default, then its meaning."""
    values = document(what).values
    if not values:
        return f"# {what} takes no values\n"
    shown = {
        name: f"{name}=" + ("…" if value.required else value.default)
        for name, value in values.items()
    }
    width = max(map(len, shown.values()), default=0)
    return "".join(f"{text:{width}}  # {values[name].about}\n" for name, text in shown.items())
