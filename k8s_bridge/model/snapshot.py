"""A Node as the bridge sees it: only the fields that it reads or writes, from the API's JSON.

A Node of a GPU machine is some 24 KB of JSON; ten thousand of them would be 1.5 GB as the client's models.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.vocabulary import KubeName
from k8s_bridge.model.disruption import Disruption
from k8s_bridge.model.ownership import BridgeRecord, Origin
from k8s_bridge.names import (
    CONDITIONS,
    FIELD_MANAGER,
    KEEP_CORDONED,
    KEPT_LABELS,
    ORIGIN,
    RECORD,
    RULES_LABEL,
    STATE_LABEL,
    is_own_taint,
)

if TYPE_CHECKING:
    from k8s_bridge.rules.rule import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One of the bridge's Node conditions.

    ``since`` is when the status last changed, RFC 3339 as the API has it.
    """

    type: str
    status: str
    reason: str
    message: str
    since: str = ""

    def same_content(self, other: Condition | None) -> bool:
        """Equal except for the time."""
        return other is not None and (self.status, self.reason, self.message) == (
            other.status,
            other.reason,
            other.message,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeNode:
    """One Node.

    ``cordoned_by`` is the field manager that set ``spec.unschedulable``, or ``KEEP_CORDONED`` where a
    person asked with that annotation that the cordon stays; empty when it is not set or the API server
    did not record it. ``taint`` is the value of the bridge's taint, ``None``
    without it; ``tainted_by`` then is the field manager that last wrote the taints. ``record`` is that of
    the annotation, or what the field managers prove if the annotation is lost. ``conditions`` are the
    bridge's, by type. ``other_taints`` are all other taints as JSON,
    ``other_conditions`` all other conditions with their statuses as one text, and ``other_since`` when each
    got its status (as objects, those of 10,000 Nodes would take 16 MB), ``labels`` those that rules and
    budget read. ``deadlines``: the conditions of others that are True and whose message names a deadline, with
    its time. ``causes`` (the rules that hold), ``disruption`` (of its worker pod),
    ``not_isolated`` (why policy does not isolate it) and ``gone`` (it was deleted) come from ``signals``.
    """

    name: KubeName
    uid: str = ""
    version: str = ""
    unschedulable: bool = False
    cordoned_by: str = ""
    taint: str | None = None
    tainted_by: str = ""
    label: str | None = None
    record: BridgeRecord | None = None
    record_text: str | None = None
    origin: str | None = None
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    other_taints: str = ""
    other_conditions: str = ""
    other_since: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    deadlines: tuple[tuple[str, float], ...] = ()
    disruption: Disruption | None = None
    causes: tuple[Cause, ...] = ()
    not_isolated: str = ""
    gone: bool = False

    @property
    def follows_rules(self) -> bool:
        """False where a person wrote the label ``holdfast.dev/rules: "off"`` on the Node."""
        return self.labels.get(RULES_LABEL) != "off"

    @property
    def drained_for(self) -> tuple[str, ...]:
        """The causes for which the bridge drained it in Slurm and that still hold, as in its record."""
        if self.record is None or self.record.origin is not Origin.KUBERNETES:
            return ()
        return self.record.causes

    @property
    def foreign_taints(self) -> tuple[tuple[str, str], ...]:
        """Key and value of each taint but the bridge's own."""
        return _keys_and_values(self.other_taints) if self.other_taints else ()

    def foreign_status(self, condition: str) -> str:
        """The status of a condition of others; empty without it."""
        at = self._row(condition)
        return self.other_conditions[at:].partition("\n")[0].partition("\t")[2] if at >= 0 else ""

    def foreign_since(self, condition: str) -> float | None:
        """When it got that status, epoch seconds; ``None`` where that is not known."""
        at = self._row(condition)
        if at < 0:
            return None
        since = self.other_since.split("\t")[self.other_conditions.count("\n", 0, at) - 1]
        try:
            return datetime.fromisoformat(since.replace("Z", "+00:00")).timestamp()
        except ValueError:
            return None

    def deadline(self, condition: str) -> float | None:
        """The deadline in that condition's message, epoch seconds; ``None``: it names none."""
        return next((until for name, until in self.deadlines if name == condition), None)

    def _row(self, condition: str) -> int:
        """Where that condition is in the text; -1 without it."""
        at = self.other_conditions.find(f"\n{condition}\t") if condition else -1
        return at + 1 if at >= 0 else -1

    @property
    def facts(self) -> tuple[object, ...]:
        """The fields that decisions depend on.

        Two views with equal facts lead to the same actions; heartbeats do not change them.
        """
        return (
            self.uid,
            self.unschedulable,
            self.cordoned_by,
            self.taint,
            self.tainted_by,
            self.record_text,
            self.origin,
        )

    def same_content(self, other: KubeNode) -> bool:
        """Equal except for the version."""
        return self._content == other._content

    @property
    def _content(self) -> tuple[object, ...]:
        others = (self.other_taints, self.other_conditions, self.other_since, self.deadlines)
        return (self.facts, self.label, self.conditions, *others, self.labels)


@functools.lru_cache(maxsize=256)
def _keys_and_values(taints: str) -> tuple[tuple[str, str], ...]:
    rows = json.loads(taints)
    return tuple((str(row.get("key", "")), str(row.get("value", ""))) for row in rows)


def project(node: Mapping[str, Any]) -> KubeNode:
    """The view of one Node object as decoded from JSON. Missing parts count as empty."""
    meta, spec = node.get("metadata") or {}, node.get("spec") or {}
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    unschedulable = spec.get("unschedulable") is True
    managers = meta.get("managedFields") or ()
    taints = spec.get("taints") or ()
    own = next((str(t.get("value", "")) for t in taints if is_own_taint(t)), None)
    others = [t for t in taints if not is_own_taint(t)]
    cordoned_by = _manager(managers, "f:unschedulable") if unschedulable else ""
    if unschedulable and KEEP_CORDONED in notes:
        cordoned_by = KEEP_CORDONED
    tainted_by = _manager(managers, "f:taints") if own is not None else ""
    text = notes.get(RECORD)
    conditions = (node.get("status") or {}).get("conditions") or ()
    record = BridgeRecord.load(text) if text is not None else None
    others_text, since = _others(conditions)
    return KubeNode(
        name=KubeName(str(meta.get("name", ""))),
        uid=str(meta.get("uid", "")),
        version=str(meta.get("resourceVersion", "")),
        unschedulable=unschedulable,
        cordoned_by=cordoned_by,
        taint=own,
        tainted_by=tainted_by,
        label=labels.get(STATE_LABEL),
        record=record or _rebuilt(cordoned_by, tainted_by, own),
        record_text=text,
        origin=notes.get(ORIGIN),
        conditions=_conditions(conditions),
        # Most Nodes have the same ones: one text for all of them.
        other_taints=sys.intern(json.dumps(others, separators=(",", ":"))) if others else "",
        other_conditions=others_text,
        other_since=since,
        deadlines=_deadlines(conditions),
        labels={
            sys.intern(key): sys.intern(str(value))
            for key, value in labels.items()
            if key.startswith(KEPT_LABELS) and key != STATE_LABEL
        },
    )


def _others(raw: Any) -> tuple[str, str]:
    """Type and status of each condition of others, one line each; and the time of each."""
    rows = [c for c in raw if c.get("type") not in CONDITIONS]
    text = "".join([_line(str(c.get("type", "")), str(c.get("status", ""))) for c in rows])
    since = "\t".join([_word(str(c.get("lastTransitionTime") or "")) for c in rows])
    # Most Nodes have the same conditions, and many got them in the same second.
    return sys.intern(text), sys.intern(since)


_DEADLINE = re.compile(
    r"deadline\D{0,40}(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z| ?UTC|[+-]\d\d:\d\d)?"
)


def _deadlines(raw: Any) -> tuple[tuple[str, float], ...]:
    """Nebius writes ``SLA deadline is 2026-11-20T12:00:00Z``. A time without a zone is in UTC."""
    found = []
    for row in raw:
        message = row.get("message") or ""
        if "deadline" not in message or row.get("status") != "True":
            continue  # nearly all
        match = _DEADLINE.search(message)
        if match:
            zone = match[2] if match[2] and match[2][0] in "+-" else "+00:00"
            try:
                at = datetime.fromisoformat(match[1].replace(" ", "T") + zone).timestamp()
            except ValueError:  # there is no such day
                continue
            found.append((_word(str(row.get("type", ""))), at))
    return tuple(found)


@functools.lru_cache(maxsize=1024)
def _line(condition: str, status: str) -> str:
    return f"\n{_word(condition)}\t{_word(status)}"


@functools.lru_cache(maxsize=4096)
def _word(text: str) -> str:
    """Without separators: others write it."""
    return " ".join(text.split())


def _rebuilt(cordoned_by: str, tainted_by: str, taint: str | None) -> BridgeRecord | None:
    """The record of an isolation whose annotation somebody removed or broke: the bridge writes it together
    with the cordon and the taint, and the API server recorded that these two are the bridge's.
    """
    cordon = cordoned_by == FIELD_MANAGER
    if not cordon and tainted_by != FIELD_MANAGER:
        return None
    # With the cordon its own, so is the taint, even if another client wrote the list of taints since.
    return BridgeRecord(origin=Origin.SLURM, reason="", cordon=cordon, taint=taint is not None)


def _manager(entries: Any, field: str) -> str:
    """The manager of that field of ``spec``, from ``metadata.managedFields``."""
    for entry in entries:
        spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        if field in spec:
            return str(entry.get("manager", ""))
    return ""


def _conditions(raw: Any) -> Mapping[str, Condition]:
    return _by_type(
        tuple(
            condition_of(
                c["type"],
                str(c.get("status", "")),
                str(c.get("reason", "")),
                str(c.get("message", "")),
                str(c.get("lastTransitionTime") or ""),
            )
            for c in raw
            if c.get("type") in CONDITIONS
        )
    )


@functools.lru_cache(maxsize=4096)
def condition_of(kind: str, status: str, reason: str, message: str, since: str) -> Condition:
    """One object for all Nodes that have it: 30,000 of their own would take 6 MB."""
    return Condition(type=kind, status=status, reason=reason, message=message, since=since)


@functools.lru_cache(maxsize=4096)
def _by_type(conditions: tuple[Condition, ...]) -> Mapping[str, Condition]:
    return {condition.type: condition for condition in conditions}


def is_own_cordon(view: KubeNode) -> bool:
    """The record has the cordon and, where the API server kept it, the bridge is the field's manager."""
    record = view.record
    recorded = record is not None and record.origin is Origin.SLURM and record.cordon
    return view.unschedulable and recorded and view.cordoned_by in ("", FIELD_MANAGER)


def is_cordoned_by_others(view: KubeNode) -> bool:
    """True for a cordon that the bridge did not set."""
    return view.unschedulable and not is_own_cordon(view) and view.cordoned_by != FIELD_MANAGER


def is_newer(version: str, than: str) -> bool:
    """Resource versions of one resource can be compared (guaranteed since Kubernetes 1.35, before on
    etcd)."""
    return version.isdigit() and than.isdigit() and int(version) > int(than)
