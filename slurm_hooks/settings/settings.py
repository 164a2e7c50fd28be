"""The configuration of one node, as the agent, ``holdfast check`` and the hooks' slow path read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.config.kill_switch_files import ALL, switches_off
from holdfast.config.load import YamlDocument
from holdfast.config.schema import ClusterConfig
from holdfast.errors import ConfigError
from holdfast.vocabulary import Mode
from slurm_hooks import checks
from slurm_hooks.node import machine
from slurm_hooks.settings import last_good, sections
from slurm_hooks.settings.job import JobConfig
from slurm_hooks.settings.notify import NotifyConfig
from slurm_hooks.settings.sections import AgentConfig, CheckConfig, NodeConfig, enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of one node. ``path`` is its file; ``checks`` has every check.

    ``stamp``: of the file just before it was read, so that no later change is missed. ``text``:
    what was read, None without a file. ``problems``: why the copy of the last accepted file is used
    instead of the file, one line each.
    """

    path: Path
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    node: NodeConfig = field(default_factory=NodeConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    checks: Mapping[str, CheckConfig[Any]] = field(default_factory=dict)
    job: JobConfig = field(default_factory=JobConfig)
    notify: NotifyConfig = field(default_factory=NotifyConfig)
    stamp: tuple[int, int] = (0, 0)
    text: str | None = None
    problems: tuple[str, ...] = ()

    def active(self) -> dict[str, CheckConfig[Any]]:
        """The checks that run now, according to the kill switches beside the configuration.

        With ``off/all`` all checks run in mode observe.
        """
        off = switches_off(self.path)
        table = dict(enabled(self.checks, off))
        if ALL in off:
            table = {name: replace(check, mode=Mode.OBSERVE) for name, check in table.items()}
        return table

    def may_act(self) -> bool:
        """False while all actions are switched off (``off/all``)."""
        return ALL not in switches_off(self.path)

    @property
    def expected_hcas(self) -> frozenset[str]:
        """The InfiniBand cards that this node must have."""
        hcas: frozenset[str] = self.checks["infiniband"].limits.hcas
        return hcas

    def probes(self, table: Mapping[str, CheckConfig[Any]]) -> set[str]:
        """The probes that these checks need."""
        probes: set[str] = set()
        for check in map(checks.load, table):
            probes |= {check.probe, *check.also}
        return probes - {""}


def load(path: Path) -> Settings:
    """The file's settings; all defaults if there never was a file. Raises ``ConfigError`` with
    every problem of every section that a node reads.
    """
    stamp = machine.stamp(path)
    return replace(of(last_good.read(path)), path=path, stamp=stamp)


def usable(path: Path) -> Settings:
    """As ``load``; if the file is invalid, the settings that were accepted last. Raises
    ``ConfigError`` if there are none that are valid.
    """
    stamp = machine.stamp(path)
    document, problems = last_good.in_force(path, of)
    try:
        found = of(document)
    except ConfigError as error:
        raise ConfigError("\n".join([*problems, str(error)])) from None
    return replace(found, path=path, stamp=stamp, problems=problems)


def of(document: YamlDocument) -> Settings:
    """The settings in a document. Raises ``ConfigError``."""
    found = Settings(
        path=document.path,
        cluster=document.top(ClusterConfig),
        node=document.section("node", NodeConfig),
        agent=document.section("agent", AgentConfig),
        checks=document.section("checks", sections.CHECKS),
        job=document.section("job", JobConfig),
        notify=document.section("notify", NotifyConfig),
        text=document.text,
    )
    document.refuse()
    return found
