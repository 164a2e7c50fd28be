"""The agent's event loop: a single thread that waits only in its own poll.

The kernel log, hooks' notes and job markers wake it, workers answer through pipes, timers do the
rest. Everything that may block (driver, mounts, Slurm, other processes' environments) runs in a
contained worker. Each feature is a ``Component``; the loop itself joins passes, findings, verdict
and drain.
"""

from __future__ import annotations

import random
import select
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from holdfast.adapters.log import Log
from holdfast.errors import ConfigError
from holdfast.findings import Verdict
from holdfast.policy.node_inputs import DrainInputs, draining
from holdfast.vocabulary import Severity, SlurmName
from slurm_hooks.agent import lock as locks
from slurm_hooks.agent import systemd
from slurm_hooks.agent.component import Component, ProberComponent
from slurm_hooks.agent.drain.controller import DrainController
from slurm_hooks.agent.fence.component import Fence
from slurm_hooks.agent.job_report.monitor import JobMonitor
from slurm_hooks.agent.job_runs.killed_steps import KilledSteps
from slurm_hooks.agent.jobs.lost_at_boot import LostJobs
from slurm_hooks.agent.jobs.watcher import JobWatcher
from slurm_hooks.agent.kernel_log import KernelLog
from slurm_hooks.agent.kill_tasks.worker import TaskKiller, tasks_to_kill
from slurm_hooks.agent.lock import HeldLock
from slurm_hooks.agent.node_death.component import NodeDeath
from slurm_hooks.agent.notices.notifier import Notifier
from slurm_hooks.agent.saved_state import SavedState
from slurm_hooks.agent.signals import Signals
from slurm_hooks.agent.telemetry.telemetry import Telemetry
from slurm_hooks.agent.verdict.publisher import Publisher, enforced
from slurm_hooks.evaluation.judge import OpenFinding, modes_of
from slurm_hooks.evaluation.observer import Observer, blind_names
from slurm_hooks.node import machine
from slurm_hooks.probes.runner import Prober
from slurm_hooks.settings import settings
from slurm_hooks.settings.settings import Settings
from slurm_hooks.tracking.gpu import recovered
from slurm_hooks.tracking.node import join
from slurm_hooks.worker.inherited import InheritedChildren
from slurm_hooks.worker.worker import Worker

log = Log("agent")

_LONGEST_SLEEP_S = 1.0
_JITTER = 0.1
"""Share of the interval by which passes are spread, so that a cluster's agents do not all act at
once."""


class Agent:
    """One node's agent. ``run`` returns when the agent has to stop or restart."""

    def __init__(self, node: SlurmName, config: Settings, lock: HeldLock) -> None:
        """``lock`` is the node's agent lock; it stays held."""
        paths = config.cluster.paths
        self._lock, self._inherited = lock, InheritedChildren()
        self._config = config
        self._table = config.active()
        boot_id = machine.boot_id(paths.procfs)
        self._state = SavedState(paths)
        tracked = self._state.recalled
        self._same_boot = tracked.boot_id == boot_id
        self._observer = Observer(config.node.expected_gpus, boot_id, tracked, config.expected_hcas)
        self._publisher = Publisher(node, boot_id, paths, config.agent.verdict_ttl_s)
        self._prober = Prober(config.node, config.agent, paths, config.cluster.slurm)
        self._drain = DrainController(node, boot_id, config)
        self._task_killer = TaskKiller(paths)
        self._telemetry = Telemetry(
            node, boot_id, config, (tracked, self._observer.tracked), crashed=lock.crashed
        )
        self.history = self._telemetry.recorder
        """The node's history; any part of the agent may add events."""
        self._job_monitor = JobMonitor(node, boot_id, config, self.history.note)
        notifier = Notifier(node, config)
        self._job_watcher = JobWatcher(config, lambda: self._job_monitor.runs, notifier.take)
        self._node_death = NodeDeath(node, config, self.history.note, self._may_return)
        self._components: tuple[Component, ...] = (
            self._task_killer,
            self._drain,
            ProberComponent(self._prober),
            self._job_monitor,
            self._job_watcher,
            notifier,
            LostJobs(node, config, lambda: self._job_monitor.runs),
            KilledSteps(node, config, lambda: self._job_monitor.runs, self._job_monitor.add_killed),
            Fence(config, lambda: self._job_monitor.runs),
            self._node_death,
            self._telemetry,
        )
        self._log = KernelLog(paths.kmsg)
        self._opened: tuple[OpenFinding, ...] = ()
        self._passes = self._clean_passes = 0
        self._disturbed = False
        self._next_pass = self._pass_began_s = 0.0
        self._config_seen = config.stamp
        self._signals = Signals()

    def run(self) -> bool:
        """Runs until SIGTERM (returns False), or until a new configuration requires a restart
        (True).

        The verdict file stays and expires by itself.
        """
        self._signals.catch()
        self._read_kernel_log()
        if self._same_boot and draining(self._verdict(), modes_of(self._table)):
            self._publish_and_act()  # a fault that an earlier agent found counts before the first pass
        while not self._signals.stop_requested:
            self._sleep()
            now = time.monotonic()
            if self._read_kernel_log():
                self._publish_and_act()
            self._finish_pass()
            for component in self._components:
                if component.turn(now):
                    self._take_drain_results()
            self._start_pass(now)
        self._signals.hold()
        self._close(restart=self._signals.restart_requested)
        return self._signals.restart_requested

    # --- waiting -------------------------------------------------------------------------------

    def _sleep(self) -> None:
        poll = select.poll()
        workers = [worker for component in self._components for worker in component.workers]
        fds = [self._signals.fd, self._log.fd]
        fds += [worker.fd for worker in workers]
        for fd in fds:
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        for component in self._components:
            for fd, events in component.fds():
                poll.register(fd, events)
        poll.poll(max(0.0, self._wake_at(workers) - time.monotonic()) * 1000)
        self._signals.clear()

    def _wake_at(self, workers: Iterable[Worker]) -> float:
        """Monotonic time of the next action without an event."""
        times = [time.monotonic() + _LONGEST_SLEEP_S]
        times += [component.next_at for component in self._components]
        if not self._prober.running:
            times.append(self._next_pass)
        times += [worker.deadline for worker in workers if worker.deadline is not None]
        return min(times)

    # --- the kernel log ------------------------------------------------------------------------

    def _read_kernel_log(self) -> bool:
        """Read the kernel log; True if it had an event that must be judged at once."""
        observer = self._observer
        new = self._log.read(observer.tracked.kmsg_seq, to_end=observer.skips_old_log)
        if new is None:
            return False
        xids = observer.read_kernel_log(new.records, renewed=new.renewed)
        new_events = observer.new_events
        for event in new_events:
            log.warning("kernel event", code=event.code, on=event.subject, text=event.text)
        self._job_monitor.add_xids([join(self._observer.tracked, xid) for xid in xids])
        if new_events:
            # The re-check starts again: earlier clean passes and the running pass do not count.
            self._clean_passes, self._disturbed = 0, self._prober.running
        if new_events or not self._passes:
            self._opened = self._observer.judge_kernel_log(self._table)
        return bool(new_events)

    # --- passes --------------------------------------------------------------------------------

    def _start_pass(self, now: float) -> None:
        if self._prober.running or (
            now < self._next_pass and not self._job_monitor.wants_pass(now)
        ):
            return
        if machine.stamp(self._config.path) != self._config_seen:
            self._look_at_config()
        if not locks.is_held(self._lock.fd, locks.path_in(self._config.cluster.paths.run)):
            log.error("lock file removed, another agent may be running: stopping")
            self._signals.request(signal.SIGTERM)
        self._table = self._config.active()
        self._prober.release_driver = self._drain.waits_for_reset
        self._pass_began_s = machine.uptime_s(self._config.cluster.paths.procfs)
        self._prober.start(self._config.probes(self._table), now)
        spread = random.uniform(1 - _JITTER, 1)  # at most 1: the interval limits a check's delay
        self._next_pass = now + self._config.agent.interval_s * spread

    def _finish_pass(self) -> None:
        readings = self._prober.collect() if self._prober.running else None
        if readings is None:
            return
        self._inherited.reap()
        uptime_s = machine.uptime_s(self._config.cluster.paths.procfs)
        self._observer.leftovers = self._job_monitor.leftovers
        self._observer.unwritten = self._state.problem or self._drain.unwritten
        self._observer.unconfirmed = self._drain.unconfirmed
        self._observer.read_probes(readings, log_problem=self._log.problem, uptime_s=uptime_s)
        self._job_monitor.add_pass(self._observer.facts, self._pass_began_s)
        self._opened = self._observer.judge(self._table)
        self._passes += 1
        self._telemetry.passed(self._observer.facts, uptime_s - self._pass_began_s)
        clean = self._observer.clean(self._table) and not self._blind()
        if not clean or self._disturbed:
            self._clean_passes, self._disturbed = 0, False
        else:
            self._clean_passes += 1
        self._publish_and_act()

    def _look_at_config(self) -> None:
        """A valid new configuration restarts the agent; an invalid one changes nothing."""
        self._config_seen = machine.stamp(self._config.path)
        problems = refused(self._config.path)
        if problems:
            self._telemetry.refused(problems)
            return
        log.info("new configuration, restarting")
        self._signals.request(signal.SIGHUP)

    # --- verdict and actions -------------------------------------------------------------------

    def _blind(self) -> tuple[str, ...]:
        return blind_names(self._observer.facts, self._table)

    def _publish_and_act(self) -> None:
        """The verdict first, then Slurm, then the agent's own disk (rule 8)."""
        self._publish()
        self._drain.consider(self._drain_inputs(), time.monotonic())
        self._kill_tasks()
        self._state.save(self._observer.tracked)
        self._update_telemetry()

    def _update_telemetry(self) -> None:
        self._telemetry.update(
            self._opened,
            self._observer.facts,
            (self._publisher.status, self._drain.slurm_status),
            self._config.probes(self._table),
            self._drain.take_audit_entries(),
        )

    def _drain_inputs(self) -> DrainInputs:
        gpus, lost = self._observer.facts.gpus, self._observer.tracked.lost
        return DrainInputs(
            verdict=self._verdict(),
            modes=modes_of(self._table),
            passes=self._passes,
            clean_passes=self._clean_passes,
            recovered={g.index: recovered(g, state_lost=lost) for g in gpus},
            uuids=frozenset(gpu.uuid for gpu in gpus if gpu.uuid),
            may_act=self._config.may_act(),
            returns=self._observer.tracked.returns,
            count=self._node_death.count,
            job_start_s=self._job_monitor.runs.last_start_s,
        )

    def _may_return(self) -> bool:
        """Nothing that this agent sees speaks against jobs on this node."""
        return bool(self._passes) and not draining(self._verdict(), modes_of(self._table))

    def _verdict(self) -> Verdict:
        findings = tuple(entry.finding for entry in self._opened)
        return Verdict(findings=findings, blind=self._blind())

    def _publish(self) -> None:
        verdict = Verdict(findings=enforced(self._opened), blind=self._blind())
        try:
            slurm_status, facts = self._drain.slurm_status, self._observer.facts
            self._publisher.publish(self._opened, verdict, slurm_status, facts)
            systemd.ready(f"{self._publisher.status.value}, {len(self._opened)} findings")
        except OSError as error:
            log.error("verdict not written", why=error)

    def _take_drain_results(self) -> None:
        for code in self._drain.take_returned():
            self._observer.returned(code)
        if self._drain.take_acknowledgement():
            self._observer.acknowledge()
            self._opened = self._observer.judge_kernel_log(self._table)
        self._publish()
        self._kill_tasks()
        self._state.save(self._observer.tracked)
        self._update_telemetry()

    def _kill_tasks(self) -> None:
        """Once the node is drained, kill the tasks that cannot continue after a fatal finding."""
        fatal = [f for f in enforced(self._opened) if f.severity is Severity.FATAL]
        if fatal and self._drain.slurm_status.drained and self._config.may_act():
            gpus = self._observer.tracked.gpus
            self._task_killer.ask(
                tasks_to_kill(fatal, {i: g.uuid for i, g in gpus.items() if g.uuid})
            )

    def _close(self, *, restart: bool) -> None:
        systemd.stopping()
        self._state.save(self._observer.tracked)
        self._telemetry.record_end(restart=restart)
        for component in self._components:
            component.close()
        self._log.close()


def refused(config: Path) -> int:
    """How many problems make the configuration invalid; each is logged. 0: it is valid."""
    try:
        settings.load(config)
    except ConfigError as error:
        problems = str(error).splitlines()
        for line in problems:
            log.error("configuration invalid, the previous one stays in use", why=line)
        return len(problems)
    return 0
