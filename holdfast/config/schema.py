"""The sections that both halves read: ``cluster``, ``paths`` and ``slurm``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from holdfast.config.bounds import within
from holdfast.config.load import load_top


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsConfig:
    """Where this machine's things lie. Another root than the real one is for the test bed and for
    chroots.
    """

    kmsg: Path = Path("/dev/kmsg")
    sysfs: Path = Path("/sys")
    procfs: Path = Path("/proc")
    nvml_library: str = "libnvidia-ml.so.1"
    """A name for the dynamic linker, or an absolute path."""
    run: Path = Path("/run/holdfast")
    """Gone at each boot: the verdict, the jobs' markers, sockets."""
    state: Path = Path("/var/lib/holdfast")
    """Survives a boot: what this node's agent drained, and why."""
    history: Path | None = None
    """What happened to nodes and GPUs (`holdfast history`). null: `history` below `paths.state`.
    A folder on a filesystem that all nodes share lets a GPU's past be found wherever it was.
    """

    def __post_init__(self) -> None:
        for name in ("kmsg", "sysfs", "procfs", "run", "state"):
            path: Path = getattr(self, name)
            if not path.is_absolute():
                raise ValueError(f"{name} must be an absolute path, got {str(path)!r}")
        if self.history is not None and not self.history.is_absolute():
            raise ValueError(f"history must be an absolute path, got {str(self.history)!r}")
        if not self.nvml_library:
            raise ValueError("nvml_library must not be empty")

    @property
    def history_folder(self) -> Path:
        return self.history or self.state / "history"


class SlurmAdapter(str, Enum):
    """How the bridge and the commands reach slurmctld."""

    COMMANDS = "commands"
    """scontrol, sinfo and sdiag."""
    PYSLURM = "pyslurm"
    """Nodes and writes to nodes over RPC. Needs the pyslurm package for exactly the cluster's release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConfig:
    """How Slurm is asked."""

    adapter: SlurmAdapter = SlurmAdapter.COMMANDS
    """How the bridge, `holdfast nodes` and `holdfast explain` reach slurmctld. Hooks and agent always use
    the commands.
    """
    timeout_s: float = 10.0
    """Bound of one call of scontrol, sinfo or sdiag. A hung slurmctld holds scontrol for 40 s and
    more.
    """
    bin: str = ""
    """Folder of scontrol and its like; empty: along PATH."""

    def __post_init__(self) -> None:
        within(self, timeout_s=(0.1, 300))
        if self.bin and not Path(self.bin).is_absolute():
            raise ValueError(f"bin must be an absolute path, got {self.bin!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """What is the same on every machine of the cluster."""

    cluster: str = "cluster"
    paths: PathsConfig = field(default_factory=PathsConfig)
    slurm: SlurmConfig = field(default_factory=SlurmConfig)


def load_cluster(path: Path) -> ClusterConfig:
    """The shared sections; all defaults when there is no file. Raises ``ConfigError``."""
    return load_top(path, ClusterConfig)
