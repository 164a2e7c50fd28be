"""The files to mutate, and the tests that must detect it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """``tests`` run with each mutant of ``file``, in this order, until one fails. Paths in the repository."""

    file: str
    tests: tuple[str, ...]

    @property
    def is_shell(self) -> bool:
        return not self.file.endswith(".py")


_HOOKS = "tests/unit/slurm_hooks/hooks"
_NODE = "tests/unit/slurm_hooks/node"
_AGENT = "tests/unit/slurm_hooks/agent"
_POLICY = "tests/unit/holdfast/policy"

TARGETS = (
    Target(
        file="slurm_hooks/hook",
        tests=(
            f"{_HOOKS}/test_hook_sh.py",
            f"{_HOOKS}/test_epilog_skip.py",
            f"{_AGENT}/job_runs/test_hook_notes.py",
            "tests/fuzz/test_verdict_files.py",
        ),
    ),
    Target(
        file="slurm_hooks/hooks/decision.py",
        tests=(f"{_HOOKS}/test_decision.py", f"{_HOOKS}/test_epilog_skip.py"),
    ),
    # the verdict
    Target(file="holdfast/findings.py", tests=("tests/unit/holdfast/test_findings.py",)),
    Target(
        file="slurm_hooks/agent/verdict/publisher.py",
        tests=(f"{_AGENT}/verdict/test_publisher.py",),
    ),
    Target(
        file="holdfast/records/verdict_file.py",
        tests=("tests/unit/holdfast/records/test_verdict_file.py",),
    ),
    # whose drain, and how many
    Target(
        file="holdfast/policy/ownership.py",
        tests=(f"{_POLICY}/test_ownership.py", "tests/unit/holdfast/slurm/test_accounting.py"),
    ),
    Target(
        file="slurm_hooks/agent/drain/manual_resume.py",
        tests=(f"{_AGENT}/drain/test_manual_resume.py",),
    ),
    Target(file="holdfast/policy/budget.py", tests=(f"{_POLICY}/test_budget.py",)),
    Target(file="holdfast/reason.py", tests=("tests/unit/holdfast/test_reason.py",)),
    # what is killed, and whose word counts
    Target(
        file="slurm_hooks/node/process_scan.py",
        tests=(f"{_NODE}/test_process_scan.py", f"{_AGENT}/kill_tasks/test_affected_tasks.py"),
    ),
    Target(
        file="slurm_hooks/agent/job_report/leftovers.py",
        tests=(
            f"{_AGENT}/job_report/test_leftovers.py",
            f"{_AGENT}/job_report/test_report.py",
        ),
    ),
    Target(
        file="slurm_hooks/agent/jobs/old_markers.py",
        tests=(f"{_AGENT}/jobs/test_old_markers.py",),
    ),
)
