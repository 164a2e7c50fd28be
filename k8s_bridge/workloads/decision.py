"""Is a workload restarted now? Pure: values in, values out.

All pods that are there when one is lost are replaced, each once: the record names them, so neither a restart
of the bridge nor a second look at the same incident evicts a pod of the next attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.vocabulary import KubeName
from k8s_bridge.config import WorkloadSettings
from k8s_bridge.workloads.node_faults import NodeFault
from k8s_bridge.workloads.objects import Ended, Pod, Workload
from k8s_bridge.workloads.record import Past, RestartRecord, short

CONTINUED_S = 3600.0
"""For so long a restart is continued whose pods could not all be evicted (a PodDisruptionBudget)."""
OLD_S = 900.0
"""A failure from which the kubelet has started the container again counts for so long."""
LONGEST_WAIT_S = 3600.0
"""The longest back-off between two restarts of a workload."""


class Diagnosed(NamedTuple):
    """What the diagnosis says about some termination messages: the code of the line that explains the failure,
    its class, and the place of its message among them.
    """

    code: str
    cause: str
    place: int = 0


Diagnose = Callable[[tuple[str, ...]], Diagnosed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Write ``record``, then evict ``pods``."""

    record: RestartRecord
    pods: tuple[Pod, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Continue:
    """Evict these pods of a restart that has begun."""

    record: RestartRecord
    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """There is an incident, and no restart. ``key``: of the incident."""

    key: str
    why: str


Decision = Restart | Continue | Withheld | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What all workloads of one look have in common. ``diagnose``: of termination messages that belong
    together; ``now``: epoch seconds.
    """

    faults: Mapping[KubeName, NodeFault]
    diagnose: Diagnose
    settings: WorkloadSettings
    now: float


class _Loss(NamedTuple):
    key: str
    incident: str
    withheld: str = ""


def decide(
    workload: Workload, pods: Sequence[Pod], look: Look, known: Sequence[Past] = ()
) -> Decision:
    """``pods``: those that the workload controls. ``known``: restarts that this bridge has made, whatever
    the annotation says now.
    """
    record = workload.record
    if not workload.active:
        return None
    past = _merged(record, known, look)
    # First finish what was begun: a pod of the last attempt would otherwise run beside those of
    # the next one.
    if record is not None and _is_recent(record, look.now):
        left = tuple(
            pod for pod in pods if short(pod.uid) in record.pods and _evicts(workload, pod)
        )
        if left:
            return Continue(record=record, pods=left)
    losses = list(_losses(pods, record, look))
    possible = [each for each in losses if not each.withheld]
    keys = {each.key for each in past}
    # A new incident before one that was answered already, which would only be withheld.
    loss = next((each for each in possible if each.key not in keys), None)
    loss = loss or next(iter(possible), None)
    if loss is None:
        return Withheld(key=losses[0].key, why=losses[0].withheld) if losses else None
    why = _over_budget(loss, past, look)
    if why:
        return Withheld(key=loss.key, why=f"{loss.incident}: {why}")
    evicted = tuple(pod for pod in pods if _evicts(workload, pod))
    if not evicted:
        return None  # none of them runs any more: their controller replaces them or gives up
    new = RestartRecord(
        at=look.now,
        incident=loss.incident,
        key=loss.key,
        # Also those that are not evicted: when they fail later, it is of this attempt.
        pods=frozenset(short(pod.uid) for pod in pods),
        past=(*past, Past(look.now, loss.key)),
    )
    return Restart(record=new, pods=evicted, count=len(new.past))


def _merged(record: RestartRecord | None, known: Sequence[Past], look: Look) -> tuple[Past, ...]:
    """The restarts that count, oldest first. A time in the future is no time of this bridge's."""
    rows = {*known, *(record.past if record else ())}
    begin = look.now - look.settings.window_s
    return tuple(sorted(past for past in rows if begin < past.at <= look.now))


def _is_recent(record: RestartRecord, now: float) -> bool:
    return 0 <= now - record.at < CONTINUED_S


def _evicts(workload: Workload, pod: Pod) -> bool:
    """A pod that has finished stays, with its log, unless its controller needs the name."""
    if pod.terminating or pod.phase == "Succeeded":
        return False
    return pod.phase != "Failed" or workload.kind.needs_names


def _losses(pods: Sequence[Pod], record: RestartRecord | None, look: Look) -> Iterator[_Loss]:
    live = [pod for pod in pods if not pod.finished and not pod.terminating]
    left = [
        pod
        for pod in pods
        if not (record and _was_replaced(pod, record, look.now)) and not _is_over(pod, live)
    ]
    yield from _signature(left, look)
    for pod in left:
        yield from _with_node(pod, look)


def _was_replaced(pod: Pod, record: RestartRecord, now: float) -> bool:
    """It is of before the last restart. A pod that could not be evicted at all counts again later."""
    if short(pod.uid) not in record.pods:
        return False
    return pod.terminating or pod.finished or _is_recent(record, now)


def _is_over(pod: Pod, live: Sequence[Pod]) -> bool:
    """It failed before each pod that runs now was created: its controller has replaced them all since."""
    times = [ended.at for ended in pod.ended if ended.at is not None]
    if pod.phase != "Failed" or not times:
        return False
    return all(other.created > max(times) for other in live)


def _signature(pods: Sequence[Pod], look: Look) -> Iterator[_Loss]:
    """A container's own last words name a hardware fault, and those of the others do not explain it better."""
    messages = [
        (pod, ended)
        for pod in pods
        for ended in pod.ended
        if ended.message and _counts(ended, look.now)
    ]
    if not messages:
        return
    # Who failed first is not a victim of the others.
    messages.sort(key=lambda row: row[1].at or look.now)
    found = look.diagnose(tuple(ended.message for _, ended in messages))
    if found.cause == "hardware":
        pod, ended = messages[found.place]
        yield _Loss(
            f"{short(pod.uid)} {ended.container} {found.code}",
            f"pod {pod.name} failed on Node {pod.node}: {found.code} in its termination message",
        )


def _counts(ended: Ended, now: float) -> bool:
    return not ended.restarted or (ended.at is not None and 0 <= now - ended.at < OLD_S)


def _with_node(pod: Pod, look: Look) -> Iterator[_Loss]:
    if pod.lost and pod.phase != "Succeeded":
        yield _Loss(
            f"{short(pod.uid)} lost",
            f"Kubernetes removes pod {pod.name} because of its Node {pod.node}",
        )
    fault = look.faults.get(pod.node) if pod.node and pod.phase != "Succeeded" else None
    # A fault that ends no jobs counts only where a pod did fail, and not by its own program.
    if fault is None or not (fault.fatal or pod.failed) or _is_user_error(pod, look):
        return
    incident = f"{fault.code} on Node {pod.node}, under pod {pod.name}"
    withheld = fault.withheld
    if not withheld and not fault.closed:
        # The new pods might start on the same Node and fail again.
        withheld = "the Node still takes new pods (cordon it)"
    yield _Loss(fault.key, incident, f"{incident}: {withheld}" if withheld else "")


def _is_user_error(pod: Pod, look: Look) -> bool:
    """The program itself failed: a restart would fail again."""
    messages = tuple(each.message for each in pod.ended if not each.restarted and each.message)
    return bool(messages) and look.diagnose(messages).cause == "user"


def _over_budget(loss: _Loss, past: Sequence[Past], look: Look) -> str:
    settings = look.settings
    if any(each.key == loss.key for each in past):
        return "its pods were restarted for this incident already"
    if len(past) >= settings.max_restarts:
        return (
            f"{len(past)} restarts within {settings.window_s:g} s, the limit of "
            "bridge.workloads.max_restarts"
        )
    if past:
        wait_s = min(settings.backoff_s * 2 ** (len(past) - 1), LONGEST_WAIT_S)
        if look.now - past[-1].at < wait_s:
            return f"the next restart is possible {wait_s:g} s after the last one"
    return ""
