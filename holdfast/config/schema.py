"""The sections that agent, commands and bridge share: ``cluster``, ``paths`` and ``slurm``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.config.bounds import within
from holdfast.config.load import load_top


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsConfig:
    """Paths on this machine. Other roots than the real ones are for the sandbox and for chroots."""

    kmsg: Path = Path("/dev/kmsg")
    sysfs: Path = Path("/sys")
    procfs: Path = Path("/proc")
    nvml_library: str = "libnvidia-ml.so.1"
    """A name for the dynamic linker, or an absolute path."""
    run: Path = Path("/run/holdfast")
    """Emptied at each boot: the verdict, the jobs' markers, sockets."""
    state: Path = Path("/var/lib/holdfast")
    """Kept across boots: what this node's agent drained, and why."""
    history: Path | None = None
    """What happened to nodes and GPUs (`holdfast history`). null: `history` below `paths.state`.
    In a folder on a filesystem that all nodes share, a GPU's past is found wherever it was.
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


def wrong_rest_url(url: str) -> str:
    """What is wrong with ``slurm.rest_url``, as the end of "rest_url must …"; empty: nothing."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "be http://HOST:PORT, https://HOST:PORT or unix:/PATH"
    if parts.scheme == "unix" and Path(parts.path).is_absolute() and not parts.netloc:
        return ""
    if parts.username or parts.password:
        return "hold no user or password: the token comes from a file"
    if parts.scheme in ("http", "https") and parts.hostname and port and parts.path in ("", "/"):
        return ""
    return "be http://HOST:PORT, https://HOST:PORT or unix:/PATH"


class SlurmAdapter(str, Enum):
    """How the bridge and the commands reach slurmctld."""

    COMMANDS = "commands"
    """scontrol, sinfo and sdiag."""
    PYSLURM = "pyslurm"
    """Nodes and writes to nodes over RPC. Needs the pyslurm package for exactly the cluster's release."""
    REST = "rest"
    """Nodes and writes to nodes through slurmrestd, with a JSON Web Token: no munge and no shared key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConfig:
    """Access to Slurm."""

    adapter: SlurmAdapter = SlurmAdapter.COMMANDS
    """How the bridge, `holdfast nodes` and `holdfast explain` reach slurmctld. Hooks and agent always use
    the commands.
    """
    timeout_s: float = 10.0
    """Limit for one call of scontrol, sinfo or sdiag. With a hung slurmctld, scontrol takes 40 s and more."""
    bin: str = ""
    """Folder of Slurm's commands; empty: found along PATH."""
    rest_url: str = ""
    """Where slurmrestd listens, for `adapter: rest`: http://HOST:PORT, https://HOST:PORT or unix:/PATH."""

    def __post_init__(self) -> None:
        within(self, timeout_s=(0.1, 300))
        if self.bin and not Path(self.bin).is_absolute():
            raise ValueError(f"bin must be an absolute path, got {self.bin!r}")
        if self.rest_url and wrong_rest_url(self.rest_url):
            raise ValueError(f"rest_url must {wrong_rest_url(self.rest_url)}")
        if self.adapter is SlurmAdapter.REST and not self.rest_url:
            raise ValueError(
                "adapter is 'rest', so rest_url must say where slurmrestd listens, such as "
                "http://slurmrestd:6820"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The sections that apply to every machine of the cluster."""

    cluster: str = "cluster"
    paths: PathsConfig = field(default_factory=PathsConfig)
    slurm: SlurmConfig = field(default_factory=SlurmConfig)


def load_cluster(path: Path) -> ClusterConfig:
    """The shared sections; all defaults when there is no file. Raises ``ConfigError``."""
    return load_top(path, ClusterConfig)
