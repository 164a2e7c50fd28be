"""The configuration of a command that has to work where the configuration is missing or invalid.

The defaults are used then. ``SiteConfig.complain`` prints each problem once, at the end of the command.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from holdfast.cli.console import complain
from holdfast.config import kill_switches
from holdfast.config.kill_switch_files import switches_off
from holdfast.config.load import load_section
from holdfast.config.path import config_path
from holdfast.config.schema import ClusterConfig, load_cluster
from holdfast.config.sections import schema_of
from holdfast.errors import ConfigError
from holdfast.slurm.adapter import open_slurm
from holdfast.slurm.cli import SlurmCli

T = TypeVar("T")

USED_WRONGLY = 2
"""Exit status of a command that used the defaults instead of an invalid configuration."""


@dataclass(kw_only=True)
class SiteConfig:
    """``path`` is the configuration's file. ``problems``: what is wrong with it, one line each."""

    path: Path
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    problems: dict[str, None] = field(default_factory=dict)

    @property
    def valid_path(self) -> Path:
        """The file; if it is invalid, one beside it that does not exist, which means all defaults and the
        same kill switches."""
        return self.path.with_name(".defaults") if self.problems else self.path

    def section(self, name: str, schema: type[T]) -> T:
        """A section; if it is invalid, its defaults."""
        try:
            return load_section(self.path, name, schema)
        except ConfigError as error:
            self._note(error)
            return schema()

    def slurm(self) -> SlurmCli:
        """Slurm as configured; through its commands where that adapter cannot be used."""
        config = self.cluster.slurm
        try:
            return open_slurm(config, self._token_file())
        except ConfigError as error:
            self._note(error)
            return SlurmCli(config.timeout_s, config.bin)

    def _token_file(self) -> str:
        """``bridge.slurm_token_file`` if this user may read it: in the bridge's pod Slurm accepts nothing else.

        Empty where the environment has a token, which then counts, and where the section cannot be used.
        """
        if os.environ.get("SLURM_JWT"):
            return ""
        try:
            path: str = load_section(self.path, "bridge", schema_of("bridge")).slurm_token_file
        except (ConfigError, ImportError):  # without k8s_bridge there is no bridge on this machine
            return ""
        return path if os.access(path, os.R_OK) else ""

    def complain(self, command: str) -> int:
        """Print the problems on standard error. Returns the exit status: 0, or 2 if there are any."""
        for line in self.problems:
            complain(f"holdfast {command}: the configuration is invalid, using defaults: {line}")
        return USED_WRONGLY if self.problems else 0

    def without_repetition(self, problem: str) -> str:
        """The problem of another command, for the page: one that ``complain`` prints is only named."""
        return "the configuration is invalid" if problem in self.problems else problem

    def kill_switches(self) -> list[str]:
        """One line for each kill switch on this machine: what it stops."""
        return list(kill_switches.described(self.path, check_names(self.path)))

    def _note(self, error: ConfigError) -> None:
        self.problems |= dict.fromkeys(str(error).splitlines())


def load(path: str | Path | None = None) -> SiteConfig:
    """The shared sections of the configuration. Raises nothing."""
    found = SiteConfig(path=config_path(path))
    try:
        found.cluster = load_cluster(found.path)
    except ConfigError as error:
        found._note(error)
    return found


def check_names(path: Path) -> Collection[str]:
    """The names of all checks. Without the node part, any name of a kill switch may be a check's."""
    try:
        catalogue = importlib.import_module("slurm_hooks.checks").CATALOGUE
    except ModuleNotFoundError:
        return switches_off(path)
    return frozenset(catalogue)
