"""The lines that tell in a log whether the tests of Terraform ran."""

from __future__ import annotations

from tests.summary import Result, terraform_lines

INPUTS, PODS = "tests/terraform/test_inputs.py", "tests/terraform/test_pods.py"


def test_each_file_says_what_ran_and_why_something_did_not() -> None:
    results = [
        Result(f"{PODS}::test_a", "skipped", "no cgroup v2"),
        Result(f"{PODS}::test_b", "skipped", "no cgroup v2"),
        Result(f"{INPUTS}::test_a[1]", "passed"),
        Result(f"{INPUTS}::test_a[2]", "passed"),
        Result(f"{INPUTS}::test_b", "failed"),
        Result("tests/unit/test_other.py::test_a", "skipped", "another reason"),
    ]
    assert terraform_lines(results) == [
        f"{INPUTS}: 1 failed, 2 passed",
        f"{PODS}: 2 skipped (no cgroup v2)",
    ]


def test_a_run_without_them_says_nothing() -> None:
    assert terraform_lines([Result("tests/unit/test_other.py::test_a", "passed")]) == []
