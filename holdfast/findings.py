"""The result of one check (Finding) and of all checks of a node together (Verdict)."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.vocabulary import Action, Severity, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault that one check found on this node.

    ``code``     the fault catalogue's code, e.g. ``XID79`` (holdfast/faults/).
    ``subject``  what it was found on: a GPU UUID, ``mlx5_0``, ``/mnt/training`` or ``node``.
    ``detail``   one line of text; becomes the detail of the drain reason.
    ``action``   what must happen before the node returns to service.
    ``gpu``      the GPU's index on this node when one GPU alone is at fault, else None.
    ``cause``    False for a consequence of another fault (Xid 45, 43): never outranks a cause.
    ``left_s``   seconds until it no longer counts if nothing else happens; None: time alone does not clear it.
    """

    code: str
    severity: Severity
    subject: str
    detail: str
    action: Action = Action.NONE
    gpu: int | None = None
    cause: bool = True
    check: str = ""
    left_s: float | None = field(default=None, compare=False)  # it changes on each pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is known about a node: findings, and the probes that gave no answer.

    A probe without an answer is evidence of neither health nor a fault (rule 2): it has its own field.
    """

    findings: tuple[Finding, ...] = ()
    blind: tuple[str, ...] = ()

    @property
    def worst(self) -> Finding | None:
        """The finding that decides: causes before consequences, then by severity, then the first one."""
        if not self.findings:
            return None
        return max(self.findings, key=lambda finding: (finding.cause, finding.severity))

    @property
    def status(self) -> Status:
        worst = max((finding.severity for finding in self.findings), default=Severity.INFO)
        if worst is Severity.FATAL:
            return Status.BAD
        if worst is Severity.WARN:
            return Status.SUSPECT
        return Status.BLIND if self.blind else Status.OK
