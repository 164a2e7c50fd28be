"""docs/howto/install.md on a cluster without Holdfast, as it is written: install, upgrade, roll back, remove.

From the upgrade on, jobs start and end on every node all the time. None of them is touched, and at the end
the cluster is as it was found. On one release: tests/packages/test_node_packages.py installs, upgrades and
removes a package on each.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from testbed.box import Box

from holdfast.version import VERSION
from tests.e2e import cluster
from tests.e2e.install import found
from tests.e2e.install.page import Page, changed, without
from tests.e2e.install.person import Person, slurm_alone
from tests.e2e.install.storm import Storm, of_all_jobs, started
from tests.e2e.verdicts import Verdicts

pytestmark = [pytest.mark.e2e, pytest.mark.one_release, pytest.mark.timeout(900)]

NEXT = "9.9.9"
ENOUGH = "/mnt/training/enough"
CONFIG = "/etc/holdfast/holdfast.yaml"
SIMULATED = "kmsg: /sim/kmsg, sysfs: /sim/sys"
"""Where the hardware of a box is."""
DRAINED, COMMENTED = "worker-1", "worker-2"
"""The nodes of the commands of the removal."""
STAGE_S = 8.0
STAYS = ("/etc/bash_completion.d", "/usr/local/share/man/man1")
"""Folders that the sandbox's Debian does not have before."""
NOT_RUN = {
    "holdfast render systemd": "no systemd runs in the sandbox",
    "#SBATCH --requeue": "lines of a batch script; a job here has the same options",
}


@pytest.fixture
def box(release: str) -> Iterator[Box]:
    running = slurm_alone(release, nodes=4)
    yield running
    running.down()


class Administrator(Person):
    """Follows install.md."""

    def program(self) -> str:
        """The commands of step 1; Debian's package of venv is in the sandbox, which has no network."""
        return without(self.page.block("apt-get update"), "apt-get update")

    def agents_have(self, version: str) -> None:
        for node in self.box.nodes:
            verdicts = Verdicts(self.box, node.name)
            begin = time.time()
            cluster.wait_for(
                lambda: verdicts.read().get("version") == version,  # noqa: B023
                f"{node.name}'s agent of version {version}",
                90,
                lambda: str(verdicts.read()),  # noqa: B023
            )
            cluster.wait_for(
                lambda: verdicts.read().get("at", 0.0) > begin,  # noqa: B023
                f"a new verdict of {node.name}",
            )

    # -- the parts of the page -------------------------------------------------------------------------

    def install(self) -> None:
        self.check_out(VERSION)
        self.on_a_node(self.program())
        self.on_a_node(self.page.block("mkdir -p /etc/bash_completion.d"))
        self.on_a_node(self.page.block("mkdir -p /etc/holdfast\n"))
        self.edit(r"^paths: \{", f"paths: {{{SIMULATED}, ")
        self.edit(r"^node:", "agent: {interval_s: 1}\nnode:")
        said = self.on_a_node(self.page.block("holdfast config check"))
        assert "GPU" in said
        self.on_a_node(self.page.block("mkdir -p /etc/slurm/holdfast"))
        printed = self.on_the_controller(self.page.block("cp -p /etc/slurm/slurm.conf"))
        add_lines(self.box.path(found.SLURM_CONF), printed)
        self.on_the_controller(self.page.inline("scontrol reconfigure"))
        self.agents_have(VERSION)
        assert self.on_every_node(self.page.block("cat /run/holdfast/verdict")).count("ok ") >= 4

    def edit(self, pattern: str, words: str) -> None:
        """Changes one place of the configuration, which an editor replaces as a whole."""
        path = self.box.path(CONFIG)
        text, count = re.subn(pattern, words, path.read_text(), flags=re.MULTILINE)
        assert count == 1, pattern
        new = path.with_suffix(".new")
        new.write_text(text)
        new.replace(path)

    def arm(self) -> None:
        """Step 4's lines, in the file that lists every check."""
        (lines,) = re.findall(r"```yaml\n(checks:\n  gpu_xid: .*?)```", self.page.text, re.DOTALL)
        for name, check in yaml.safe_load(lines)["checks"].items():
            self.edit(rf"^(  {name}: +\{{mode: )observe", rf"\g<1>{check['mode']}")

    def upgrade(self) -> None:
        self.check_out(NEXT)
        commands = changed(self.program(), f"version={VERSION}", f"version={NEXT}")
        before, last_two = commands.splitlines(keepends=True)[:-2], commands.splitlines()[-2:]
        assert last_two[0].startswith("ln -sfn"), last_two
        validate = self.page.block("$home/bin/holdfast config check")
        self.on_a_node("".join((*before, validate, *(f"{line}\n" for line in last_two))))
        self.on_every_node(self.page.block('kill -HUP "$(cat'))
        self.agents_have(NEXT)

    def roll_back(self) -> None:
        self.on_every_node(self.page.block(f"ln -sfn /opt/holdfast-{VERSION}"))
        self.agents_have(VERSION)

    def remove(self) -> None:
        switch = "mkdir -p /etc/holdfast/off && touch /etc/holdfast/off/all"
        self.on_every_node(self.page.inline(switch))
        time.sleep(10)  # as the page says
        owners = self.on_the_controller(self.page.block("holdfast nodes"))
        assert f"{DRAINED} " in owners
        # "Also clear the comments that begin with `holdfast:`": on a busy machine there are more.
        for name, record in found.nodes(self.box).items():
            if record["comment"].startswith("holdfast:"):
                self.on_the_controller(f"scontrol update NodeName={name} Comment=")
        time.sleep(5)  # with the kill switch nothing drains the node again
        assert not cluster.drained(self.box, DRAINED)
        conf = self.page.block("diff /etc/slurm/slurm.conf.before-holdfast")
        # diff's status is 1 where the files differ, which they do.
        first, _, rest = conf.partition("\n")
        assert "> Prolog=" in self.on_the_controller(f"{first} || [ $? = 1 ]\n{rest}")
        files = without(self.page.block("systemctl disable"), "systemctl disable")
        self.on_every_node(files)
        self.on_every_node(self.page.block("rm -rf /etc/holdfast"))


def add_lines(path: Path, printed: str) -> None:
    """What a person does with the output of ``holdfast render slurm-conf --set onto=FILE``."""
    lines = path.read_text().splitlines()
    comments: list[str] = []
    for line in printed.splitlines():
        if line.startswith("#"):
            comments.append(line)
            continue
        place = re.match(r"# instead of \S+?:(\d+)", comments[-1]) if comments else None
        if place:
            assert lines[int(place[1]) - 1].partition("=")[0] == line.partition("=")[0], line
            lines[int(place[1]) - 1] = line
        else:
            lines.append(line)
    path.write_text("\n".join(lines) + "\n")


def test_the_cluster_is_as_it_was_found_and_no_job_is_touched(box: Box) -> None:
    person = Administrator(box, Page("install.md", NOT_RUN))
    untouched = found.look(box)
    assert found.holdfast_processes(box) == []

    person.install()
    person.arm()
    person.on_a_node(person.page.block("mkdir -p /etc/holdfast/off\n"))
    person.on_a_node("rm -r /etc/holdfast/off")
    break_two_nodes(box)

    stages = in_a_storm(box, person)
    box.heal(DRAINED)
    box.heal(COMMENTED)
    judge_jobs(box, stages)
    cluster.wait_for(lambda: not found.holdfast_processes(box), "no process of Holdfast")
    assert set(untouched.differences(found.look(box))) == {
        f"+ controller d 755 0:0  {folder}" for folder in STAYS
    }
    assert all(f"`{folder}`" in person.page.text for folder in STAYS)
    assert box.path("/mnt/training/holdfast-history").is_dir(), "the page says that it stays"
    assert person.page.never_run() == []


def break_two_nodes(box: Box) -> None:
    """One node that Holdfast has drained, and one with its comment."""
    box.fault(DRAINED, "gpu-lost", "--gpu", "3")
    box.fault(COMMENTED, "mount-read-only", "/mnt/inference")
    cluster.wait_for(lambda: cluster.drained(box, DRAINED), f"{DRAINED} drained")
    cluster.wait_for(
        lambda: cluster.slurm_node(box, COMMENTED)["comment"].startswith("holdfast:"),
        f"a comment of {COMMENTED}",
        scene=lambda: str(Verdicts(box, COMMENTED).read()),
    )


def in_a_storm(box: Box, person: Administrator) -> dict[str, tuple[float, float]]:
    """Upgrade, roll back and remove while jobs run. Returns begin and end of each."""
    nodes, conf = found.nodes(box), box.path(found.SLURM_CONF).read_bytes()
    stages: dict[str, tuple[float, float]] = {}
    storm = Storm(box)
    try:
        long_job(box)
        for name, step in (("upgrade", person.upgrade), ("roll back", person.roll_back)):
            stages[name] = timed(step)
            assert found.nodes(box) == nodes, name
            assert box.path(found.SLURM_CONF).read_bytes() == conf, name
        # "First ask users to remove `holdfast run` from their batch scripts."
        box.path(ENOUGH).touch()
        stages["removal"] = timed(person.remove)
    finally:
        storm.end()
    return stages


def timed(step: Callable[[], None]) -> tuple[float, float]:
    begin = time.time()
    step()
    time.sleep(STAGE_S)
    return begin, time.time()


def judge_jobs(box: Box, stages: Mapping[str, tuple[float, float]]) -> None:
    """Each job completed at its first run, and in each stage jobs started on every node in service."""
    ran = of_all_jobs(box)
    names = [each.job for each in ran]
    assert sorted(names) == sorted(set(names)), "no job ran twice"
    assert {(each.state, each.exit_code) for each in ran} == {("COMPLETED", "0:0")}
    for name, (begin, end) in stages.items():
        on = started(ran, begin, end)
        wanted = set(box.shape.node_names) - ({DRAINED} if name != "removal" else set())
        assert wanted <= set(on), f"{name}: jobs started on {on}"
        assert sum(on.values()) > 10, f"{name}: {on}"


def long_job(box: Box) -> None:
    """A job under ``holdfast run`` that lasts until the file ``ENOUGH`` is there."""
    command = f"until [ -e {ENOUGH} ]; do sleep 0.5; done"
    words = ["sbatch", "--parsable", "--requeue", "--open-mode=append", "--chdir=/tmp"]
    words += ["--nodelist=worker-0,worker-3", "--nodes=2", "--output=/mnt/training/long.out"]
    run = f"holdfast run --checkpoints /mnt/training/long -- srun sh -c '{command}'"
    job = box.run([*words, f"--wrap={run}"], user="alice").stdout.strip()
    step = ["squeue", "--noheader", "--steps", f"--jobs={job}", "--format=%i"]
    cluster.wait_for(lambda: f"{job}.0" in box.run(step).stdout, "the step of the long job")
