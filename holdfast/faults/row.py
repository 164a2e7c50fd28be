"""One row of the fault catalogue."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.vocabulary import Action, FaultClass, Severity

OWN = "Holdfast"
"""The source of a row that is based only on Holdfast's own experience."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault that Holdfast knows.

    ``code``      as in a finding and in the Reason, e.g. ``XID79``.
    ``title``     what it is, in a few words.
    ``severity``  FATAL: work on the node is lost. WARN: the node is degraded. INFO: a record.
    ``action``    what must happen before the node returns, unless the facts say otherwise.
    ``drains``    True when a check in mode ``drain`` may take the node out of service for it. With
                  a WARN that drains, running jobs go on; a WARN that does not drain is a comment.
    ``runbook``   what a person should do, in one or two sentences.
    ``source``    where severity and action come from.
    ``consequence``  True for a consequence of another fault or of a kill (Xid 45): it never outranks
                  a cause, and alone it is no evidence against the node.
    ``moves_jobs``  a WARN for which running jobs leave the node at their next checkpoint: it slows a whole
                  job down, or is likely to become fatal.
    ``by_users``  True if any user with a job on the node can cause it. Such drains get only a part of
                  the budget (``node.budget.users_share``).
    """

    code: str
    title: str
    severity: Severity
    fault_class: FaultClass
    action: Action
    drains: bool
    runbook: str
    source: str
    consequence: bool = False
    by_users: bool = False
    moves_jobs: bool = False


def row(  # noqa: PLR0913 - a table's columns
    code: str,
    title: str,
    kind: tuple[Severity, FaultClass, Action, bool],
    runbook: str,
    source: str,
    *,
    consequence: bool = False,
    by_users: bool = False,
    moves_jobs: bool = False,
) -> Fault:
    """A row written as in a table; ``kind`` is (severity, class, action, drains)."""
    severity, fault_class, action, drains = kind
    return Fault(
        code=code,
        title=title,
        severity=severity,
        fault_class=fault_class,
        action=action,
        drains=drains,
        runbook=runbook,
        source=source,
        consequence=consequence,
        by_users=by_users,
        moves_jobs=moves_jobs,
    )
