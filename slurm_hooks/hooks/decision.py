"""The slow path of prolog and epilog, when the sh hook alone cannot decide. Uses no device and no
mount.

It reads the verdict again; without one it follows the site's policy (``when_blind``). A hook that
refuses the node drains it in Slurm itself and leaves a record, so that the agent can return the
node to service.
"""

from __future__ import annotations

import os
import time

from holdfast.config.kill_switch_files import ALL, switches_off
from holdfast.config.load import YamlDocument
from holdfast.config.path import config_path
from holdfast.config.schema import ClusterConfig
from holdfast.errors import CommandError
from holdfast.faults import fault_of
from holdfast.policy import budget
from holdfast.policy.ownership import DrainRecord
from holdfast.reason import Reason
from holdfast.records import verdict_file
from holdfast.records.verdict_file import Published
from holdfast.slurm.cli import SlurmCli
from holdfast.vocabulary import NODE_BAD, NODE_IN_SERVICE, Context, SlurmName, Status
from slurm_hooks.agent.drain import record as records
from slurm_hooks.agent.drain.manual_resume import by_person
from slurm_hooks.agent.drain.record import Drained
from slurm_hooks.agent.lock import holder
from slurm_hooks.hooks.internal_errors import complain
from slurm_hooks.node import machine
from slurm_hooks.settings import last_good
from slurm_hooks.settings.sections import NodeConfig, ReasonStyle, WhenBlind

_SLURM_TIMEOUT_S = 3.0
"""A hook has only seconds in total; slurmctld answers within milliseconds or not at all."""
_SKIP = "skip_checks"
_DECISION_WAIT_S, _DECISION_LOOK_S = 4.0, 0.02
"""The agent's drain takes about 0.1 s."""


def answer(context: Context) -> int:
    """The exit status of prolog or epilog. Raises ConfigError, CommandError and OSError."""
    path = config_path()
    if ALL in switches_off(path):
        return NODE_IN_SERVICE
    document, problems = last_good.in_force(path, _as_the_agent)
    for line in problems:
        complain(f"holdfast-{context.value}: {line}; the previous configuration stays in use")
    cluster, node = document.top(ClusterConfig), document.section("node", NodeConfig)
    document.refuse()
    if node.allow_skip and skips(os.environ.get("SLURM_JOB_COMMENT", "")):
        complain(f"holdfast-{context.value}: checks skipped by the user ({_SKIP})")
        return NODE_IN_SERVICE
    published = _published(cluster)
    if published.status in (Status.OK, Status.SUSPECT):
        return NODE_IN_SERVICE
    if published.status is Status.BAD:
        return _bad(context, published, cluster, node)
    return _blind(context, published, cluster, node)


def _as_the_agent(document: YamlDocument) -> object:
    from slurm_hooks.settings import settings  # noqa: PLC0415 - only for a file that no agent has accepted

    return settings.of(document)


def skips(comment: str) -> bool:
    """Whether a job's comment skips the checks, with the same syntax as Soperator's own checks: the
    word alone or with others, separated by spaces, commas or semicolons."""
    return _SKIP in comment.replace(",", " ").replace(";", " ").split(" ")


def _published(cluster: ClusterConfig) -> Published:
    return verdict_file.read(
        verdict_file.path_in(cluster.paths.run),
        boot_id=machine.boot_id(),
        uptime_s=machine.uptime_s(),
    )


def _bad(context: Context, published: Published, cluster: ClusterConfig, node: NodeConfig) -> int:
    if context is Context.PROLOG:
        published = _decided(published, cluster)
        if published.status is not Status.BAD:
            return NODE_IN_SERVICE
    # The agent drains the node itself, so the epilog does not drain it too.
    elif published.drained or holder(cluster.paths.run) is not None:
        return NODE_IN_SERVICE
    worst = published.findings[0] if published.findings else {}
    detail = f"{worst.get('code', 'fault')}: {worst.get('detail', 'no agent is running')}"
    return _refuse(context.value.upper(), detail, cluster, node)


def _decided(published: Published, cluster: ClusterConfig) -> Published:
    """The verdict after the agent's drain is set or known to be over the budget. Waits a few
    seconds at most, and not at all if no agent is running.

    A fatal verdict is published before the budget has admitted the drain. If a prolog refused the
    node at that moment, slurmctld would drain it regardless of the budget (rule 4).
    """
    until = time.monotonic() + _DECISION_WAIT_S
    while published.status is Status.BAD and not published.drained:
        if time.monotonic() >= until or holder(cluster.paths.run) is None:
            break
        time.sleep(_DECISION_LOOK_S)
        published = _published(cluster)
    return published


def _blind(context: Context, published: Published, cluster: ClusterConfig, node: NodeConfig) -> int:
    why = published.why or f"silent probes: {', '.join(published.blind) or '?'}"
    policy = node.when_blind.prolog if context is Context.PROLOG else node.when_blind.epilog
    if policy is WhenBlind.ALLOW:
        complain(f"holdfast-{context.value}: blind ({why}); when_blind is allow: in service")
        return NODE_IN_SERVICE
    return _refuse(context.value.upper(), f"blind: {why}", cluster, node)


def _refuse(code: str, detail: str, cluster: ClusterConfig, node: NodeConfig) -> int:
    """Drain within the budget and return "bad". Over the budget, or if Slurm does not answer, the
    node stays in service."""
    name = SlurmName(machine.node_name())
    slurm = SlurmCli(min(cluster.slurm.timeout_s, _SLURM_TIMEOUT_S), cluster.slurm.bin)
    try:
        table = slurm.nodes_fast()
        mine = next((node for node in table if node.name == name), None)
        if mine is not None and mine.drained_flag:
            # Already drained, so refusing it drains no further node, unless that drain will be withdrawn.
            withdrawn = name in budget.withdrawals(table, node.budget)
            return NODE_IN_SERVICE if withdrawn else NODE_BAD
        lost = _no_longer_drained(cluster)
        if lost is not None and _by_person(slurm, name, lost):
            complain(f"holdfast: {code} {detail}, but a person resumed the node: in service")
            return NODE_IN_SERVICE
        admission = budget.admit(name, table, node.budget, code)
        if not admission.admitted:
            complain(f"holdfast: {code} {detail}, but over budget ({admission.why}): in service")
            return NODE_IN_SERVICE
        if lost is not None:  # slurmctld restarted without it
            _drain_as(slurm, name, lost, cluster)
        else:
            _drain(slurm, name, code, detail, cluster, node)
        if name in budget.withdrawals(slurm.nodes_fast(), node.budget):  # others drained too
            slurm.undrain([name])
            records.Records(cluster.paths).hand_over(None)
            complain(f"holdfast: {code} {detail}, but other nodes used the budget: in service")
            return NODE_IN_SERVICE
    except CommandError as error:
        complain(f"holdfast: {code} {detail}, but Slurm does not answer ({error}): in service")
        return NODE_IN_SERVICE
    return NODE_BAD


def _no_longer_drained(cluster: ClusterConfig) -> Drained | None:
    """The record of a confirmed drain by Holdfast on this node, which is in service now."""
    drained, _ = records.Records(cluster.paths).load()
    return drained if drained is not None and drained.record.at is not None else None


def _by_person(slurm: SlurmCli, name: SlurmName, drained: Drained) -> bool:
    """Whether a person ended the drain. The agent's next step then acknowledges that."""
    return by_person(slurm, name, drained.record, slurm.slurmctld_at())


def _drain_as(slurm: SlurmCli, name: SlurmName, drained: Drained, cluster: ClusterConfig) -> None:
    """Set the same drain again, with its reason."""
    again = records.reopened(drained, slurm.clock())
    records.Records(cluster.paths).hand_over(again)
    slurm.drain([name], drained.record.reason)


def _drain(
    slurm: SlurmCli,
    name: SlurmName,
    code: str,
    detail: str,
    cluster: ClusterConfig,
    node: NodeConfig,
) -> None:
    boot_id = machine.boot_id()
    marked = node.reason_style is ReasonStyle.NODE_PROBLEM
    text = str(Reason(code, detail, {"boot": boot_id[:8]}, marked))
    record = DrainRecord(
        reason=text,
        actor="root",
        at=None,
        written_at=slurm.clock(),  # the agent compares it with slurmctld's; this node's may be wrong
        code=code,
        action=fault_of(code).action,
        boot_id=boot_id,
    )
    records.Records(cluster.paths).hand_over(Drained(record=record))
    slurm.drain([name], text)
