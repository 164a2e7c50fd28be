"""The DaemonSet: what it may and may not have, and its script, beside a slurmd of its own making."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands.render import render_text
from holdfast.errors import UsageError
from slurm_hooks.deploy.daemonset import DAEMONSET

IMAGE = f"docker.io/library/debian@sha256:{'0123456789abcdef' * 4}"


def objects(**values: str) -> dict[str, Any]:
    values = {"image": IMAGE, **values}
    return {one["kind"]: one for one in yaml.safe_load_all(render_text("daemonset", **values))}


def pod(**values: str) -> dict[str, Any]:
    spec: dict[str, Any] = objects(**values)["DaemonSet"]["spec"]["template"]["spec"]
    return spec


def test_it_runs_where_drained_nodes_are_and_brings_no_rights() -> None:
    spec = pod()
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert spec["hostPID"] is True
    assert spec["automountServiceAccountToken"] is False
    assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert not {"hostNetwork", "hostIPC", "serviceAccountName"} & set(spec)
    assert [set(volume) for volume in spec["volumes"]] == [{"name", "configMap"}]


def test_its_limits_leave_room_above_what_an_agent_may_take() -> None:
    resources = pod(memory_limit_mib="128")["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "20m", "memory": "64Mi"}
    assert resources["limits"] == {"memory": "128Mi"}


def test_an_agent_that_is_silent_for_long_enough_is_started_again() -> None:
    for silent_s, periods in (("60", 4), ("61", 5), ("1", 1)):
        probe = pod(silent_s=silent_s)["containers"][0]["livenessProbe"]
        assert (probe["periodSeconds"], probe["failureThreshold"]) == (15, periods)
        assert probe["exec"]["command"][-1] == "alive"


def test_labels_are_one_selector_and_none_is_every_node() -> None:
    spec = pod(node_selector="nvidia.com/gpu.present=true,pool=h100")
    assert spec["nodeSelector"] == {"nvidia.com/gpu.present": "true", "pool": "h100"}
    assert pod(node_selector="")["nodeSelector"] == {}


def test_another_script_makes_other_pods() -> None:
    def digest(**values: str) -> str:
        template = objects(**values)["DaemonSet"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["holdfast.dev/script"])

    assert digest() == digest(namespace="slurm", image=IMAGE.replace("debian", "tools"))
    assert digest() != digest(home="/usr/local/holdfast")


@pytest.mark.parametrize(
    "values",
    [
        {"namespace": "Holdfast"},
        {"image": "debian; rm"},
        {"image": "docker.io/library/debian:13-slim"},
        {"image": IMAGE[:-1]},
        {"slurmd": "slurmd"},
        {"slurmd": "/usr/sbin/slurmd /tmp/slurmd"},
        {"home": "opt/holdfast"},
        {"config": "/etc/hold'fast"},
        {"node_selector": "gpu"},
        {"node_selector": "gpu=true, pool=x"},
        {"max_unavailable": "0"},
        {"max_unavailable": "100%"},
        {"memory_limit_mib": "127"},
        {"silent_s": "0"},
        {"priority_class": ""},
        {"node_name": "worker-0"},
    ],
    ids=str,
)
def test_what_it_cannot_take_is_said_in_one_line(values: Mapping[str, str]) -> None:
    with pytest.raises(UsageError, match=next(iter(values))) as error:
        render_text("daemonset", **{"image": IMAGE, **values})
    assert "\n" not in str(error.value)


def test_the_image_is_given_with_its_digest_and_nothing_else_must_be_given() -> None:
    assert [name for name, value in DAEMONSET.values.items() if value.required] == ["image"]
    with pytest.raises(UsageError, match="image has no default; give it with --set image="):
        render_text("daemonset")
    assert pod()["containers"][0]["image"] == IMAGE
    assert all(value.about for value in DAEMONSET.values.values())


# --- the script itself ----------------------------------------------------------------------------

_AGENT = """\
#!/bin/sh
# In the place of the agent: says what it sees, holds the lock, ends in order.
pwd -P >{folder}/cwd
cd {folder}
mkdir -p /run/holdfast
echo $$ >/run/holdfast/agent.lock
trap 'echo "$(uname -n) ended" >ended; : >/run/holdfast/agent.lock; exit 0' TERM
{{ tr '\\0' '\\n' </proc/$$/environ; grep -E '^(CapBnd|NoNewPrivs)' /proc/$$/status
  echo "words=$*"; uname -n; }} >seen.part
mv seen.part seen
while :; do sleep 0.05; done
"""
_MACHINE = """\
# A machine with its own processes and its own /run; in it a container with slurmd.
mount -t tmpfs none /run
cp /bin/sleep {folder}/slurmd
unshare --mount --uts --pid --fork --mount-proc sh -c '
  hostname worker-7; mount -t tmpfs none /run; touch /run/of-the-pod; ln -s {folder}/home /run/home
  exec env SLURM_CONF=/etc/other.conf {folder}/slurmd 60' &
exec sh
"""


def script(**values: str) -> str:
    text = objects(**values)["ConfigMap"]["data"]["agent.sh"]
    assert isinstance(text, str)
    return text


class Machine:
    """One with process ids, mounts and names of its own, in which slurmd runs in a container."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        python = folder / "home/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(_AGENT.format(folder=folder))
        python.chmod(0o755)
        # As on Soperator, a link: it holds in the container alone.
        text = script(home="/run/home", slurmd=f"/usr/sbin/slurmd,{folder}/slurmd")
        (folder / "agent.sh").write_text(text.replace("pause_s=5", "pause_s=0.1"))
        argv = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._shell = subprocess.Popen(
            [*argv, "sh", "-c", _MACHINE.format(folder=folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.run("until grep -qsx slurmd /proc/[0-9]*/comm; do sleep 0.02; done; sleep 0.1")

    def run(self, command: str) -> str:
        """What it prints in the machine, outside the container."""
        assert self._shell.stdin
        assert self._shell.stdout
        self._shell.stdin.write(f"{command}\necho --$?\n")
        self._shell.stdin.flush()
        said = ""
        for line in self._shell.stdout:
            said += line
            if line.startswith("--"):
                return said
        raise AssertionError(f"the machine is gone: {said}")

    def asks(self, what: str) -> bool:
        return self.run(f"sh {self.folder}/agent.sh {what}").endswith("--0\n")

    def await_file(self, name: str) -> str:
        end = time.monotonic() + 60
        while not (self.folder / name).exists():
            assert time.monotonic() < end, (name, (self.folder / "log").read_text())
            time.sleep(0.02)
        return (self.folder / name).read_text()

    def close(self) -> None:
        self._shell.kill()
        self._shell.communicate()


@pytest.fixture
def machine() -> Iterator[Machine]:
    if os.geteuid() != 0:
        pytest.skip("namespaces of one's own need root")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        # pytest's own folders are closed to other users, and here a user attacks.
        Path(folder).chmod(0o755)
        one = Machine(Path(folder))
        yield one
        one.close()


def test_the_agent_runs_inside_slurmds_container_with_no_more_than_it_needs(
    machine: Machine,
) -> None:
    machine.run(f"sh {machine.folder}/agent.sh run >{machine.folder}/log 2>&1 & starter=$!")
    seen = machine.await_file("seen").splitlines()
    assert seen[-1] == "worker-7", "the container's name, and so its Slurm node"
    assert seen[-2] == "words=-I -m slurm_hooks.agent --wait --config /etc/holdfast/holdfast.yaml"
    told = dict(line.split("=", 1) for line in seen if "=" in line)
    assert told["SLURM_CONF"] == "/etc/other.conf"
    assert told["HOLDFAST_CONFIG"] == "/etc/holdfast/holdfast.yaml"
    assert "NoNewPrivs:\t1" in seen
    kept = int(next(line for line in seen if line.startswith("CapBnd")).split()[1], 16)
    # linux/capability.h: CHOWN 0, DAC_OVERRIDE 1, DAC_READ_SEARCH 2, FOWNER 3, KILL 5, SETGID 6,
    # SETUID 7, SYS_PTRACE 19, SYS_ADMIN 21, SYSLOG 34: those of the systemd unit.
    allowed = {0, 1, 2, 3, 5, 6, 7, 19, 21, 34}
    assert (machine.folder / "cwd").read_text() == "/\n", "of the container, not of the pod"
    assert {bit for bit in range(41) if kept >> bit & 1} <= allowed

    assert not machine.asks("alive"), "an agent that says that it runs and has no verdict"
    machine.run("kill $starter; wait $starter")
    assert machine.await_file("ended") == "worker-7 ended\n"
    assert machine.asks("alive"), "nobody says that an agent runs"


def test_an_agent_that_is_killed_is_started_again(machine: Machine) -> None:
    machine.run(f"sh {machine.folder}/agent.sh run >{machine.folder}/log 2>&1 &")
    machine.await_file("seen")
    (machine.folder / "seen").unlink()
    machine.run("kill -9 $(grep -l slurm_hooks.agent /proc/[0-9]*/cmdline | cut -d/ -f3)")
    machine.await_file("seen")
    assert "again in 0.1 s" in (machine.folder / "log").read_text()


def test_a_verdict_makes_it_ready_only_while_it_is_fresh_and_of_this_boot(machine: Machine) -> None:
    assert not machine.asks("ready")
    write = (
        "root=/proc/$(grep -lx slurmd /proc/[0-9]*/comm | cut -d/ -f3)/root; run=$root/run/holdfast; "
        "mkdir -p $run; read -r up rest </proc/uptime; read -r boot </proc/sys/kernel/random/boot_id; "
        'echo "ok $((${up%%.*} + AHEAD)) BOOT holdfast/1" >$run/verdict; echo 1 >$run/agent.lock'
    )
    for ahead, boot, fresh in (("600", "$boot", True), ("-5", "$boot", False), ("600", "x", False)):
        machine.run(write.replace("AHEAD", ahead).replace("BOOT", boot))
        assert machine.asks("ready") is fresh
        assert machine.asks("alive") is fresh


def test_a_slurmd_that_started_itself_again_has_its_files_name(machine: Machine) -> None:
    """As after ``scontrol reconfigure`` on Slurm 26.05, where Debian's slurmd is a link to slurmd-wlm."""
    folder = machine.folder
    text = (folder / "agent.sh").read_text()
    text = text.replace(f"{folder}/slurmd'", f"{folder}/slurmd {folder}/slurmd-wlm'")
    (folder / "agent.sh").write_text(text)
    machine.run("kill -9 $(grep -lx slurmd /proc/[0-9]*/comm | cut -d/ -f3)")
    machine.run(
        f"cp /bin/sleep {folder}/slurmd-wlm; unshare --mount --uts --pid --fork --mount-proc sh -c '"
        f"hostname worker-8; mount -t tmpfs none /run; ln -s {folder}/home /run/home; "
        f"exec {folder}/slurmd-wlm 60' & until grep -qsx slurmd-wlm /proc/[0-9]*/comm; do sleep 0.02; done"
    )
    machine.run(f"sh {folder}/agent.sh run >{folder}/log 2>&1 &")
    assert machine.await_file("seen").splitlines()[-1] == "worker-8"


# --- what a user may start under the name of slurmd ------------------------------------------------

_HIS = "setpriv --reuid 2002 --regid 2002 --clear-groups"
_HIS_ROOT = """
  mount -t tmpfs none /mnt; mkdir /mnt/root; mount --rbind / /mnt/root
  mount --bind {folder}/his /mnt/root/{folder}/home/bin
  mkdir -p /mnt/root/run/holdfast; echo 1 >/mnt/root/run/holdfast/agent.lock
"""
_HIS_AGENT = """\
#!/bin/sh
id -u >{folder}/his/ran
sleep 60
"""
FAKES = {
    "his own program": "{user} {folder}/his/slurmd 60",
    "the real program, run by him": "{user} {folder}/slurmd 60",
    "his own program in a user namespace": "{user} unshare -Urm {folder}/his/slurmd 60",
    "his own program over the real one's path in a user namespace and a chroot": (
        "{user} unshare -Urm sh -c '{mounts} mount --bind {folder}/his/slurmd "
        "/mnt/root/{folder}/slurmd; exec chroot /mnt/root {folder}/slurmd 60'"
    ),
    "a setuid program that keeps his real uid": "{user} {folder}/setuid/slurmd 60",
    "a setuid program that takes root's four uids, as sudo does": "{folder}/sudo/slurmd 60",
    "root's program that others may write": "{folder}/writable/slurmd 60",
    "root's program that a group may write": "{folder}/group/slurmd 60",
    "a user's program that root runs": "{folder}/foreign/slurmd 60",
    "the real program in a user namespace with root's own number": (
        "unshare -Urm {folder}/slurmd 60"
    ),
}


def attack(machine: Machine) -> None:
    """All of them at once, with numbers that a search by name meets before the real one's."""
    folder = machine.folder
    for name, owner, mode in (
        ("his", 2002, 0o755), ("setuid", 0, 0o4755), ("sudo", 0, 0o755),
        ("writable", 0, 0o757), ("group", 0, 0o775), ("foreign", 2002, 0o755),
    ):  # fmt: skip
        (folder / name).mkdir()
        shutil.copy("/bin/sleep", folder / name / "slurmd")
        os.chown(folder / name / "slurmd", owner, owner)
        (folder / name / "slurmd").chmod(mode)
    os.chown(folder / "his", 2002, 2002)
    (folder / "his/python").write_text(_HIS_AGENT.format(folder=folder))
    (folder / "his/python").chmod(0o755)
    # The paths of these are allowed: it is owner and mode that must tell them.
    text = (folder / "agent.sh").read_text()
    more = " ".join(f"{folder}/{name}/slurmd" for name in ("writable", "group", "foreign"))
    (folder / "agent.sh").write_text(text.replace("programs='", f"programs='{more} "))
    machine.run(f"ln -s {folder}/home /run/home; echo 999 >/proc/sys/kernel/ns_last_pid")
    mounts = _HIS_ROOT.format(folder=folder)
    for what, fake in FAKES.items():
        command = fake.format(folder=folder, user=_HIS, mounts=mounts)
        started = machine.run(
            f"{command} & fake=$!; for i in $(seq 3000); do "
            "grep -sqx slurmd /proc/$fake/comm && break; sleep 0.02; done; cat /proc/$fake/comm"
        )
        assert started.split()[0] == "slurmd", f"{what}: {started}"


def test_only_roots_own_slurmd_is_entered(machine: Machine) -> None:
    attack(machine)
    first = machine.run("grep -lx slurmd /proc/[0-9]*/comm | head -1")
    assert first.startswith("/proc/10"), f"no fake is met first: {first}"
    assert machine.asks("alive"), "no agent says that it runs beside the real slurmd"
    machine.run(f"sh {machine.folder}/agent.sh run >{machine.folder}/log 2>&1 &")
    seen = machine.await_file("seen").splitlines()
    assert seen[-1] == "worker-7"
    assert not (machine.folder / "his/ran").exists()


def test_fakes_alone_are_no_slurmd(machine: Machine) -> None:
    machine.run("kill -9 $(grep -lx slurmd /proc/[0-9]*/comm | cut -d/ -f3); sleep 0.1")
    attack(machine)
    assert machine.asks("ready")
    assert machine.asks("alive")
    machine.run(f"sh {machine.folder}/agent.sh run >{machine.folder}/log 2>&1 &")
    log = machine.folder / "log"
    until = time.monotonic() + 60
    while not (log.exists() and "no slurmd" in log.read_text()) and time.monotonic() < until:
        time.sleep(0.1)
    assert "no slurmd" in log.read_text()
    assert "agent of" not in log.read_text()
    assert not (machine.folder / "his/ran").exists()


def test_a_slurmd_whose_program_an_upgrade_replaced_is_still_slurmd(machine: Machine) -> None:
    machine.run(
        f"cp /bin/sleep {machine.folder}/new; mv {machine.folder}/new {machine.folder}/slurmd"
    )
    machine.run(f"sh {machine.folder}/agent.sh run >{machine.folder}/log 2>&1 &")
    assert machine.await_file("seen").splitlines()[-1] == "worker-7"


def test_a_slurmd_elsewhere_is_named_with_the_remedy(machine: Machine) -> None:
    text = (machine.folder / "agent.sh").read_text().replace(f",{machine.folder}/slurmd", "")
    (machine.folder / "agent.sh").write_text(
        text.replace(f"/usr/sbin/slurmd {machine.folder}/slurmd", "/usr/sbin/slurmd")
    )
    machine.run(
        f"sh {machine.folder}/agent.sh run >{machine.folder}/log 2>&1 & until [ -s {machine.folder}/log ]; "
        "do sleep 0.1; done; sleep 0.5"
    )
    log = (machine.folder / "log").read_text()
    assert f"{machine.folder}/slurmd is not one of /usr/sbin/slurmd (--set slurmd=" in log
    assert log.count("\n") == 1, "once, not at each look"


def test_a_users_processes_of_that_name_make_the_search_start_no_programs(
    machine: Machine,
) -> None:
    (machine.folder / "his").mkdir()
    shutil.copy("/bin/sleep", machine.folder / "his/slurmd")
    user = "setpriv --reuid 2002 --regid 2002 --clear-groups"
    machine.run(
        f"{user} sh -c 'for i in $(seq 200); do {machine.folder}/his/slurmd 60 & done; wait' & "
        "until [ $(grep -lx slurmd /proc/[0-9]*/comm | wc -l) -gt 200 ]; do sleep 0.1; done"
    )
    # The last process number that was given out.
    last = "cut -d' ' -f5 /proc/loadavg"
    before = int(machine.run(last).split()[0])
    assert machine.asks("alive")
    assert int(machine.run(last).split()[0]) - before < 20


def test_a_pod_in_a_user_namespace_of_its_own_says_that_it_cannot_judge(machine: Machine) -> None:
    for word, status in (("run", 2), ("ready", 2), ("alive", 0)):
        said = machine.run(f"unshare -Ur sh {machine.folder}/agent.sh {word}")
        assert "user namespace of its own" in said
        assert said.endswith(f"--{status}\n")


def test_without_slurmd_there_is_nothing_to_do(machine: Machine) -> None:
    machine.run("kill -9 $(grep -lx slurmd /proc/[0-9]*/comm | cut -d/ -f3); sleep 0.1")
    assert machine.asks("ready")
    assert machine.asks("alive")


@pytest.mark.parametrize(
    ("words", "node", "conf", "status"),
    [
        ("-D -N worker-3", "worker-3", "", 0),
        ("-D -Nworker-3 -f /etc/s.conf", "worker-3", "/etc/s.conf", 0),
        ("-D --instance-id -Z", "", "", 0),
        ("-D -N 'worker 3'", "worker 3", "", 1),
        ("-D -N --wait", "--wait", "", 1),
        ("-D -f s.conf", "", "s.conf", 1),
        ("-D -f /etc/../home/bob/s.conf", "", "/etc/../home/bob/s.conf", 1),
        ("-D -f '/etc/s.conf LD_PRELOAD=/x'", "", "/etc/s.conf LD_PRELOAD=/x", 1),
    ],
)
def test_the_name_that_slurmd_was_given_goes_before_the_hosts(
    words: str, node: str, conf: str, status: int
) -> None:
    text = script().partition("\nif ! in_initial_user_namespace")[0]
    # It stops itself once it is the program with these words.
    begins = f'SLURM_CONF="" sh -c "kill -STOP \\$\\$" slurmd {words} >/dev/null &'
    waits = "until grep -q '^State:.T' /proc/$!/status; do sleep 0.02; done"
    ends = 'echo "$node|$conf|$?"; kill -9 $!'
    asks = f"{text}\n{begins}\n{waits}; cd /proc/$!; read_slurmd_options; {ends}"
    done = subprocess.run(
        ["sh", "-c", asks], capture_output=True, text=True, check=False, timeout=20
    )
    assert (done.stdout, done.stderr) == (f"{node}|{conf}|{status}\n", "")
