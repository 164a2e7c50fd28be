"""The shape of a box: its parts, names and addresses. Read on the host and inside the box."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path

CONTROLLER = "controller"
CONTROLLER_ADDRESS = "10.77.0.254"
MAX_NODES = 200
DEFAULT_NODES = 4
GPUS_PER_NODE = 8
RELEASES = {"24.11": "trixie", "26.05": "forky"}
"""Slurm release -> the Debian suite that packages it."""
DEFAULT_RELEASE = "24.11"
AUTHS = {"munge": "/etc/munge/munge.key", "slurm": "/etc/slurm/slurm.key"}
"""How a box authenticates, its AuthType without ``auth/`` → the key of the cluster."""
DEFAULT_AUTH = "munge"

INSIDE = Path("/sandbox")
"""Where a box sees its own folder of the host."""

CHECKOUT = Path("/checkout")
"""Where a box sees the working tree, read-only."""

HISTORY = "/mnt/history"
"""`paths.history` of a box: shared by its nodes and its controller."""

NODE_PATH = (
    "/opt/holdfast/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/kube/bin"
)
"""PATH of a shell in a box; it finds `holdfast`."""

USERS = {"alice": 2001, "bob": 2002, "restd": 2003, "holdfast": 2004}
"""alice and bob run jobs, restd the REST daemon, holdfast (a Slurm Administrator) the bridge."""

DISKS = Path("/opt/disks")
"""In a box without Holdfast: what each node has written below /var/lib."""

KUBE_PROGRAMS = Path("/opt/kube/bin")
POD_ROOT = Path("/opt/pods/root")
"""Root of a Kubernetes node, in a box with pods; ``machine`` mounts a writable copy of it."""
POD_PROGRAMS = Path("/opt/pods/bin")
POD_IMAGES = Path("/opt/pods/images")
PAUSE_FILE, DEBIAN_FILE, BRIDGE_FILE = "pause.tar", "debian.tar", "holdfast.tar"
"""Archives of images in ``POD_IMAGES``."""
POD_NETWORK = "10.78.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
SYSTEM_NODE = "system-0"
"""The Kubernetes Node of the controller, in a box with pods. Slurm has no node there."""
OLDER_STATE = INSIDE / "older-state"
"""The state that slurmctld had saved when the box came up."""
SLURM_TOKEN = "slurm.token"  # noqa: S105 - a file's name
"""In the folder of a box with pods: a JSON Web Token of the bridge's Slurm user."""
ADMIN_KUBECONFIG = INSIDE / "kube/admin.kubeconfig"

_NODE = re.compile(r"worker-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One box. ``root`` and ``layers`` are folders of the host (layers: topmost first)."""

    name: str
    nodes: int
    slurm: str
    root: str
    layers: tuple[str, ...] = ()
    auth: str = DEFAULT_AUTH
    hooks: bool = False
    bridge: bool = False
    programs: tuple[tuple[str, str], ...] = ()
    """(name under /opt/kube/bin, file on the host) of the Kubernetes programs."""
    pods: tuple[tuple[str, str], ...] = ()
    """(name under /opt/pods, path on the host) of what runs pods; empty: the box runs none."""
    bridge_image: str = ""
    """In a box with pods: the bridge's image, by digest."""
    debian_image: str = ""
    """In a box with pods: the image of agents and worker pods, by digest."""

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(node_name(index) for index in range(self.nodes))

    @property
    def holdfast(self) -> bool:
        """It is installed: its files, its lines of slurm.conf, and its rights in Kubernetes."""
        return self.hooks

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Shape:
        data = json.loads(text)
        pairs = {
            field: tuple((name, path) for name, path in data.get(field, ()))
            for field in ("programs", "pods")
        }
        return cls(**{**data, "layers": tuple(data["layers"]), **pairs})


def node_name(index: int) -> str:
    """Slurm's name of a node, and that of its worker Pod."""
    return f"worker-{index}"


def kube_name(node: str) -> str:
    """The Kubernetes Node that the Slurm node runs on; Slurm knows it as InstanceId. Also of the controller."""
    return SYSTEM_NODE if node == CONTROLLER else f"computeinstance-{node_index(node)}"


def node_index(node: str) -> int:
    """Raises ``ValueError`` when ``node`` is no node's name."""
    match = _NODE.fullmatch(node)
    if not match:
        raise ValueError(node)
    return int(match[1])


def address(node: str) -> str:
    """Address of a node or of the controller on the box's own network."""
    return CONTROLLER_ADDRESS if node == CONTROLLER else f"10.77.0.{node_index(node) + 1}"


def link(node: str) -> str:
    """The bridge's end of a node's cable (at most 15 characters)."""
    return f"v-{node}"


def machine_nodes(shape: Shape) -> tuple[str, ...]:
    """The machines that run pods: the controller, then every node; none in a box without pods."""
    return (CONTROLLER, *shape.node_names) if shape.pods else ()


def pod_network(node: str) -> str:
    """The addresses of the pods of a machine."""
    return f"10.78.{254 if node == CONTROLLER else node_index(node)}.0/24"
