"""A user's process named slurmd besides the real one: the DaemonSet's script ignores it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from testbed.box import Box, Node

from holdfast.cli.commands.render import render_text

IMAGE = f"registry.example.org/tools@sha256:{'0' * 64}"
FOLDER = "/tmp/daemonset"

# A user namespace with the user's mounts: a program in place of Holdfast's, a slurm.conf, an agent lock.
USER_NAMESPACE = f"""
mount -t tmpfs none /mnt && mkdir /mnt/root && mount --rbind / /mnt/root
mount -t tmpfs none /mnt/root/opt && mkdir -p /mnt/root/opt/holdfast/bin
cp {FOLDER}/python /mnt/root/opt/holdfast/bin/python
mount -t tmpfs none /mnt/root/run && mkdir /mnt/root/run/holdfast
echo 1 >/mnt/root/run/holdfast/agent.lock
mount --bind {FOLDER}/slurmd "/mnt/root$(readlink -f /usr/sbin/slurmd)"
export SLURM_CONF={FOLDER}/slurm.conf
exec chroot /mnt/root {FOLDER}/slurmd 120
"""
PYTHON = f"#!/bin/sh\nid -u >>{FOLDER}/ran\nexec sleep 120\n"


@pytest.fixture
def node(clean_box: Box) -> Iterator[Node]:
    """A node with the script as a Pod has it, and with the user's files."""
    machine = clean_box.node("worker-0")
    machine.run(["rm", "-rf", FOLDER, "/run/daemonset.sh", "/run/daemonset.log"])
    machine.run(["sh", "-c", f"mkdir {FOLDER} && cp /bin/sleep {FOLDER}/slurmd"], user="bob")
    for name, text in (("python", PYTHON), ("user.sh", USER_NAMESPACE)):
        write = ["sh", "-c", f'printf %s "$1" >{FOLDER}/{name}; chmod 755 {FOLDER}/{name}', "x"]
        machine.run([*write, text], user="bob")
    (config,) = (
        document["data"]["agent.sh"]
        for document in yaml.safe_load_all(render_text("daemonset", image=IMAGE))
        if document["kind"] == "ConfigMap"
    )
    machine.path("/run/daemonset.sh").write_text(config.replace("pause_s=5", "pause_s=0.5"))
    yield machine
    machine.run(["sh", "-c", "kill $(cat /run/daemonset.pid); rm -f /run/daemonset.*"], check=False)
    machine.run(["sh", "-c", f"kill -9 -1; rm -rf {FOLDER}"], user="bob", check=False)


def processes(node: Node) -> dict[int, int]:
    """pid -> real uid of each process named slurmd, in the order of a search by name."""
    text = node.run(
        ["sh", "-c", "for p in $(grep -slx slurmd /proc/[0-9]*/comm); do grep -s Uid: ${p%comm}status "
         '| sed "s#^#$p #"; done']
    ).stdout  # fmt: skip
    rows = (line.replace("/", " ").split() for line in text.splitlines())
    return {int(row[1]): int(row[4]) for row in rows}


def start(node: Node, command: str) -> None:
    """Start a command as bob, with a pid that a search by name finds before the real slurmd."""
    node.run(["sh", "-c", "echo 999 >/proc/sys/kernel/ns_last_pid"])
    node.run(
        ["sh", "-c", f"setsid {command} >{FOLDER}/log 2>&1 </dev/null & "
         "for i in $(seq 50); do sleep 0.05; pgrep -u bob -x slurmd && exit; done; exit 1"],
        user="bob",
    )  # fmt: skip


@pytest.mark.parametrize(
    "fake",
    [f"{FOLDER}/slurmd 120", f"unshare -Urm sh {FOLDER}/user.sh"],
    ids=["a program of the user", "in a user namespace and a chroot"],
)
def test_root_does_not_enter_a_users_slurmd(node: Node, fake: str) -> None:
    start(node, fake)
    found = processes(node)
    (real,) = (pid for pid, uid in found.items() if uid == 0)
    assert found[min(found, key=str)] == 2002, f"no process of bob is found first: {found}"
    for word in ("ready", "alive"):
        node.run(["sh", "/run/daemonset.sh", word])
    node.run(["sh", "-c", "sh /run/daemonset.sh run >/run/daemonset.log 2>&1 & "
              "echo $! >/run/daemonset.pid; for i in $(seq 50); do "
              "grep -q 'agent of' /run/daemonset.log && break; sleep 0.1; done; sleep 1"])  # fmt: skip
    log = node.path("/run/daemonset.log").read_text()
    assert f"beside slurmd {real}\n" in log
    assert node.run(["cat", f"{FOLDER}/ran"], check=False).stdout == "", (
        "root ran the user's program"
    )
