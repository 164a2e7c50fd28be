"""Makes a machine of a box a Kubernetes node: containerd, kubelet and kube-proxy in a root of their own.

    unshare --mount --propagation private python3 -m testbed.inside.machine worker-0

They share the machine's processes and network, so a pod with ``hostPID`` sees slurmd. A program that
ends is started again; all of them end with the machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from testbed.inside import cgroups
from testbed.shape import (
    BRIDGE_FILE,
    CONTROLLER,
    CONTROLLER_ADDRESS,
    DEBIAN_FILE,
    INSIDE,
    PAUSE_FILE,
    POD_IMAGES,
    POD_PROGRAMS,
    POD_ROOT,
    SERVICE_NETWORK,
    SYSTEM_NODE,
    Shape,
    address,
    kube_name,
    pod_network,
)

_MNT_DETACH = 2  # linux/fs.h
_NULL = (1, 3)
_WANTED_BY_KUBELET = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""It ends unless it reads these values or can write them (pkg/util/sysctl). It reads files with them."""
_CGROUPS = Path("sys/fs/cgroup")
_RESTART_S = 1.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/cni"

_LIBC = ctypes.CDLL(None, use_errno=True)


def main(argv: list[str]) -> int:
    node = argv[0]
    # pid 1 of a node blocks it; a container's shell waits for it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    shape = Shape.from_json((INSIDE / "shape.json").read_text())
    own = INSIDE / "pods" / kube_name(node)
    controllers = cgroups.enter(own, f"holdfast-{shape.name}-{kube_name(node)}")
    _routes(node, shape)
    _enter_root(own, controllers)
    _run(own, kube_name(node))
    return 1


# -- network ----------------------------------------------------------------------------------------


def _routes(node: str, shape: Shape) -> None:
    """Pods of every machine can be reached from every machine. Addresses of Services need a route too."""
    for other in (*shape.node_names, CONTROLLER):
        if other != node:
            _run_command("ip", "route", "replace", pod_network(other), "via", address(other))
    device = ("dev", "br0") if node == CONTROLLER else ("via", CONTROLLER_ADDRESS)
    _run_command("ip", "route", "replace", SERVICE_NETWORK, *device)


# -- file system ------------------------------------------------------------------------------------


def _enter_root(own: Path, controllers: Sequence[str]) -> None:
    """A writable copy of the node's root, with the machine's kernel file systems and the box's folder."""
    base = Path("/run/machine")
    base.mkdir(exist_ok=True)
    _run_command("mount", "-t", "tmpfs", "-o", "mode=755", "machine", str(base))
    for name in ("upper", "work", "new"):
        (base / name).mkdir()
    new = base / "new"
    layers = f"lowerdir={POD_ROOT},upperdir={base}/upper,workdir={base}/work"
    _run_command("mount", "-t", "overlay", "-o", layers, "machine", str(new))
    _run_command("mount", "-t", "proc", "proc", str(_folder(new / "proc")))
    _kernel_settings(new / "proc/sys", base)
    _run_command("mount", "-t", "sysfs", "sysfs", str(_folder(new / "sys")))
    _run_command("mount", "-t", "tmpfs", "-o", "mode=755", "cgroup", str(new / _CGROUPS))
    for names in controllers:
        cgroups.mount(new / _CGROUPS / names.removeprefix("name="), names)
    _devices(_folder(new / "dev"))
    for name, mode in (("run", "755"), ("tmp", "1777")):
        _run_command("mount", "-t", "tmpfs", "-o", f"mode={mode}", name, str(_folder(new / name)))
    for source, target in (
        (INSIDE, new / "sandbox"),
        (POD_ROOT.parent, new / "opt/pods"),
        (_folder(own / "containerd"), new / "var/lib/containerd"),
        (_folder(own / "kubelet"), new / "var/lib/kubelet"),
        (_folder(own / "log"), new / "var/log/pods"),
        (own / "cni", new / "etc/cni/net.d"),
    ):
        _run_command("mount", "--rbind", str(source), str(_folder(target)))
    (new / "etc/hosts").write_text(Path("/etc/hosts").read_text())
    (new / "etc/resolv.conf").write_text("")
    # A root that was only unpacked has neither.
    (new / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (new / "etc/group").write_text("root:x:0:\n")
    (new / "etc/machine-id").write_text(uuid.uuid4().hex + "\n")
    _pivot(new)


def _kernel_settings(there: Path, base: Path) -> None:
    """The settings are the host's and cannot be written; those of the network are the machine's own."""
    for path in (there, there / "net"):
        _run_command("mount", "--bind", str(path), str(path))
    _run_command("mount", "-o", "remount,bind,ro", str(there))
    for name, value in _WANTED_BY_KUBELET.items():
        own = base / name.replace("/", ".")
        own.write_text(f"{value}\n")
        _run_command("mount", "--bind", str(own), str(there / name))
    (there / "net/ipv4/ip_forward").write_text("1")


def _devices(dev: Path) -> None:
    """The machine's devices, and a kernel log without messages: kubelet needs one, and the host's is not ours."""
    _run_command("mount", "-t", "tmpfs", "-o", "mode=755", "dev", str(dev))
    for path in sorted(Path("/dev").iterdir()):
        own = dev / path.name
        if path.is_symlink():
            own.symlink_to(path.readlink())
        elif path.is_dir():
            _run_command("mount", "--rbind", str(path), str(_folder(own)))
        elif path.is_char_device():
            _device(own, path.stat().st_rdev)
    _device(dev / "kmsg", os.makedev(*_NULL))


def _device(path: Path, number: int) -> None:
    path.unlink(missing_ok=True)
    os.mknod(path, 0o666 | stat.S_IFCHR, number)
    path.chmod(0o666)


def _pivot(new: Path) -> None:
    old = _folder(new / ".old")
    os.chdir(new)
    _run_command("mount", "--make-rprivate", "/")
    # Debian's newer releases have the command in a package of its own.
    _check(_LIBC.pivot_root(os.fsencode(new), os.fsencode(old)), "pivot_root")
    os.chdir("/")
    _check(_LIBC.umount2(b"/.old", _MNT_DETACH), "umount2 /.old")
    # A container may ask for mounts that both sides see.
    _run_command("mount", "--make-rshared", "/")


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


# -- programs ---------------------------------------------------------------------------------------


def _run(own: Path, name: str) -> None:
    """Starts the programs and starts each one again that ends. Does not return."""
    os.environ["PATH"] = _PATH
    given = json.loads((own / "arguments.json").read_text())
    kubelet = [
        str(POD_PROGRAMS / "kubelet"),
        f"--config={own / 'kubelet.json'}",
        f"--kubeconfig={own / 'kubelet.kubeconfig'}",
        "--cert-dir=/var/lib/kubelet/pki",
        *(f"--{option}={value}" for option, value in given.items()),
    ]
    commands = {
        "containerd": ["containerd", f"--config={own / 'containerd.toml'}"],
        "kubelet": kubelet,
        "kube-proxy": [str(POD_PROGRAMS / "kube-proxy"), f"--config={own / 'proxy.json'}"],
    }
    running = {"containerd": _start(own, "containerd", commands["containerd"])}
    _import_images(own, BRIDGE_FILE if name == SYSTEM_NODE else DEBIAN_FILE)
    while True:
        for program, command in commands.items():
            child = running.get(program)
            if child is None or child.poll() is not None:
                if child is not None:
                    print(f"{name}: {program} ended ({child.returncode})", flush=True)
                running[program] = _start(own, program, command)
        time.sleep(_RESTART_S)


def _start(own: Path, program: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
    with (own / f"{program}.log").open("ab") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _import_images(own: Path, image: str) -> None:
    """Gives containerd the images, and waits for it. Its disk keeps them when the machine loses power."""
    with (own / "images.log").open("ab") as log:
        for archive in (POD_IMAGES / PAUSE_FILE, POD_IMAGES / image):
            imported = own / "containerd" / f"{archive.name}.imported"
            if imported.exists():
                continue
            ctr = ["ctr", "--namespace", "k8s.io", "images", "import", str(archive)]
            end = time.monotonic() + 120
            while subprocess.run(ctr, stdout=log, stderr=log, check=False).returncode:
                if time.monotonic() > end:
                    raise OSError(f"containerd does not take {archive}; see {own}/images.log")
                time.sleep(0.2)
            imported.touch()


def _run_command(*words: str) -> None:
    subprocess.run(words, check=True)


def _check(status: int, what: str) -> None:
    if status:
        raise OSError(ctypes.get_errno(), what)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
