"""The top-level keys of the configuration and the dataclass of each.

The classes are imported only when a section is read or checked, so a node without the bridge's packages can
read its own sections.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

SECTIONS: Mapping[str, str] = {
    "cluster": "builtins:str",
    "paths": "holdfast.config.schema:PathsConfig",
    "slurm": "holdfast.config.schema:SlurmConfig",
    "node": "slurm_hooks.settings.sections:NodeConfig",
    "agent": "slurm_hooks.settings.sections:AgentConfig",
    "checks": "slurm_hooks.settings.sections:CHECKS",
    "active": "slurm_hooks.active.config:ActiveConfig",
    "job": "slurm_hooks.settings.job:JobConfig",
    "notify": "slurm_hooks.settings.notify:NotifyConfig",
    "bridge": "k8s_bridge.config:BridgeConfig",
}


def schema_of(name: str) -> Any:
    """The schema of that section, for ``load.load_section``. Raises ``ImportError`` where its package is
    not installed.
    """
    module, _, attribute = SECTIONS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
