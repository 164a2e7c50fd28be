"""The run under Holdfast: a GPU falls off the bus under a training, and every stage is observed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from demonstration.jobs import ENDED, Job, Order, attempts, scene, submit
from demonstration.kube_watch import KubeWatch, condition, taint
from demonstration.live import Live
from demonstration.observe import Cluster, NotSeenError, until
from demonstration.stages import CATALOGUE, Seen
from holdfast.reason import Reason

DRAINED = "HoldfastSlurmDrained"
TAINT = "holdfast.dev/drained"

RESTART_S = 60.0
"""Half of Slurm's requeue delay: a start that takes longer was not expedited."""
BOOT_S = 120.0
"""A node that runs pods also starts containerd, kubelet and its pods."""
TORCH_S = 150.0
"""Eight ranks import torch in parallel, which is slow on two busy cores."""


@dataclass(slots=True)
class Scenario:
    """What was observed. ``occupied``: (node, begin, end) of every attempt's nodes, epoch seconds.

    ``scene``: the state of the cluster when a stage was first missing, for debugging.
    """

    job: Job
    victim: str = ""
    gpu: int = 0
    fault_step: int = 0
    seen: dict[str, Seen] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    scene: str = ""
    occupied: list[tuple[str, float, float]] = field(default_factory=list)

    def at(self, key: str) -> float | None:
        return self.seen[key].at_s if key in self.seen else None


class ScenarioRunner:
    """Runs the scenario once; ``run`` records missing stages and does not raise ``NotSeenError`` for them."""

    def __init__(self, cluster: Cluster, live: Live, gpu: int):
        self._cluster, self._live, self._gpu = cluster, live, gpu

    def run(self, order: Order, fault_step: int) -> Scenario:
        job = submit(self._cluster, order)
        scenario = Scenario(job, gpu=self._gpu)
        first = job.wait_state("RUNNING", timeout_s=60).nodes
        # Not the node of the batch script, so that the launcher survives the fault.
        scenario.victim = first[-1]
        self._live.say(f"job {job.job_id} trains on {', '.join(first)} under holdfast run")
        job.wait_step(fault_step)
        kube_name = self._cluster.kube_name(scenario.victim)
        with KubeWatch(self._cluster.box, kube_name) as watch:
            watch.first(bool, 10)
            self._break(scenario)
            self._observe_kubernetes(scenario, watch, kube_name)
            self._recover(scenario)
            self._return(scenario, watch)
        self._finish(scenario)
        return scenario

    # -- phases

    def _break(self, scenario: Scenario) -> None:
        cluster, victim = self._cluster, scenario.victim
        begin = time.time()
        cluster.box.fault(victim, "gpu-lost", "--gpu", str(scenario.gpu))
        scenario.fault_step = scenario.job.latest_step()
        self._live.say(
            f"GPU {scenario.gpu} of {victim} falls off the bus, after step {scenario.fault_step}"
        )

        def logged() -> Seen | None:
            found = cluster.kernel_log(victim, "Xid", begin)
            return _seen("fault", found[0], "kernel log", found[1]) if found else None

        def judged() -> Seen | None:
            verdict = cluster.verdict(victim)
            if not verdict or verdict["status"] != "bad" or verdict["at"] < begin:
                return None
            worst = max(verdict["findings"], key=lambda f: (f["cause"], f["severity"] == "fatal"))
            text = f"{worst['code']}: {worst['detail']}"
            return _seen("verdict", float(verdict["at"]), "verdict file", text)

        def drained() -> Seen | None:
            node = cluster.node(victim)
            parsed = Reason.parse(node.reason)
            if "DRAIN" not in node.states or parsed is None:
                return None
            return _seen("drain", time.time(), "scontrol show node", node.reason)

        self._await(scenario, "fault", logged, 2, 0.01)
        self._await(scenario, "verdict", judged, 10, 0.01)
        self._await(scenario, "drain", drained, 10, 0.03)

    def _observe_kubernetes(self, scenario: Scenario, watch: KubeWatch, kube_name: str) -> None:
        after = scenario.at("fault") or 0.0
        found = watch.first(lambda node: condition(node, DRAINED).get("status") == "True", 10)
        if found:
            message = condition(found[1], DRAINED).get("message", "")
            self._note(
                scenario,
                _seen("condition", found[0], "kubectl get node", f"{DRAINED}=True {message}"),
            )
        found = watch.first(lambda node: bool(taint(node, TAINT)), 10)
        if found:
            value = taint(found[1], TAINT)
            text = f"{TAINT}={value.get('value', '')}:{value['effect']}"
            self._note(scenario, _seen("taint", found[0], "kubectl get node", text))

        def event() -> Seen | None:
            for item in self._cluster.kube_events(kube_name):
                at_s = _kube_time(
                    item.get("eventTime") or item.get("deprecatedLastTimestamp") or ""
                )
                if at_s >= after - 1:
                    text = f"{item['reason']}: {item.get('note', '')}"
                    return _seen("event", max(at_s, after), "kubectl get events", text)
            return None

        self._await(scenario, "event", event, 10, 0.5)

    def _recover(self, scenario: Scenario) -> None:
        cluster, job = self._cluster, scenario.job

        def restarted() -> Seen | None:
            view = job.view()
            if view.restarts < 1 or view.state != "RUNNING" or not view.nodes:
                return None
            begin = next((e for e in self._later(job, "attempt") if e["attempt"] > 1), None)
            if begin is None:
                return None
            healthy = scenario.victim not in view.nodes
            text = f"on {','.join(view.nodes)}, Restarts={view.restarts}"
            return _seen("restart", begin["t"], "scontrol show job", text) if healthy else None

        def journal(name: str, key: str, describe: Callable[[dict[str, Any]], str]) -> None:
            after = scenario.at("fault") or 0.0
            self._await(
                scenario, key, lambda: _first(job.journal(), name, after, key, describe), 15
            )

        def progress(name: str, key: str, describe: Callable[[dict[str, Any]], str]) -> None:
            after = scenario.at("restart") or time.time()
            self._await(
                scenario, key, lambda: _first(job.progress(), name, after, key, describe), TORCH_S
            )

        journal("step_end", "step_end", _step_end)
        journal("requeue", "requeue", lambda e: f"attempt {e['attempt']} requests a requeue")
        self._await(scenario, "restart", restarted, RESTART_S)
        after = scenario.at("restart") or time.time()
        self._await(
            scenario,
            "checkpoint",
            lambda: _first(job.journal(), "checkpoint", after, "checkpoint", _chosen),
            15,
        )
        progress(
            "loaded", "loaded", lambda e: f"{str(e['path']).rpartition('/')[2]}, step {e['step']}"
        )
        progress("step", "next_step", lambda e: f"step {e['step']} loss {e['loss']:.4f}")
        requeued = [row for row in cluster.accounting(job.job_id) if row["State"] == "REQUEUED"]
        if not requeued:
            scenario.problems.append("sacct shows no REQUEUED run of the job")

    def _return(self, scenario: Scenario, watch: KubeWatch) -> None:
        cluster, victim = self._cluster, scenario.victim
        self._live.say(f"{victim} is repaired: powered off, GPU reseated, powered on")
        cluster.box.heal(victim)
        healed_s = time.time()
        boot = cluster.box.node(victim).path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._note(scenario, _seen("healed", healed_s, "boot_id", f"new boot {boot[:8]}"))

        undrained_s = 0.0

        def returned() -> Seen | None:
            nonlocal undrained_s
            node = cluster.node(victim)
            if node.states & {"DRAIN", "DOWN"}:
                undrained_s = 0.0
                return None
            undrained_s = undrained_s or time.time()
            # slurmctld sets NOT_RESPONDING at the undrain and clears it at its next ping, up to a
            # second later. The node has returned at the undrain, if it answers.
            if "NOT_RESPONDING" in node.states:
                return None
            verdict = cluster.verdict(victim) or {}
            text = f"State={'+'.join(sorted(node.states))}, verdict {verdict.get('status', '?')}"
            return _seen("undrain", undrained_s, "scontrol show node", text)

        self._await(scenario, "undrain", returned, BOOT_S, 0.03)

        def clean(node: dict[str, Any]) -> bool:
            return not taint(node, TAINT) and condition(node, DRAINED).get("status") == "False"

        # Only versions after the repair count: before the fault the Node was clean too.
        found = watch.first(clean, 20, after_s=healed_s)
        if found:
            self._note(
                scenario,
                _seen("untaint", found[0], "kubectl get node", f"no taint, {DRAINED}=False"),
            )

    def _finish(self, scenario: Scenario) -> None:
        job = scenario.job

        def done() -> Seen | None:
            self._live.passing(f"training: step {job.latest_step()} of {job.order.steps}")
            view = job.view()
            last = [line for line in job.progress() if line["event"] == "done"]
            if view.state in ENDED and view.state != "COMPLETED":
                raise NotSeenError(f"the job ended as {view.state}")
            if view.state != "COMPLETED" or not last:
                return None
            rows = job.cluster.accounting(job.job_id)
            text = ", then ".join(f"{row['State']} on {row['NodeList']}" for row in rows)
            return _seen("done", float(last[-1]["t"]), "scontrol, sacct", text)

        self._await(scenario, "done", done, TORCH_S, 0.3)
        scenario.occupied = attempts(job)

    # -- helpers

    def _await(
        self,
        scenario: Scenario,
        key: str,
        read: Callable[[], Seen | None],
        timeout_s: float,
        every_s: float = 0.1,
    ) -> None:
        try:
            self._note(scenario, until(read, CATALOGUE[key], timeout_s, every_s))
        except NotSeenError as error:
            if not scenario.problems:
                scenario.scene = scene(scenario.job)
            scenario.problems.append(str(error))
            self._live.say(f"NOT OBSERVED  {error}")

    def _note(self, scenario: Scenario, seen: Seen) -> None:
        fault = scenario.at("fault") or seen.at_s
        # Two clocks, the kernel log's and the node's, differ by milliseconds.
        scenario.seen[seen.key] = seen = replace(seen, at_s=max(seen.at_s, fault))
        title = CATALOGUE[seen.key]
        self._live.say(f"{seen.at_s - fault:+6.2f} s  {title}: {seen.evidence}")

    def _later(self, job: Job, name: str) -> list[dict[str, Any]]:
        return [event for event in job.journal() if event["event"] == name]


def _first(
    events: list[dict[str, Any]],
    name: str,
    after: float,
    key: str,
    describe: Callable[[dict[str, Any]], str],
) -> Seen | None:
    for event in events:
        if event["event"] == name and event["t"] >= after:
            return _seen(
                key,
                float(event["t"]),
                "job's journal" if "host" not in event else "job's progress",
                describe(event),
            )
    return None


def _step_end(event: dict[str, Any]) -> str:
    return f"exit code {event['exit_code']} after {event['wall_s']:.1f} s"


def _chosen(event: dict[str, Any]) -> str:
    chosen = event.get("chosen")
    name = str(chosen["path"]).rpartition("/")[2] if chosen else "none"
    return f"{name}, step {chosen['step'] if chosen else 0}; {len(event['rejected'])} rejected"


def _seen(key: str, at_s: float, source: str, evidence: str) -> Seen:
    return Seen(key=key, at_s=at_s, source=source, evidence=" ".join(evidence.split()))


def _kube_time(text: str) -> float:
    """Epoch seconds of a Kubernetes timestamp, 0 for none."""
    if not text:
        return 0.0
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
