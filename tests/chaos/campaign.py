"""A campaign: random faults on every node, beside people's actions and dying daemons, and four rules that hold.

1. A person's drain is never undone, and its reason never overwritten.
2. A node whose faults are healed returns to service, unless a person drained it.
3. No job stays RUNNING without progress.
4. Holdfast has no more nodes out of service than its budget allows, but for the seconds that a withdrawal takes.

Each node has a thread that draws its story from the seed; one more thread kills daemons, one runs jobs, one watches
the rules. Threads race one another, so a seed repeats what is done, and nearly when.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.box import Box
from testbed.errors import SandboxError
from testbed.faults.machine import START_SLURMD
from testbed.shape import CONTROLLER

from holdfast.reason import Reason
from tests.chaos.kills import kill_agent, kill_bridge, kill_launcher
from tests.e2e.job import training

FAULTS: tuple[tuple[str, ...], ...] = (
    ("gpu-lost", "--gpu", "3"), ("xid", "79", "--gpu", "1"), ("xid", "48"), ("xid", "94"), ("ecc", "--gpu", "2"),
    ("nvlink-down",), ("row-remap-pending",), ("thermal",), ("nvml-hung",), ("nvml-unkillable",),
    ("gpu-count", "7"), ("pcie-width",), ("mount-gone", "/mnt/inference"), ("mount-hung", "/mnt/inference"),
    ("mount-full", "/mnt/inference"), ("mount-read-only", "/mnt/inference"), ("mount-gone",), ("mount-hung",),
    ("disk-full",), ("state-full",), ("state-read-only",), ("state-hung",), ("run-full",),
    ("munge-down",), ("power-off",), ("power-cycle",), ("network-cut",), ("slurmd-killed",), ("agent-killed",),
    ("clock-skew", "--seconds", "-3600"),
    ("clock-skew", "--seconds", "90"),
)  # fmt: skip
"""What a node's story draws from. Each of them is over once it is healed; none waits for a person."""

RETURN_S = 180.0
"""A healed node is back in service by then: a boot, two re-checks and a wait, on a busy machine."""
STUCK_S = 150.0
"""A job that is RUNNING for so long without a step is stuck. Slurm's own requeue delay is 121 s."""
OVER_BUDGET_S = 15.0
SAVED_S = 7.0
"""slurmctld saves a node's state up to 5 s after a change; what was not saved dies with it."""
OVERWRITTEN_S = 1.5
"""A person's reason may be missing from one look, not from two: nobody sets it again."""
UNDONE_S = 25.0
"""The agent sets a person's drain again that its undrain ended, once accounting reports it: it asks after
2, 5 and 20 s (decision 19), and slurmdbd may be away for some seconds. The longest time is printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken rule, and how things stood."""

    at_s: float
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.at_s:7.1f} s  {self.rule}: {self.what}"


@dataclass(slots=True)
class Count:
    """What was done, for the report."""

    done: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, what: str) -> None:
        with self._lock:
            self.done[what] = self.done.get(what, 0) + 1


class Campaign:
    """``run`` returns the violations. ``faults``: how many are injected in all; ``say`` takes a line now and then.
    ``kinds``: the faults to draw from, by name; empty: all of ``FAULTS``.
    """

    def __init__(
        self,
        box: Box,
        *,
        seed: str,
        faults: int,
        jobs: int,
        say: Callable[[str], None],
        kinds: Sequence[str] = (),
    ) -> None:
        self.kinds = tuple(words for words in FAULTS if not kinds or words[0] in kinds)
        self.box, self.seed, self.jobs, self.say = box, seed, jobs, say
        self.count = Count()
        self.violations: list[Violation] = []
        self.drains = PersonsDrains()
        self._left = faults
        self._lock = threading.Lock()
        self._begin = time.monotonic()
        self._stories_over = threading.Event()
        self._over = threading.Event()

    def run(self) -> list[Violation]:
        watch = threading.Thread(target=self._guarded, args=(Watch(self).run,))
        others = [
            threading.Thread(target=self._guarded, args=(work,))
            for work in (Daemons(self).run, Jobs(self).run)
        ]
        stories = [
            threading.Thread(target=self._guarded, args=(Story(self, node.name).run,))
            for node in self.box.nodes
        ]
        for thread in (watch, *others, *stories):
            thread.start()
        for thread in stories:
            thread.join()
        self._stories_over.set()
        for thread in others:
            thread.join()
        self._over.set()
        watch.join()
        return self.violations

    # -- for its threads

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._begin

    def going(self) -> bool:
        """Whether the nodes' stories go on."""
        return not self._stories_over.is_set()

    def watching(self) -> bool:
        return not self._over.is_set()

    def take_fault(self) -> bool:
        """One of the faults that are left. False when there is none."""
        with self._lock:
            if self._left <= 0:
                return False
            self._left -= 1
            if self._left % 50 == 0:
                self.say(
                    f"{self.now_s:7.0f} s  {self._left} faults left, {len(self.violations)} violations"
                )
            return True

    def broken(self, rule: str, what: str) -> None:
        violation = Violation(at_s=self.now_s, rule=rule, what=what)
        self.violations.append(violation)
        self.say(str(violation))

    def nodes(self) -> dict[str, dict[str, Any]] | None:
        """slurmctld's own record of every node, None while it does not answer."""
        done = self.box.run(["timeout", "5", "scontrol", "show", "nodes", "--json"], check=False)
        try:
            rows = json.loads(done.stdout)["nodes"]
            return {row["name"]: row for row in rows if row["state"] and row["reason"] is not None}
        except (ValueError, KeyError, TypeError):
            return None

    def scene(self, node: str) -> str:
        """What runs on a node, and what was logged last about it."""
        return "\n".join(
            (
                *(
                    f"{pid} {kernel_state(pid)} {' '.join(argv)[:160]}"
                    for pid, argv in self.box.pids(node)
                ),
                self.tail(f"/var/log/slurm/slurmd.{node}.log", "", 20),
                self.tail(f"/var/log/holdfast/agent.{node}.log", "", 20),
                self.tail("/var/log/slurm/slurmctld.log", node, 20),
            )
        )

    def tail(self, path: str, word: str, lines: int) -> str:
        """The last lines of a log that contain ``word``."""
        try:
            text = self.box.path(path).read_text(errors="replace")
        except OSError as error:
            return str(error)
        return "\n".join([line for line in text.splitlines() if word in line][-lines:])

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a thread's failure must fail the campaign
            self.broken("the campaign itself", f"{type(error).__name__}: {error}")


class PersonsDrains:
    """The drains that a person made and has not taken back: node -> reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._lock = threading.Lock()
        self._changed_at = float("-inf")
        self.writing = threading.Lock()
        """ReservedBy while a person changes a node, and while slurmctld goes back to older state."""

    def saved(self) -> bool:
        """Whether slurmctld has saved all that people did: it may be killed."""
        return time.monotonic() - self._changed_at > SAVED_S

    def changing(self) -> None:
        """A person is about to change a node."""
        self._changed_at = time.monotonic()

    def __len__(self) -> int:
        return len(self._reasons)

    def __contains__(self, node: str) -> bool:
        with self._lock:
            return node in self._reasons

    def made(self, node: str, reason: str) -> None:
        with self._lock:
            self._reasons[node] = reason

    def taken_back(self, node: str) -> None:
        with self._lock:
            self._reasons.pop(node, None)

    def broken_on(self, rows: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
        """What is wrong with each of them in slurmctld's table: the node, and a sentence."""
        with self._lock:
            for node, reason in self._reasons.items():
                row = rows.get(node)
                if row is None:
                    continue
                if "DRAIN" not in row["state"]:
                    yield node, f"{node} is in service, though a person drained it: {reason}"
                elif not str(row["reason"]).startswith(reason):
                    yield node, f"{node}: the reason {reason!r} became {row['reason']!r}"


class Story:
    """What happens on one node."""

    def __init__(self, campaign: Campaign, node: str) -> None:
        self._all, self._node, self._box = campaign, node, campaign.box
        self._chance = random.Random(f"{campaign.seed} {node}")
        self._turn = 0

    def run(self) -> None:
        time.sleep(self._chance.uniform(0, 5))
        while self._all.take_fault():
            self._turn += 1
            self._one()

    def _one(self) -> None:
        """A fault, perhaps two; a person or a kill somewhere between; the return."""
        chance = self._chance
        words = chance.choice(self._all.kinds)
        # A boot while the disk takes nothing loses the drain's record: then a person has to resume (decision 025).
        alone = words[0].startswith("state-")
        acts: list[Callable[[], None]] = [lambda: self._fault(words)]
        if chance.random() < 0.15 and not alone:
            more = chance.choice(
                [other for other in self._all.kinds if not other[0].startswith("state-")]
            )
            acts.append(lambda: self._fault(more))
        if chance.random() < 0.2:
            acts.insert(chance.randrange(len(acts) + 1), self._person_drains)
        if chance.random() < 0.15:
            acts.insert(chance.randrange(len(acts) + 1), self._agent_dies)
        if chance.random() < 0.1 and not alone:
            acts.append(self._power_cycle)
        for act in acts:
            act()
            time.sleep(chance.choice((0.0, 0.1, 0.5, 1.0, 2.0, 4.0)))
        self._heal()
        if chance.random() < 0.15 and self._node not in self._all.drains:
            # in the moment in which its agent gives it back
            time.sleep(chance.uniform(0, 6))
            self._person_drains()
        if self._node in self._all.drains:
            time.sleep(chance.uniform(0, 8))
            self._person_resumes()
        elif chance.random() < 0.08:
            self._person_reboots()
        self._returns()

    def _slurmd_runs(self) -> bool:
        return any(argv and argv[0].endswith("slurmd") for _, argv in self._box.pids(self._node))

    def _lost_its_job(self) -> bool:
        log = self._box.path(f"/var/log/slurm/slurmd.{self._node}.log")
        return "REQUEST_LAUNCH_PROLOG notification failed" in log.read_text(errors="replace")

    def _fault(self, words: tuple[str, ...]) -> None:
        try:
            self._box.fault(self._node, *words)
        except (SandboxError, OSError):
            self._all.count.add("fault refused (another one is in its way)")
        else:
            self._all.count.add(f"fault {words[0]}")

    def _heal(self) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                self._box.heal(self._node)
            except SandboxError as error:
                if time.monotonic() > end:
                    self._all.broken("the sandbox", f"{self._node} does not heal: {error}")
                    return
                time.sleep(1)
            else:
                return

    def _power_cycle(self) -> None:
        try:
            self._box.reboot(self._node)
        except SandboxError:
            self._all.count.add("power cycle refused")
        else:
            self._all.count.add("power cycle")

    def _agent_dies(self) -> None:
        if self._box.node_pid(self._node) is not None and kill_agent(self._box, self._node):
            self._all.count.add("agent killed")

    def _person_drains(self) -> None:
        reason = f"ticket {self._turn} of {self._node}"
        words = ("update", f"nodename={self._node}", "state=drain", f"reason={reason}")
        with self._all.drains.writing:
            if self._scontrol(*words):
                self._all.drains.made(self._node, reason)
                self._all.count.add("person's drain")

    def _person_resumes(self) -> None:
        self._all.drains.taken_back(self._node)
        while True:
            with self._all.drains.writing:
                if self._scontrol("update", f"nodename={self._node}", "state=undrain"):
                    break
            time.sleep(1)
        self._all.count.add("person's resume")

    def _person_reboots(self) -> None:
        words = ("reboot", "asap", "nextstate=resume", "reason=kernel update", self._node)
        if self._scontrol(*words):
            self._all.count.add("person's reboot")

    def _scontrol(self, *words: str) -> bool:
        self._all.drains.changing()
        argv = ["timeout", "10", "scontrol", *words]
        return self._box.run(argv, check=False).returncode == 0

    def _returns(self) -> None:
        """Rule 2. Whatever a fault asked for, healing has done it: nothing is left for a person."""
        begin = time.monotonic()
        while time.monotonic() - begin < RETURN_S:
            rows = self._all.nodes()
            if rows and _in_service(rows[self._node]):
                self._all.count.add("node returned")
                return
            if time.monotonic() - begin > RETURN_S / 2 and not self._slurmd_runs():
                # killed twice while its clock was set: the sandbox's to mend
                self._box.node(self._node).run(START_SLURMD)
                self._all.count.add("slurmd started by hand")
            time.sleep(0.5)
        seen = self._all.nodes()
        row = seen[self._node] if seen else {}
        if "REBOOT_ISSUED" in row.get("state", ()):
            # Slurm's own: the node lost power, or slurmctld died, while the reboot was on its way.
            self._all.count.add("a person's reboot that Slurm lost")
            self._scontrol("update", f"nodename={self._node}", "state=resume")
            return
        if row.get("reason") == "Prolog error" and self._lost_its_job():
            # Slurm's own: a step was launched on a node that came back without the job's prolog.
            self._all.count.add("slurmd's own drain of a node that lost its job")
            self._scontrol("update", f"nodename={self._node}", "state=resume")
            return
        explained = self._box.run(["holdfast", "explain", self._node], check=False).stdout
        self._all.broken(
            "a healed node returns",
            f"{self._node} is {row.get('state')} {row.get('reason')!r} after {RETURN_S:.0f} s\n{explained}\n"
            f"{self._all.scene(self._node)}",
        )
        self._scontrol("update", f"nodename={self._node}", "state=resume")


def _in_service(row: dict[str, Any]) -> bool:
    out = {
        "DRAIN",
        "DOWN",
        "NOT_RESPONDING",
        "INVALID_REG",
        "FAIL",
        "REBOOT_REQUESTED",
        "REBOOT_ISSUED",
    }
    return not out & set(row["state"])


class Daemons:
    """Daemons die, hang and come back."""

    def __init__(self, campaign: Campaign) -> None:
        self._all, self._box = campaign, campaign.box
        self._chance = random.Random(f"{campaign.seed} daemons")

    def run(self) -> None:
        while self._all.going():
            time.sleep(self._chance.uniform(1, 8))
            what = self._chance.choice(
                (
                    "bridge",
                    "launcher",
                    "slurmctld",
                    "hang",
                    "slurmdbd",
                    "older state",
                    "kube-apiserver",
                )
            )
            if what == "bridge":
                done = kill_bridge(self._box)
            elif what == "launcher":
                done = self._launcher()
            elif what == "older state":
                done = self._older_state()
            else:
                done = self._away(what)
            if done:
                self._all.count.add(f"daemons: {what}")

    def _launcher(self) -> bool:
        """The launcher of some job. False where none runs that is old enough."""
        nodes = [node.name for node in self._box.nodes if self._box.node_pid(node.name) is not None]
        self._chance.shuffle(nodes)
        return any(kill_launcher(self._box, node) for node in nodes)

    def _older_state(self) -> bool:
        """slurmctld comes back with the box's first node states. Only while no person's drain would be lost."""
        with self._all.drains.writing:
            if len(self._all.drains) or not self._all.drains.saved():
                return False
            try:
                self._box.fault(CONTROLLER, "slurmctld-restored")
            except SandboxError as error:
                self._all.broken("the sandbox", f"slurmctld-restored: {error}")
                return False
        return True

    def _away(self, what: str) -> bool:
        """A daemon of the controller is gone, or silent, for a few seconds."""
        kinds = {
            "hang": "slurmctld-stopped", "slurmctld": "slurmctld-killed", "slurmdbd": "slurmdbd-down",
            "kube-apiserver": "api-server-down",
        }  # fmt: skip
        kind = kinds[what]
        with self._all.drains.writing if what == "slurmctld" else nullcontext():
            while what == "slurmctld" and not self._all.drains.saved():
                time.sleep(0.5)
            try:
                self._box.fault(CONTROLLER, kind)
            except SandboxError:
                return False  # it is still starting
            try:
                time.sleep(self._chance.choice((0.2, 1.0, 3.0)))
                self._box.heal(CONTROLLER, kind)
            except SandboxError as error:
                self._all.broken("the sandbox", f"{kind}: {error}")
                return False
        return True


class Jobs:
    """Jobs under ``holdfast run``, one after the other in each place."""

    def __init__(self, campaign: Campaign) -> None:
        self._all, self._box = campaign, campaign.box
        self._running: list[training.Training | None] = [None] * campaign.jobs
        self._moved: dict[int, tuple[int, float]] = {}
        self._counted: set[int] = set()

    def run(self) -> None:
        while self._all.going():
            for place, job in enumerate(self._running):
                if job is None or self._ended(job):
                    self._running[place] = self._submit()
            time.sleep(1)
        end = time.monotonic() + STUCK_S + 60
        while any(job and not self._ended(job) for job in self._running) and time.monotonic() < end:
            time.sleep(1)
        for job in self._running:
            if job is not None and not self._ended(job):
                self._all.broken(
                    "jobs end", f"job {job.job_id} is {self._state(job)}\n{job.log()[-3000:]}"
                )
        self._box.run(["scancel", "--user=alice"], check=False)

    def _submit(self) -> training.Training | None:
        try:
            job = training.submit(self._box, steps=80)
        except (SandboxError, ValueError):
            return None  # slurmctld is away
        self._all.count.add("job submitted")
        self._moved[job.job_id] = (0, time.monotonic())
        return job

    def _state(self, job: training.Training) -> str:
        try:
            return job.state
        except (SandboxError, ValueError, LookupError):
            argv = ["timeout", "5", "scontrol", "show", "job", str(job.job_id)]
            answer = self._box.run(argv, check=False)
            # slurmctld was killed before it had saved the job.
            return "lost by slurmctld" if "Invalid job id" in answer.stderr else "unknown"

    def _ended(self, job: training.Training) -> bool:
        state = self._state(job)
        now = time.monotonic()
        steps, since = self._moved[job.job_id]
        seen = len(job.steps())
        if seen != steps or state != "RUNNING":
            self._moved[job.job_id] = (seen, now)
        elif now - since > STUCK_S:
            self._all.broken(
                "no job RUNNING without progress",
                f"job {job.job_id}: no step for {now - since:.0f} s\n{job.log()[-3000:]}\n{self._scene(job)}",
            )
            self._box.run(["scancel", str(job.job_id)], check=False)
            self._moved[job.job_id] = (seen, now)
        ended = state not in ("unknown", "RUNNING", "PENDING") and "COMPLETING" not in state
        held = state == "PENDING" and "held" in self._reason(job).lower()
        if (ended or held) and job.job_id not in self._counted:
            self._counted.add(job.job_id)
            self._all.count.add(f"job {'held' if held else state}")
        if held:
            self._box.run(["scancel", str(job.job_id)], check=False)
        return ended or held

    def _scene(self, job: training.Training) -> str:
        """What Slurm says of the job and its nodes, what runs there, and what was logged last."""
        commands = (
            ["scontrol", "show", "job", str(job.job_id)],
            ["scontrol", "show", "step", str(job.job_id)],
            ["squeue"],
            ["sinfo", "-N", "-o", "%N %T %E"],
        )
        parts = [self._box.run(["timeout", "5", *argv], check=False).stdout for argv in commands]
        parts.append(self._all.tail("/var/log/slurm/slurmctld.log", f"JobId={job.job_id} ", 30))
        try:
            nodes = job.nodes()
        except (SandboxError, ValueError, LookupError):
            nodes = []
        for node in nodes:
            parts += [f"-- {node}", self._all.scene(node)]
        return "\n".join(parts)

    def _reason(self, job: training.Training) -> str:
        try:
            return str(job.job()["state_reason"])
        except (SandboxError, ValueError, LookupError):
            return ""


def kernel_state(pid: int) -> str:
    """A process' state and where it sleeps in the kernel: 'S do_wait'."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return f"{state} {Path(f'/proc/{pid}/wchan').read_text()}"
    except OSError:
        return "?"


class Watch:
    """Rules 1 and 4, looked at twice a second."""

    def __init__(self, campaign: Campaign) -> None:
        self._all = campaign
        nodes = len(campaign.box.nodes)
        self._allowed = max(2, nodes // 4)
        self._undone: dict[str, float] = {}
        self._over_since: float | None = None

    def run(self) -> None:
        while self._all.watching():
            rows = self._all.nodes()
            if rows is not None:
                now = time.monotonic()
                self._persons_drains(rows, now)
                self._budget(list(rows.values()), now)
            time.sleep(0.5)

    def _persons_drains(self, rows: dict[str, dict[str, Any]], now: float) -> None:
        wrong = {what: node for node, what in self._all.drains.broken_on(rows)}
        for what, node in wrong.items():
            since = self._undone.setdefault(what, now)
            limit_s = UNDONE_S if "is in service" in what else OVERWRITTEN_S
            if since >= 0 and now - since > limit_s:
                self._undone[what] = float("-inf")  # said once
                self._all.broken("a person's drain stays", f"{what}\n{self._all.scene(node)}")
        for what in set(self._undone) - set(wrong):
            since = self._undone.pop(what)
            if since >= 0:
                self._all.count.add("person's drain undone, and set again or taken back")
                if now - since > 1.5:
                    self._all.say(f"{self._all.now_s:7.1f} s  {now - since:.1f} s: {what}")

    def _budget(self, rows: Sequence[dict[str, Any]], now: float) -> None:
        charged = [
            row["name"]
            for row in rows
            if "DRAIN" in row["state"] and Reason.parse(str(row["reason"])) is not None
        ]
        if len(charged) <= self._allowed:
            self._over_since = None
            return
        if self._over_since is None:
            self._over_since = now
        elif now - self._over_since > OVER_BUDGET_S:
            self._over_since = float("inf")  # said once
            self._all.broken(
                "the budget", f"{len(charged)} nodes are out, {self._allowed} may be: {charged}"
            )
