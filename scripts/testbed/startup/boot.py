"""Creates a box's namespaces, and boots Slurm and Kubernetes in them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from testbed.errors import SandboxError
from testbed.inside.control import ControlError, ask
from testbed.namespaces import enter
from testbed.namespaces.pidfd import end_namespace
from testbed.paths import TREE, box_folder
from testbed.pods import slurm_token
from testbed.rootfs.layers import Say
from testbed.running_box import RunningBox
from testbed.shape import Shape
from testbed.startup import control_plane, host


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def start(shape: Shape, owner_pid: int | None) -> RunningBox:
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
