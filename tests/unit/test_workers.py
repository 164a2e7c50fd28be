"""Which tests share a worker and its box, and which come first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import workers

TESTS = Path(workers.__file__).parent


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("tests/e2e/job/test_x.py::test_a[26.05-after]", "tests/e2e/job/test_x.py 26.05"),
        ("tests/e2e/job/test_x.py::test_b[24.11]", "tests/e2e/job/test_x.py 24.11"),
        ("tests/contract/test_slurm.py::TestReal::test_a[26.05]", "tests/contract/test_slurm.py 26.05"),
        ("tests/contract/test_slurm.py::TestFake::test_a", "tests/contract"),
        ("tests/contract/test_kube.py::test_a", "tests/contract"),
        ("tests/chaos/test_campaign.py::test_a[26.05]", "tests/chaos/test_campaign.py 26.05"),
        ("tests/packages/test_node_packages.py::test_a[26.05]", "tests/packages/test_node_packages.py"),
        ("tests/unit/test_x.py::test_a[24.11]", "tests/unit/test_x.py"),
    ],
)  # fmt: skip
def test_tests_of_a_file_and_release_share_a_box(nodeid: str, scope: str) -> None:
    assert workers.scope(nodeid) == scope


def test_boxes_come_first_and_a_worker_keeps_its_release() -> None:
    scopes = {
        "tests/unit/test_x.py": 500,
        "tests/hostile/test_x.py 26.05": 8,
        "tests/e2e/job/test_x.py 26.05": 30,
        "tests/e2e/job/requeue/test_x.py 26.05": 3,
        "tests/terraform/test_pods.py": 6,
        "tests/e2e/node/test_x.py 24.11": 5,
        "tests/e2e/job/test_x.py 24.11": 30,
        "tests/chaos/test_campaign.py 26.05": 1,
        "tests/fuzz/test_x.py": 90,
    }
    order = sorted(scopes, key=lambda name: workers.rank(name, scopes[name], "24.11"))
    other = sorted(
        scopes, key=lambda name: workers.rank(name, scopes[name], "24.11", boxes_last=True)
    )
    assert other == [*order[-2:], *order[:-2]]
    assert order == [
        "tests/terraform/test_pods.py",
        "tests/chaos/test_campaign.py 26.05",
        "tests/e2e/job/test_x.py 24.11",
        "tests/e2e/node/test_x.py 24.11",
        "tests/e2e/job/test_x.py 26.05",
        "tests/e2e/job/requeue/test_x.py 26.05",
        "tests/hostile/test_x.py 26.05",
        "tests/fuzz/test_x.py",
        "tests/unit/test_x.py",
    ]


def test_every_name_in_the_order_exists() -> None:
    for name in (*workers.LONGEST_FIRST, *workers.OWN_BOX, *workers.WITH_BOX):
        assert (TESTS / name.removeprefix("tests/")).exists(), name
