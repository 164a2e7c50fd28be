"""A box as programs and tests use it: started, broken, healed, ended.

Imports go one way: this module imports ``startup`` and ``faults``, which work on a ``RunningBox``.
"""

from __future__ import annotations

from testbed import faults
from testbed.running_box import Node, RunningBox
from testbed.startup import lifecycle

__all__ = ["Box", "Node"]


class Box(RunningBox):
    """One sandbox of Slurm nodes, Kubernetes and simulated H100s."""

    __slots__ = ()

    @classmethod
    def up(  # noqa: PLR0913 - all but the name by name
        cls,
        name: str = "default",
        *,
        nodes: int | None = None,
        slurm: str | None = None,
        owner_pid: int | None = None,
        root: str | None = None,
        pods: bool = False,
        holdfast: bool = True,
        auth: str | None = None,
    ) -> Box:
        """The running box of that name and shape, started when there is none.

        ``nodes`` and ``slurm`` None: as the running box has them, else the defaults.
        ``owner_pid``: the box ends with that process. ``root``: a root made elsewhere.
        ``pods``: kubelets run, and the bridge is what somebody deploys. ``holdfast``: it is installed.
        ``auth``: munge, or slurm (auth/slurm).

        Raises ``SandboxError`` when a box of that name runs in another shape, or cannot start.
        """
        running = lifecycle.up(
            lifecycle.Order(
                name=name,
                nodes=nodes,
                slurm=slurm,
                owner_pid=owner_pid,
                root=root,
                pods=pods,
                holdfast=holdfast,
                auth=auth,
            )
        )
        return cls(
            folder=running.folder, shape=running.shape, pid=running.pid, started=running.started
        )

    def down(self) -> None:
        """End the box with everything in it and remove its folder."""
        lifecycle.down(self.shape.name)

    def fault(self, node: str, kind: str, *args: str) -> str:
        """Inject a fault (kinds and arguments: ``testbed.faults``). Returns one line that names it.

        Raises ``SandboxError``.
        """
        return faults.inject(self, node, kind, args)

    def heal(self, node: str, kind: str | None = None) -> list[str]:
        """Remove what ``fault`` injected: one kind, or all faults of a node. A line for each."""
        return faults.heal(self, node, kind)
