"""The workflow of scripts/train, as its users run it: train, fine-tune, evaluate both models, compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from demonstration.jobs import CODE, Order, install, submit
from demonstration.observe import Cluster
from testbed.box import Box

from tests.e2e import cluster

pytestmark = [pytest.mark.e2e, pytest.mark.one_release]

FOLDER = "/mnt/training/runs"
SHARDS, SHARD_S = "64", "0.3"


@pytest.mark.timeout(600)
def test_train_fine_tune_and_compare_beside_a_fault(clean_box: Box) -> None:
    box = clean_box
    install(box)
    order = Order(name="workflow", script="train_holdfast", ranks_per_node=1, steps=40, step_s=0.0)
    training = submit(Cluster(box), order)
    training.wait_state("COMPLETED", timeout_s=180)
    tuned, kept = f"{FOLDER}/tuned/trained_model.pt", "/mnt/inference/original/original_model.pt"
    done = box.run(
        [
            "sbatch",
            "--parsable",
            f"{CODE}/batch/fine_tune.sbatch",
            "--steps",
            "20",
            "--step-seconds",
            "0",
        ],
        user="alice",
        env={"RUN": f"{FOLDER}/tuned", "MODEL": training.weights, "RANKS_PER_NODE": "1"},
    )
    _wait(box, done.stdout.strip(), "COMPLETED")

    results = f"{FOLDER}/results"
    options = ["--count", SHARDS, "--shard-seconds", SHARD_S]
    argv = ["bash", f"{CODE}/batch/run_comparison.sh", kept, tuned, results, *options]
    first, second, comparison = box.run(argv, user="alice").stdout.split()
    shards = box.path(f"{results}/original/shards")
    cluster.wait_for(lambda: len(list(shards.glob("shard_*.pt"))) >= 4, "four shards", 120)
    victim = _nodes(box, first)[1]
    box.fault(victim, "gpu-lost", "--gpu", "0")
    cluster.wait_for(lambda: cluster.drained(box, victim), f"{victim} drained", 60)
    box.heal(victim)
    for job in (first, second, comparison):
        _wait(box, job, "COMPLETED")

    assert _record(box, first)["restart_cnt"] == 1
    report = json.loads(box.path(f"{results}/comparison.json").read_text())
    assert report["samples"] == int(SHARDS) * 64
    assert report["accuracy_gain"] > 0.1, "the trained model is better than the untrained one"
    assert not report["same_weights"]
    assert _figures(box.path(f"{results}/trained/gpus"))


def _figures(folder: Path) -> list[dict[str, Any]]:
    """What gpu_usage.py recorded of GPUs that answered."""
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    return [record for record in map(json.loads, lines) if "used_percent" in record]


def _record(box: Box, job: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(box.run(["scontrol", "show", "job", job, "--json"]).stdout)[
        "jobs"
    ][0]
    return record


def _nodes(box: Box, job: str) -> list[str]:
    return box.run(["scontrol", "show", "hostnames", _record(box, job)["nodes"]]).stdout.split()


def _wait(box: Box, job: str, state: str) -> None:
    cluster.wait_for(lambda: _record(box, job)["job_state"] == [state], f"job {job} {state}", 240)
