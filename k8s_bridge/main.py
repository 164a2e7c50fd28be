"""``holdfast bridge``: keep Slurm and Kubernetes consistent."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.console import complain
from holdfast.config.path import config_path
from holdfast.errors import HoldfastError
from k8s_bridge import show
from k8s_bridge.config import BridgeConfig
from k8s_bridge.feature import Feature
from k8s_bridge.loop import Bridge
from k8s_bridge.rules.rule import RuleMode
from k8s_bridge.slurm_view import Topology
from k8s_bridge.worker_pods import disruptions
from k8s_bridge.worker_pods.disruptions import Disruptions, is_wanted
from k8s_bridge.worker_pods.protection import Protection
from k8s_bridge.workloads.recovery import Recovery

if TYPE_CHECKING:
    from k8s_bridge import service
    from k8s_bridge.endpoints.metrics import BridgeMetrics
    from k8s_bridge.kube.client import KubeApi


_EPILOG = """\
examples:
  holdfast bridge                    # as a service: runs until SIGTERM
  holdfast bridge --plan
  holdfast bridge --node worker-3 --json

exit status: 0 stopped, no pending changes (--plan) or shown (--node), 1 there are pending changes or
no such node, 2 usage error, or the configuration is invalid, or one side does not answer
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``holdfast bridge``.

    Exit status 0, 1 (``--plan``: there are changes), 2 (cannot run).
    """
    from k8s_bridge import service  # noqa: PLC0415 - not needed for ``--help``

    arguments = parser().parse_args(argv)
    path = config_path(arguments.config)

    def make(parts: service.Parts, tools: service.Tools) -> Bridge:
        bridge = Bridge(parts.slurm, parts.kube, parts.policy, path, tools.metrics)
        bridge.health, bridge.board, bridge.trace = tools.health, tools.board, tools.trace
        bridge.topology = topology(parts)
        bridge.verbose = arguments.verbose
        bridge.features = features(parts.kube, parts.policy, bridge.is_off, tools.metrics)
        if is_wanted(parts.policy):
            ending = Disruptions(parts.kube, parts.policy.worker_pods_namespace, bridge.wake.set)
            bridge.features.append(ending)
            bridge.disruptions = ending.found
        return bridge

    try:
        if arguments.plan or arguments.node:
            parts = service.compose(path)
            look = _look(parts, path, arguments.node)
            if arguments.node:
                return show.show_node(look, arguments.node, as_json=arguments.json)
            return show.show_plan(look, as_json=arguments.json)
        return service.Service(path, make).run()
    except HoldfastError as error:
        for line in str(error).splitlines():
            complain(f"holdfast bridge: {line}")
        return 2


def _look(parts: service.Parts, path: Path, node: str | None) -> show.Look:
    """Both sides, and what the rules need besides; of ``node`` alone, if it is given."""
    look = show.look(parts.slurm, parts.kube, parts.policy, path)
    domains = topology(parts)
    domains.refresh()
    pod = show.slurm_name(look, node) if node else ""
    pods = disruptions.ending(parts.kube, parts.policy, pod) if pod or not node else {}
    return look._replace(domains=domains.domains, pods=pods)


def topology(parts: service.Parts) -> Topology:
    """Slurm's leaf switches or blocks, where a rule needs them as failure domains."""
    drains = any(one.rule.mode is RuleMode.DRAIN for one in parts.policy.rules)
    needed = drains and not parts.policy.budget.domain_label
    return Topology(parts.slurm.topology if needed else None)


def features(
    kube: KubeApi, policy: BridgeConfig, is_off: Callable[[], bool], metrics: BridgeMetrics
) -> list[Feature]:
    """Those that the configuration asks for. ``is_off``: a kill switch stops all actions."""
    found: list[Feature] = []
    if policy.workloads.namespaces:
        found.append(Recovery(kube, policy, is_off, metrics.workload_restarted))
    if policy.worker_pods_namespace:
        found.append(Protection(kube, policy.worker_pods_namespace, is_off))
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast bridge",
        description="Keep Slurm and Kubernetes consistent: drains become conditions, cordons and taints; "
        "cordons become drains.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="default: $HOLDFAST_CONFIG, else /etc/holdfast/holdfast.yaml",
    )
    parser.add_argument(
        "--plan", action="store_true", help="print the pending changes, write nothing, and exit"
    )
    parser.add_argument(
        "--node",
        metavar="NAME",
        help="print both sides of one node, named as in Slurm or Kubernetes",
    )
    parser.add_argument("--json", action="store_true", help="with --plan and --node: as JSON")
    parser.add_argument("--verbose", action="store_true", help="log each change")
    return parser
