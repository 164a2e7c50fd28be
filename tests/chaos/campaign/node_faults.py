"""What happens on one node: faults, a person, a kill, the return."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from testbed.errors import SandboxError
from testbed.faults.machine import START_SLURMD

from tests.chaos.campaign.shared import Campaign
from tests.chaos.kills import kill_agent

RETURN_S = 180.0
"""A healed node is back in service by then: a boot, two re-checks and a wait, on a busy machine."""


class NodeFaults:
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
        running = self._all.processes(self._node)
        return any(argv and argv[0].endswith("slurmd") for _, argv in running)

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
        if kill_agent(self._box, self._node):
            self._all.count.add("agent killed")

    def _ticket(self) -> str:
        return f"ticket {self._turn} of {self._node}"

    def _person_drains(self) -> None:
        reason = self._ticket()
        words = ("update", f"nodename={self._node}", "state=drain", f"reason={reason}")
        with self._all.drains.writing:
            if self._scontrol(*words):
                self._all.drains.made(self._node, reason)
                self._all.count.add("person's drain")

    def _person_resumes(self) -> None:
        self._all.drains.taken_back(self._node)
        begin = time.monotonic()
        while time.monotonic() - begin < RETURN_S:
            with self._all.drains.writing:
                if self._scontrol("update", f"nodename={self._node}", "state=undrain"):
                    self._all.count.add("person's resume")
                    return
            time.sleep(1)
        self._all.broken(
            "a person can resume a node", f"{self._node}\n{self._all.scene(self._node)}"
        )

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
            if rows and str(rows[self._node]["reason"]).startswith("ticket "):
                # slurmctld was stopped, and drained the node after the person's command had given up; or
                # the agent set an earlier drain again whose end by the person it could not see (decision 19)
                self._all.count.add("a person's drain that took effect late")
                self._person_resumes()
            if time.monotonic() - begin > RETURN_S / 2 and not self._slurmd_runs():
                # killed twice while its clock was set, or powered off by a reboot that ended in
                # the middle: the sandbox's to mend
                try:
                    self._box.node(self._node).run(START_SLURMD)
                    self._all.count.add("slurmd started by hand")
                except SandboxError:
                    self._power_cycle()
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
