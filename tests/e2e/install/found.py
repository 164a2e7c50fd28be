"""What an administrator finds on a cluster: slurm.conf, Slurm's records of the nodes, and files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testbed.box import Box

from tests.e2e import cluster

SLURM_CONF = "/etc/slurm/slurm.conf"
_OF_JOBS = frozenset({"IDLE", "ALLOCATED", "MIXED", "COMPLETING", "PLANNED"})
_FIELDS = (
    "reason",
    "comment",
    "extra",
    "features",
    "active_features",
    "gres",
    "cpus",
    "weight",
    "partitions",
    "reservation",
    "instance_id",
)
_OF_OTHERS = (
    "/var/lib/slurm",
    "/var/lib/mysql",
    "/var/lib/mariadb",
    "/var/log/slurm",
    "/root/.cache",
    "/run/slurm",
    "/run/munge",
    "*/__pycache__",
)
"""Slurm's state, the database, pip's cache, and what any Python program leaves beside its modules."""


@dataclass(frozen=True, slots=True)
class Found:
    """``files``: lines of kind, mode, owner, size or target, and path; the contents of /etc too."""

    slurm_conf: bytes
    nodes: dict[str, dict[str, Any]]
    files: frozenset[str]

    def differences(self, later: Found) -> list[str]:
        """What is different ``later``, in words; the first lines of many."""
        said = [] if self.slurm_conf == later.slurm_conf else ["slurm.conf"]
        for name, record in self.nodes.items():
            for field, value in record.items():
                if value != later.nodes[name][field]:
                    said.append(f"{name} {field}: {value!r} is {later.nodes[name][field]!r}")
        said += [f"- {line}" for line in sorted(self.files - later.files)[:20]]
        said += [f"+ {line}" for line in sorted(later.files - self.files)[:20]]
        return said


def look(box: Box) -> Found:
    files = {f"controller {line}" for line in _files(box, "/")}
    for node in box.nodes:
        argv = ["sh", "-c", _find("/var/lib /run /tmp /dev/shm")]
        listed = node.run(argv).stdout.splitlines()
        files |= {f"{node.name} {line}" for line in listed}
    files |= set(
        box.run(["sh", "-c", "find /etc -type f -exec sha256sum {} +"]).stdout.splitlines()
    )
    return Found(box.path(SLURM_CONF).read_bytes(), nodes(box), frozenset(files))


def nodes(box: Box) -> dict[str, dict[str, Any]]:
    """slurmctld's records of the nodes, without what its jobs change."""
    return {
        name: {
            "state": sorted(set(record["state"]) - _OF_JOBS),
            **{field: record[field] for field in _FIELDS},
        }
        for name, record in cluster.slurm_nodes(box).items()
    }


def holdfast_processes(box: Box) -> list[str]:
    return [
        f"{place}: {' '.join(argv)}"
        for place in ("controller", *box.shape.node_names)
        for _, argv in box.pids(place)
        if any("holdfast" in word or "slurm_hooks" in word for word in argv[:4])
    ]


def _files(box: Box, top: str) -> list[str]:
    return box.run(["sh", "-c", _find(top)]).stdout.splitlines()


def _find(tops: str) -> str:
    """Sizes of files only: those of folders depend on the file system."""
    others = " -o ".join(f"-path '{path}'" for path in _OF_OTHERS)
    of_file, of_other = r"f %m %U:%G %s %p\n", r"%y %m %U:%G %l %p\n"
    return (
        f"find {tops} -xdev \\( {others} \\) -prune "
        f"-o -type f -printf '{of_file}' -o -printf '{of_other}'"
    )
