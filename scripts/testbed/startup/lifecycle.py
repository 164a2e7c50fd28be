"""``sandbox up`` and ``sandbox down``: prepares a box, starts it, ends it."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from testbed import pods
from testbed.errors import SandboxError, did_you_mean
from testbed.h100 import make_node
from testbed.namespaces.pidfd import end_namespace
from testbed.paths import box_folder, cache
from testbed.pods import requirements
from testbed.rootfs import layers, product, roots
from testbed.running_box import RunningBox
from testbed.shape import (
    AUTHS,
    DEFAULT_AUTH,
    DEFAULT_NODES,
    DEFAULT_RELEASE,
    GPUS_PER_NODE,
    MAX_NODES,
    RELEASES,
    Shape,
)
from testbed.startup import boot, cleanup, control_plane, host, slurm_conf
from testbed.startup.boot import say

First = TypeVar("First")
Second = TypeVar("Second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The box to start. ``root``: a root made elsewhere, else that of the release ``slurm``.

    None: the value of the running box, else the default. ``holdfast``: it is installed.
    """

    name: str
    nodes: int | None = None
    slurm: str | None = None
    owner_pid: int | None = None
    root: str | None = None
    pods: bool = False
    holdfast: bool = True
    auth: str | None = None


def up(order: Order) -> RunningBox:
    """The running box as ordered; started when there is none."""
    need_root()
    _check(order)
    cleanup.sweep(time.time())
    with cleanup.only_one(order.name):
        running = RunningBox.look(order.name)
        if running is not None:
            _same_shape(running, order)
            _compare_product(running)
            return running
        with _readable_by_all():
            shape = _prepare(order)
            return boot.start(shape, order.owner_pid)


@contextlib.contextmanager
def _readable_by_all() -> Iterator[None]:
    """The users of a box can read what is built for it, whatever the caller's umask."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def need_root() -> None:
    """Raises ``SandboxError`` unless root: a box needs namespaces, mounts and network links."""
    if os.geteuid() != 0:
        raise SandboxError(
            "the sandbox needs root (it creates namespaces, mounts and network links): run it with sudo"
        )


def _check(order: Order) -> None:
    if order.nodes is not None and not 1 <= order.nodes <= MAX_NODES:
        raise SandboxError(f"--nodes {order.nodes}: a box has 1 to {MAX_NODES} nodes")
    if order.pods and order.root is not None:
        raise SandboxError("--pods and --root: the image is made for a release of --slurm only")
    if order.pods and not order.holdfast:
        raise SandboxError(
            "--pods and --without-holdfast: the worker pods' image has Holdfast in it"
        )
    if order.pods and (missing := requirements.missing()):
        raise SandboxError(f"--pods: {missing}; a box without --pods needs none")
    if order.auth not in (None, *AUTHS):
        raise SandboxError(f"--auth {order.auth}: use one of {', '.join(AUTHS)}")
    if order.root is None and order.slurm not in (None, *RELEASES):
        raise SandboxError(
            f"--slurm {order.slurm}: no such release{did_you_mean(str(order.slurm), RELEASES)}"
        )


def _same_shape(running: RunningBox, order: Order) -> None:
    slurm = roots.release_of(Path(order.root)) if order.root else order.slurm
    if order.pods and not running.shape.pods:
        raise SandboxError(
            f"box '{order.name}' is up without pods; end it first: scripts/sandbox down --name {order.name}"
        )
    if order.holdfast != running.shape.holdfast:
        has = "with" if running.shape.holdfast else "without"
        raise SandboxError(
            f"box '{order.name}' is up {has} Holdfast; end it first: scripts/sandbox down --name {order.name}"
        )
    if order.auth not in (None, running.shape.auth):
        raise SandboxError(
            f"box '{order.name}' is up with auth/{running.shape.auth}; end it first: scripts/sandbox down "
            f"--name {order.name}"
        )
    have = (running.shape.nodes, running.shape.slurm)
    want = (order.nodes or have[0], slurm or have[1])
    if have != want:
        raise SandboxError(
            f"box '{order.name}' is up with {have[0]} nodes and Slurm {have[1]}, requested {want[0]} and {want[1]}; "
            f"end it first: scripts/sandbox down --name {order.name}"
        )


def _compare_product(running: RunningBox) -> None:
    """A box keeps the product that it was started with; report when the working tree has changed."""
    if not running.shape.holdfast:
        return
    installed = str(product.product_layer(Path(running.shape.root)))
    if installed not in running.shape.layers:
        name = running.shape.name
        say(f"box '{name}' has an older Holdfast than this tree; run down, then up, to install it")


def _prepare(order: Order) -> Shape:
    """Prepare what needs no running box: the root, the layers, the box's folder with its configuration."""
    slurm = order.slurm or DEFAULT_RELEASE
    given = roots.given(order.root) if order.root else None
    host.check(cache(), None if given else slurm, pods=order.pods)
    # Quick steps that may fail come before those that take minutes.
    stack = [layers.sandbox_layer(), layers.nvml_layer()]
    # The first time each takes minutes: Slurm's root waits for downloads while Kubernetes compiles.
    root, programs = both(
        lambda: given or roots.ensure(slurm, cache(), say), lambda: control_plane.programs(say)
    )
    holdfast = _holdfast(root) if order.holdfast else (product.wheelhouse_layer(root, say),)
    assets = pods.prepare(cache(), holdfast[::-1], slurm, say) if order.pods else pods.NONE
    shape = Shape(
        name=order.name,
        nodes=order.nodes or DEFAULT_NODES,
        slurm=roots.release_of(root) if order.root else slurm,
        root=str(root),
        layers=tuple(map(str, (*stack, *holdfast))),
        auth=order.auth or DEFAULT_AUTH,
        hooks=order.holdfast,
        bridge=order.holdfast,
        programs=programs,
        pods=assets.files,
        bridge_image=assets.bridge_image,
        debian_image=assets.debian_image,
    )
    folder = box_folder(order.name)
    cleanup.remove(folder)
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    (folder / "shape.json").write_text(shape.to_json())
    _write_etc(folder / "etc", shape)
    for index, node in enumerate(shape.node_names):
        make_node(folder / "nodes" / node, index, GPUS_PER_NODE)
    control_plane.prepare(folder, shape)
    return shape


def _holdfast(root: Path) -> tuple[Path, ...]:
    return (product.product_layer(root), product.wheels_layer(root, say))


def both(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """The results of two functions that run in parallel. The first failure is raised at once.

    The other function is not waited for then: its thread ends with the program.
    """
    failures: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    done: dict[str, Any] = {}

    def make(name: str, what: Callable[[], object]) -> None:
        try:
            done[name] = what()
            failures.put(None)
        except BaseException as error:  # noqa: BLE001 - raised in the caller
            failures.put(error)

    for name, what in (("first", first), ("second", second)):
        threading.Thread(target=make, args=(name, what), daemon=True).start()
    for _ in range(2):
        failure = failures.get()
        if failure is not None:
            raise failure
    return done["first"], done["second"]


def _write_etc(etc: Path, shape: Shape) -> None:
    (etc / "slurm").mkdir(parents=True)
    for name, text in slurm_conf.slurm_files(shape).items():
        (etc / "slurm" / name).write_text(text)
    (etc / "slurm/slurmdbd.conf").chmod(0o600)  # slurmdbd refuses one that others may read
    if shape.holdfast:
        (etc / "holdfast").mkdir()
        (etc / "holdfast/holdfast.yaml").write_text(
            product.configuration(shape.nodes, pyslurm=product.has_pyslurm(Path(shape.root)))
        )
    (etc / "hosts").write_text(slurm_conf.hosts(shape))
    (etc / "hostname").write_text("controller\n")


def down(name: str) -> bool:
    """End a box, running or half started. False when there was none."""
    need_root()
    with cleanup.only_one(name):
        box = RunningBox.look(name)
        if box is not None:
            end_namespace(box.pid)
        folder = box_folder(name)
        there = folder.exists()
        cleanup.remove(folder)
        return there
