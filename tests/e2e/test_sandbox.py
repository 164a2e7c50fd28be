"""The sandbox: real daemons, real power loss, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from testbed import status
from testbed.box import Box
from testbed.errors import SandboxError
from testbed.inside.processes import all_pids
from testbed.namespaces import enter

from tests.e2e import cluster

pytestmark = pytest.mark.e2e
SANDBOX = Path(__file__).parents[2] / "scripts/sandbox"


def namespaces(pids: Iterable[int]) -> set[str]:
    """The pid, mount and network namespaces of these processes."""
    kinds = ("pid", "mnt", "net")
    found = (enter.namespace(pid, kind) for pid in pids for kind in kinds)
    return {name for name in found if name is not None}


def wait_until_gone(pid: int, timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while enter.started_at(pid) is not None:
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.05)


def test_a_job_of_an_ordinary_user_runs_on_every_node(box: Box) -> None:
    out = box.run(["srun", "-N4", "--gpus-per-node=8", "sh", "-c", "hostname; id -un; echo $CUDA_VISIBLE_DEVICES"],
                  user="alice").stdout.split()  # fmt: skip
    assert sorted(set(out)) == [
        "0,1,2,3,4,5,6,7",
        "alice",
        "worker-0",
        "worker-1",
        "worker-2",
        "worker-3",
    ]
    assert "alice" in box.run(["sacct", "-X", "-n", "-o", "User"]).stdout


def test_each_node_has_its_instance_id_as_its_kubernetes_node(box: Box) -> None:
    for node in box.nodes:
        record = json.loads(box.run(["scontrol", "show", "node", node.name, "--json"]).stdout)[
            "nodes"
        ][0]
        pod = json.loads(box.kubectl("-n", "soperator", "get", "pod", node.name, "-o", "json"))
        assert pod["spec"]["nodeName"] == record["instance_id"]
        assert (
            json.loads(box.kubectl("get", "node", record["instance_id"], "-o", "json"))["kind"]
            == "Node"
        )


def test_slurmrestd_accepts_only_requests_with_a_token(box: Box) -> None:
    token = box.run(["scontrol", "token", "username=alice", "lifespan=300"]).stdout.strip()
    _, _, jwt = token.partition("SLURM_JWT=")

    def get(path: str, token: str = "") -> tuple[str, str]:
        """Status and body."""
        header = ["-H", f"X-SLURM-USER-TOKEN: {token}"] if token else []
        url = f"http://localhost:6820{path}"
        output = box.run(["curl", "-s", "-w", "\n%{http_code}", *header, url]).stdout
        body, _, code = output.rpartition("\n")
        return code, body

    paths = json.loads(get("/openapi/v3", jwt)[1])["paths"]
    ping = max(path for path in paths if path.startswith("/slurm/v") and "/ping" in path)
    code, body = get(ping, jwt)
    assert (code, [ping["hostname"] for ping in json.loads(body)["pings"]]) == (
        "200",
        ["controller"],
    )
    assert get(ping)[0] == "401"
    nodes = ping.replace("ping", "nodes")
    code, body = get(nodes, jwt)
    assert (code, len(json.loads(body)["nodes"])) == ("200", len(box.nodes))
    code, body = get(nodes, jwt[::-1])  # an invalid token, which only slurmctld detects
    assert code != "200"
    assert not json.loads(body).get("nodes")


def test_a_power_loss_clears_memory_and_keeps_the_disk(box: Box) -> None:
    node = box.node("worker-3")
    before = node.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
    node.run(
        ["sh", "-c", "echo x > /var/lib/holdfast/kept; echo x > /run/lost; echo x > /tmp/lost"]
    )
    box.power_off(node.name)
    with pytest.raises(SandboxError, match="is powered off"):
        node.run(["true"])
    box.power_on(node.name)
    assert node.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout != before
    assert node.run(["ls", "/var/lib/holdfast/kept"]).returncode == 0
    assert node.run(["ls", "/run/lost", "/tmp/lost"], check=False).stdout == ""
    assert box.run(["srun", "--nodelist=worker-3", "hostname"], timeout_s=90).stdout == "worker-3\n"


def test_an_unplugged_cable_leaves_the_node_running(box: Box) -> None:
    node = box.node("worker-2")
    reach = ["timeout", "2", "bash", "-c", "echo > /dev/tcp/controller/6817"]
    assert node.run(reach, check=False).returncode == 0
    box.cut(node.name)
    try:
        assert node.run(reach, check=False).returncode != 0
        assert status.read(box).nodes[2].power == "cut"
    finally:
        box.join(node.name)
    cluster.wait_for(
        lambda: node.run(reach, check=False).returncode == 0, "the controller reached again", 15
    )
    # before the next test also slurmd: its address is stale on the bridge for a moment
    cluster.wait_for(lambda: cluster.in_service(box, node.name), f"{node.name} in service", 30)


def test_status_reports_nodes_and_daemons(box: Box) -> None:
    done = subprocess.run(
        [SANDBOX, "status", "--json", "--name", box.shape.name],
        capture_output=True,
        text=True,
        check=True,
    )
    nodes = json.loads(done.stdout)["nodes"]
    assert [node["name"] for node in nodes] == list(box.shape.node_names)
    assert {node["kube_ready"] for node in nodes} == {"True"}
    assert all(node["power"] == "on" for node in nodes)


def sandbox(box: Box, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = [str(SANDBOX), words[0], "--name", box.shape.name, *words[1:]]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)


@pytest.mark.one_release
@pytest.mark.parametrize("place", ["controller", "worker-1"])
@pytest.mark.parametrize("user", ["root", "alice"])
def test_exec_sees_the_checkout_and_cannot_write_to_it(box: Box, place: str, user: str) -> None:
    seen = sandbox(box, "exec", place, "--user", user, "--", "cat", "/checkout/README.md")
    assert seen.stdout == (SANDBOX.parents[1] / "README.md").read_text()
    for command in ("touch /checkout/README.md", "echo x >/checkout/new", "rm /checkout/LICENSE"):
        refused = sandbox(box, "exec", place, "--user", user, "--", "sh", "-c", command)
        assert refused.returncode != 0, command
        assert user != "root" or "Read-only file system" in refused.stderr
    assert not (SANDBOX.parents[1] / "new").exists()


def test_a_users_own_script_is_submitted_from_the_host(box: Box) -> None:
    """As docs/howto/sandbox.md describes: the script on standard input, its program in the checkout."""
    script = "#!/bin/sh\n#SBATCH --nodes=2\nsrun sh -c 'echo $(hostname) $(head -n 1 /checkout/LICENSE)'\n"
    words = ("exec", "controller", "--user", "alice", "--", "sbatch", "--wait", "--output=own.out")
    done = sandbox(box, *words, stdin=script)
    assert done.returncode == 0, done.stderr
    lines = box.path("/mnt/training/own.out").read_text().splitlines()
    assert len({line.split()[0] for line in lines}) == 2
    assert {line.split(maxsplit=1)[1] for line in lines} == {"MIT License"}


@pytest.mark.one_release
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["exec", "worker-9", "--", "true"], "no node 'worker-9'"),
        (["exec", "controller", "--user", "alic", "--", "true"], "did you mean 'alice'?"),
        (["fault", "worker-1", "gpu-lots"], "did you mean 'gpu-lost'?"),
        (["fault", "worker-11", "gpu-lost"], "worker-11"),
        (["statsu"], "did you mean 'status'?"),
    ],
)
def test_a_typing_error_gets_one_line(box: Box, words: list[str], message: str) -> None:
    own = [*words[:1], "--name", box.shape.name, *words[1:]] if words[0] != "statsu" else words
    done = subprocess.run([SANDBOX, *own], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.one_release
def test_down_leaves_nothing(release: str) -> None:
    small = Box.up(f"down-{os.getpid()}", nodes=1, slurm=release, owner_pid=os.getpid())
    inside = [pid for place in ("controller", "worker-0") for pid, _ in small.pids(place)]
    own = namespaces(inside) - namespaces([os.getpid()])
    assert len(own) == 6, "a pid, a mount and a network namespace for the box and for its node"
    small.down()
    wait_until_gone(small.pid)
    assert not small.folder.exists()
    assert not [pid for pid in all_pids() if str(small.folder) in " ".join(enter.argv_of(pid))]
    assert not own & namespaces(all_pids())


@pytest.mark.one_release
def test_a_box_ends_with_its_owner(release: str) -> None:
    with subprocess.Popen(["sleep", "600"]) as owner:
        small = Box.up(f"owner-{os.getpid()}", nodes=1, slurm=release, owner_pid=owner.pid)
        owner.kill()
    wait_until_gone(small.pid)
    small.down()


@pytest.mark.one_release
def test_a_box_is_the_same_from_a_background_job_with_a_narrow_umask_and_no_home(
    release: str,
) -> None:
    """As from cron or a service: signals of the daemons and file modes do not depend on the caller."""
    name = f"background-{os.getpid()}"
    awkward = "umask 077; trap '' HUP INT QUIT; unset HOME; exec \"$@\" </dev/null"
    up = [str(SANDBOX), "up", "--nodes", "1", "--slurm", release, "--name", name]
    argv = ["sh", "-c", awkward, "sh", *up, "--owner-pid", str(os.getpid())]
    subprocess.run(argv, check=True, capture_output=True, timeout=120, start_new_session=True)
    box = Box.find(name)
    try:
        assert (
            "usage" in box.node("worker-0").run(["holdfast", "--help"], user="alice").stdout.lower()
        )
        status = Path(f"/proc/{box.daemons()['slurmctld']}/status").read_text()
        ignored = int(status.split("SigIgn:")[1].split()[0], 16)
        assert not ignored & 0b111, "SIGHUP, SIGINT and SIGQUIT"
        job = box.run(["srun", "grep", "SigIgn", "/proc/self/status"], user="alice")
        assert int(job.stdout.split()[1], 16) & 0b111 == 0
    finally:
        box.down()


@pytest.mark.one_release
def test_an_up_that_is_killed_leaves_nothing(release: str) -> None:
    name = f"killed-{os.getpid()}"
    argv = [
        sys.executable,
        "-m",
        "testbed",
        "up",
        "--nodes",
        "1",
        "--slurm",
        release,
        "--name",
        name,
    ]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL, start_new_session=True) as up:
        end = time.monotonic() + 60
        while Box.look(name) is None:
            assert time.monotonic() < end
            time.sleep(0.02)
        box = Box.find(name)
        up.send_signal(signal.SIGKILL)
    wait_until_gone(box.pid)
    box.down()
