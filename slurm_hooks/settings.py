"""Everything that the agent, the check command and the hooks' slow path read from the
configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.config.load import load_section, load_table
from holdfast.config.location import ALL, switches_off
from holdfast.config.schema import ClusterConfig, load_cluster
from holdfast.vocabulary import Mode
from slurm_hooks import checks, machine
from slurm_hooks.config import CHECKS, AgentConfig, CheckConfig, NodeConfig, enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of one node. ``path`` is where it came from; ``checks`` has every check.

    ``stamp``: of the file just before it was read, so that no later change of it is missed.
    """

    path: Path
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    node: NodeConfig = field(default_factory=NodeConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    checks: Mapping[str, CheckConfig[Any]] = field(default_factory=dict)
    stamp: tuple[int, int] = (0, 0)

    def active(self) -> dict[str, CheckConfig[Any]]:
        """The checks that run now, after the kill switches beside the configuration.

        ``off/all`` leaves them all looking and none acting.
        """
        off = switches_off(self.path)
        table = dict(enabled(self.checks, off))
        if ALL in off:
            table = {name: replace(config, mode=Mode.OBSERVE) for name, config in table.items()}
        return table

    def may_act(self) -> bool:
        """False while somebody has switched every action off."""
        return ALL not in switches_off(self.path)

    @property
    def expected_hcas(self) -> frozenset[str]:
        """The InfiniBand cards that this node must have."""
        hcas: frozenset[str] = self.checks["infiniband"].limits.hcas
        return hcas

    def probes(self, table: Mapping[str, CheckConfig[Any]]) -> set[str]:
        """The probes that these checks need."""
        wanted = {checks.load(name).NEEDS for name in table}
        for name in table:
            wanted |= getattr(checks.load(name), "ALSO", frozenset())
        return wanted - {""}


def load(path: Path) -> Settings:
    """The settings; all defaults where there is no file. Raises ``ConfigError``."""
    stamp = machine.stamp(path)
    return Settings(
        path=path,
        stamp=stamp,
        cluster=load_cluster(path),
        node=load_section(path, "node", NodeConfig),
        agent=load_section(path, "agent", AgentConfig),
        checks=load_table(path, "checks", CHECKS),
    )
