"""What one row of the fault catalogue says."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.vocabulary import Action, FaultClass, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault that Holdfast knows.

    ``code``      as in a finding and in the Reason, e.g. ``XID79``.
    ``title``     what it is, in a few words.
    ``severity``  FATAL: work on the node is lost. WARN: the node is degraded. INFO: a record.
    ``action``    what must happen before the node returns, unless the facts say otherwise.
    ``drains``    True when a check in mode ``drain`` may take the node out of service for it. A
    WARN
                  that drains lets running jobs go on; a WARN that does not is only commented.
    ``runbook``   what a person should do, in one or two sentences.
    ``source``    where severity and action come from.
    """

    code: str
    title: str
    severity: Severity
    fault_class: FaultClass
    action: Action
    drains: bool
    runbook: str
    source: str
