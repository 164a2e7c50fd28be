"""The documents of ``holdfast render``."""

from __future__ import annotations

from collections.abc import Mapping

TABLE: Mapping[str, str] = {
    "soperator": "slurm_hooks.deploy.soperator:VALUES",
    "soperator-nodeset": "slurm_hooks.deploy.soperator:NODESET",
    "slinky": "slurm_hooks.deploy.slinky:VALUES",
    "slurm-conf": "slurm_hooks.deploy.slurm_conf:LINES",
    "systemd": "slurm_hooks.deploy.systemd:UNIT",
    "daemonset": "slurm_hooks.deploy.daemonset:DAEMONSET",
    "configuration": "slurm_hooks.deploy.configuration:FILE",
    "inspection": "slurm_hooks.deploy.inspection:INSPECTION",
    "inspection-cronjob": "slurm_hooks.deploy.inspection:CRONJOB",
    "sbatch": "slurm_hooks.deploy.batch:SCRIPT",
    "rbac": "k8s_bridge.render:RBAC",
    "deployment": "k8s_bridge.render:DEPLOYMENT",
    "network-policy": "k8s_bridge.render:NETWORK_POLICY",
    "off": "k8s_bridge.render:OFF",
    "bash-completion": "holdfast.cli.completion:BASH",
    "man-page": "holdfast.cli.completion:MAN",
}
"""Name of the document → where its ``Document`` is."""
