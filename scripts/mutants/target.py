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
_POLICY = "tests/unit/holdfast/policy"

TARGETS = (
    Target(
        file="slurm_hooks/hook",
        tests=(
            f"{_HOOKS}/test_hook_sh.py",
            f"{_HOOKS}/test_epilog_skip.py",
            "tests/unit/slurm_hooks/agent/job_runs/test_hook_notes.py",
            "tests/fuzz/test_verdict_files.py",
        ),
    ),
    Target(
        file="slurm_hooks/node/verdict_file.py",
        tests=(f"{_HOOKS}/test_hook_sh.py", "tests/fuzz/test_verdict_files.py"),
    ),
    Target(
        file="slurm_hooks/hooks/admission.py",
        tests=(
            f"{_HOOKS}/test_admission.py",
            f"{_HOOKS}/test_epilog_skip.py",
            "tests/fuzz/test_verdict_files.py",
        ),
    ),
    Target(
        file="holdfast/policy/ownership.py",
        tests=(
            f"{_POLICY}/test_node.py",
            f"{_POLICY}/test_node_rules.py",
            "tests/unit/holdfast/slurm/test_accounting.py",
        ),
    ),
    Target(file="holdfast/policy/budget.py", tests=(f"{_POLICY}/test_budget.py",)),
    Target(file="holdfast/reason.py", tests=("tests/unit/holdfast/test_reason.py",)),
)
