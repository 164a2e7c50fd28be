"""Starts and ends a box."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from testbed import cleanup, control_plane, host, pods, slurm_conf
from testbed.errors import SandboxError, did_you_mean
from testbed.h100 import make_node
from testbed.inside.control import ControlError, ask
from testbed.namespaces import enter
from testbed.namespaces.pidfd import end_namespace
from testbed.paths import TREE, box_folder, cache
from testbed.pods import requirements, slurm_token
from testbed.rootfs import layers, product, roots
from testbed.rootfs.layers import Say
from testbed.running_box import RunningBox
from testbed.shape import (
    DEFAULT_NODES,
    DEFAULT_RELEASE,
    GPUS_PER_NODE,
    MAX_NODES,
    RELEASES,
    Shape,
)

First = TypeVar("First")
Second = TypeVar("Second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The box to start. ``root``: a root made elsewhere, else that of the release ``slurm``.

    None: the value of the running box, else the default.
    """

    name: str
    nodes: int | None = None
    slurm: str | None = None
    owner_pid: int | None = None
    root: str | None = None
    pods: bool = False


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


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
            return _start(shape, order.owner_pid)


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
    if order.pods and (missing := requirements.missing()):
        raise SandboxError(f"--pods: {missing}; a box without --pods needs none")
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
    have = (running.shape.nodes, running.shape.slurm)
    want = (order.nodes or have[0], slurm or have[1])
    if have != want:
        raise SandboxError(
            f"box '{order.name}' is up with {have[0]} nodes and Slurm {have[1]}, requested {want[0]} and {want[1]}; "
            f"end it first: scripts/sandbox down --name {order.name}"
        )


def _compare_product(running: RunningBox) -> None:
    """A box keeps the product that it was started with; report when the working tree has changed."""
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
    holdfast = (product.product_layer(root), product.wheels_layer(root, say))
    assets = pods.prepare(cache(), holdfast[::-1], slurm, say) if order.pods else pods.NONE
    shape = Shape(
        name=order.name,
        nodes=order.nodes or DEFAULT_NODES,
        slurm=roots.release_of(root) if order.root else slurm,
        root=str(root),
        layers=tuple(map(str, (*stack, *holdfast))),
        hooks=(TREE / "slurm_hooks/hook").exists(),
        bridge=all((TREE / "k8s_bridge" / name).exists() for name in ("main.py", "render.py")),
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
    (etc / "holdfast").mkdir()
    (etc / "holdfast/holdfast.yaml").write_text(
        product.configuration(shape.nodes, pyslurm=product.has_pyslurm(Path(shape.root)))
    )
    (etc / "hosts").write_text(slurm_conf.hosts(shape))
    (etc / "hostname").write_text("controller\n")


def _start(shape: Shape, owner_pid: int | None) -> RunningBox:
    """Create the namespaces and boot the box; a failure leaves nothing behind."""
    read, write = os.pipe()
    fds = [read]
    if owner_pid is not None:
        fds.append(_open_owner(owner_pid))
    folder = box_folder(shape.name)
    with (folder / "supervisor.log").open("ab") as log:
        unshare = subprocess.Popen(
            [
                "unshare", "--mount", "--pid", "--uts", "--ipc", "--net", "--fork", "--kill-child=KILL",
                "--propagation", "private",
                sys.executable, "-m", "testbed.inside.stage", str(folder), *map(str, fds),
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=fds,
            env={**os.environ, "PATH": host.path(), "PYTHONPATH": str(TREE / "scripts")},
        )  # fmt: skip
    for fd in fds:
        os.close(fd)
    try:
        box = _wait_for_supervisor(folder, shape, unshare)
        _boot(box)
        os.write(write, b"settled\n")
    except BaseException:
        unshare.kill()
        unshare.wait()
        raise
    finally:
        os.close(write)
    unshare.returncode = 0  # it keeps running and is not waited for
    return box


def _open_owner(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (OSError, OverflowError):
        raise SandboxError(f"--owner-pid {pid}: no such process") from None


def _wait_for_supervisor(
    folder: Path, shape: Shape, unshare: subprocess.Popen[bytes]
) -> RunningBox:
    """Wait until the supervisor answers, then register the box under its name."""
    end = time.monotonic() + 30
    while True:
        if unshare.poll() is not None or time.monotonic() > end:
            log = " ".join((folder / "supervisor.log").read_text(errors="replace").split())
            raise SandboxError(
                f"box '{shape.name}' cannot start: {log[-500:] or 'its supervisor gave no answer'}"
            )
        with contextlib.suppress(ControlError):
            ask(folder, do="state")
            break
        time.sleep(0.02)
    pid = enter.child_of(unshare.pid)
    started = enter.started_at(pid) if pid else None
    if pid is None or started is None:
        raise SandboxError(f"box '{shape.name}' ended at once; see {folder}/supervisor.log")
    life = folder / "life.json.part"
    life.write_text(json.dumps({"pid": pid, "started": started}))
    life.rename(folder / "life.json")
    return RunningBox(folder=folder, shape=shape, pid=pid, started=started)


def _boot(box: RunningBox) -> None:
    """Start Slurm and Kubernetes in parallel, then the bridge between them."""
    begin = time.monotonic()

    def report(text: str) -> None:
        say(f"  {time.monotonic() - begin:5.1f} s  {text}")

    with ThreadPoolExecutor(max_workers=2) as pool:
        parts = [
            pool.submit(_boot_slurm, box, report),
            pool.submit(control_plane.start, box, report),
        ]
        done, _ = wait(parts, return_when=FIRST_EXCEPTION)
        failed = [part for part in done if part.exception()]
        if failed:
            end_namespace(box.pid)  # so that the other part ends too
    for part in (*failed, *parts):  # the first failure is the cause
        part.result()
    if box.shape.pods:
        slurm_token.write(box)
    elif box.shape.bridge:
        box.ask("start", "bridge")


def _boot_slurm(box: RunningBox, report: Say) -> None:
    argv = ["/usr/bin/python3", "-m", "testbed.inside.boot"]
    inside = enter.argv_in(box.pid, argv, user="root", cwd="/", env={"PYTHONPATH": "/opt/sandbox"})
    pipe = subprocess.PIPE
    with subprocess.Popen(
        inside, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    ) as boot:
        assert boot.stdout is not None  # noqa: S101 - piped above
        assert boot.stderr is not None  # noqa: S101 - piped above
        for line in boot.stdout:
            report(line.rstrip())
        problem = boot.stderr.read().strip()
    if boot.returncode:
        raise SandboxError(
            f"box '{box.shape.name}': {problem[-1500:] or f'boot ended with status {boot.returncode}'}"
        )


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
