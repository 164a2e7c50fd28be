"""The batch scripts of ``holdfast render sbatch``, each run small on two nodes as a user would.

Real: the rendered script with its launch line, sbatch, holdfast run, srun, and the network between the nodes. Not
real: torchrun and the programs of the frameworks. Debian builds torch without libuv, so the box's own torchrun has
no rendezvous. A small program takes torchrun's options, meets the other node at the rendezvous' address and starts
the ranks. Another one takes exactly the options that a framework's own command line takes, and the checkpoint that
it "writes" is a copy of one that the real framework wrote (tests/data/checkpoints).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from testbed.box import Box

from tests.e2e import cluster

pytestmark = [pytest.mark.e2e, pytest.mark.one_release, pytest.mark.timeout(600)]

HOME = "/mnt/training/templates"
RECORDED = Path(__file__).resolve().parents[2] / "data/checkpoints"

_STAND_IN = """
import argparse, json, os, shutil, sys, time
parser = argparse.ArgumentParser(allow_abbrev=False)
framework = sys.argv[1]
OPTIONS = {
    "megatron": ["--save", "--load", "--ckpt-step"],
    "hf": ["--output_dir", "--resume_from_checkpoint"],
    "lightning": ["--ckpt_path"],
}
if framework == "lightning":
    parser.add_argument("command", choices=["fit"])
for option in OPTIONS.get(framework, []):
    parser.add_argument(option)
options = vars(parser.parse_args(sys.argv[2:]))
home = os.environ["TEMPLATES_HOME"]
attempt = os.environ["HOLDFAST_ATTEMPT"]
rank = int(os.environ.get("RANK") or os.environ["SLURM_PROCID"])
options |= {
    "world": int(os.environ.get("WORLD_SIZE") or os.environ["SLURM_NTASKS"]),
    "from": os.environ["HOLDFAST_RESUME_FROM"],
    "step": os.environ["HOLDFAST_RESUME_STEP"],
    "by_torchrun": "TORCHELASTIC_RUN_ID" in os.environ,
}
with open(f"{home}/{framework}.seen/{attempt}.{rank}", "w") as out:
    json.dump(options, out)
if attempt != "1":
    sys.exit(0)
target = options.get("save") or options.get("output_dir") or f"{home}/{framework}"
saved = f"{home}/{framework}.saved"
if rank == 0:
    shutil.copytree(f"{home}/recorded/{framework}", target, dirs_exist_ok=True)
    open(saved, "w").close()
while not os.path.exists(saved):
    time.sleep(0.1)
time.sleep(1)
if rank == 1:
    raise RuntimeError("this rank fails once")
time.sleep(600)
"""

_TORCHRUN = """#!/usr/bin/python3
import argparse, os, socket, subprocess, sys, time
parser = argparse.ArgumentParser(allow_abbrev=False)
for option in ("--nnodes", "--nproc-per-node", "--max-restarts"):
    parser.add_argument(option, type=int, required=True)
parser.add_argument("--rdzv-backend", choices=["c10d"], required=True)
parser.add_argument("--rdzv-endpoint", required=True)
parser.add_argument("--rdzv-id", required=True)
parser.add_argument("program")
parser.add_argument("words", nargs=argparse.REMAINDER)
options = parser.parse_args()
assert options.max_restarts == 0
node, count = int(os.environ["SLURM_NODEID"]), options.nproc_per_node
host, _, port = options.rdzv_endpoint.rpartition(":")
if node == 0:
    server = socket.create_server((host, int(port)))
    server.settimeout(60)
    links = [server.accept()[0] for _ in range(options.nnodes - 1)]
    for link in links:
        link.sendall(options.rdzv_id.encode())
        link.close()
    server.close()
else:
    for _ in range(300):
        try:
            link = socket.create_connection((host, int(port)), timeout=60)
            break
        except OSError:
            time.sleep(0.2)
    assert link.recv(99).decode() == options.rdzv_id
ranks = []
for local in range(count):
    rank = {"RANK": node * count + local, "LOCAL_RANK": local, "WORLD_SIZE": options.nnodes * count}
    env = {**os.environ, "TORCHELASTIC_RUN_ID": options.rdzv_id}
    env.update((name, str(value)) for name, value in rank.items())
    argv = [sys.executable, options.program, *options.words]
    ranks.append(subprocess.Popen(argv, env=env))
while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
    time.sleep(0.1)
for rank in ranks:
    rank.terminate()
sys.exit(max(abs(rank.wait()) for rank in ranks) and 1)
"""


class Case(NamedTuple):
    """``recorded``: what the program "writes", in tests/data/checkpoints. ``seen``: what its second attempt gets,
    with FOLDER for the checkpoint folder."""

    recorded: str
    seen: dict[str, object]


CASES = {
    "torchrun": Case(
        "checkpoint_epoch_2.pt", {"from": "FOLDER/checkpoint_epoch_2.pt", "by_torchrun": True}
    ),
    "megatron": Case(
        "megatron-dist",
        {"save": "FOLDER", "load": "FOLDER", "ckpt_step": "100", "by_torchrun": True},
    ),
    "deepspeed": Case("deepspeed", {"from": "FOLDER/global_step2", "by_torchrun": True}),
    "hf": Case(
        "hf-trainer",
        {
            "output_dir": "FOLDER",
            "resume_from_checkpoint": "FOLDER/checkpoint-2",
            "by_torchrun": True,
        },
    ),
    "lightning": Case(
        "lightning",
        {
            "command": "fit",
            "ckpt_path": "FOLDER/lightning_logs/version_0/checkpoints/last.ckpt",
            "by_torchrun": False,
        },
    ),
    "jax": Case("orbax", {"step": "10", "from": "FOLDER/10", "by_torchrun": False}),
}


@pytest.fixture
def box(clean_box: Box) -> Box:
    """With a user's folder: programs, recorded checkpoints, and a ``python`` as in a virtual environment."""
    home = clean_box.path(HOME)
    shutil.rmtree(home, ignore_errors=True)
    (home / "bin").mkdir(parents=True)
    (home / "bin/python").symlink_to("/usr/bin/python3")
    (home / "bin/torchrun").write_text(_TORCHRUN)
    (home / "bin/torchrun").chmod(0o755)
    (home / "stand_in.py").write_text(_STAND_IN)
    for framework, case in CASES.items():
        source, target = RECORDED / case.recorded, home / "recorded" / framework
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            target.mkdir(parents=True)
            shutil.copy(source, target)
    clean_box.run(["chown", "-R", "alice", HOME])
    return clean_box


def _submit(box: Box, framework: str) -> int:
    """``holdfast render sbatch … >job.sbatch; sbatch job.sbatch`` as alice, who edits nothing."""
    for folder in (framework, f"{framework}.seen"):
        box.run(["mkdir", f"{HOME}/{folder}"], user="alice")
    values = {
        "framework": framework,
        "program": f"{HOME}/stand_in.py {framework}",
        "checkpoints": f"{HOME}/{framework}",
        "nodes": "2",
        "gpus_per_node": "1",
        "tasks_per_node": "1",
        "output": f"{HOME}/{framework}.log",
    }
    sets = [f"--set={name}={value}" for name, value in values.items()]
    script = box.run(["holdfast", "render", "sbatch", *sets], user="alice").stdout
    path = f"{HOME}/{framework}.sbatch"
    box.run(["tee", path], user="alice", stdin=script)
    env = f"PATH={HOME}/bin:$PATH TEMPLATES_HOME={HOME}"
    submit = f"{env} exec sbatch --parsable {path}"
    done = box.run(["sh", "-c", submit], user="alice")
    return int(done.stdout.split(";")[0])


def test_each_template_runs_and_resumes_as_its_framework_does(box: Box) -> None:
    jobs = {framework: _submit(box, framework) for framework in CASES}
    running = {"PENDING", "RUNNING", "COMPLETING"}
    cluster.wait_for(
        lambda: running.isdisjoint(_state(box, job_id) for job_id in jobs.values()),
        "the end of all jobs",
        400,
    )
    for framework, job_id in jobs.items():
        log = box.path(f"{HOME}/{framework}.log").read_text()
        assert _state(box, job_id) == "COMPLETED", log
        assert "RuntimeError: this rank fails once" in log
        assert log.count("decision: restart") == 1, log
        seen = [_seen(box, framework, f"2.{rank}") for rank in (0, 1)]
        assert [facts["world"] for facts in seen] == [2, 2], "torchrun or srun has started both"
        folder = f"{HOME}/{framework}"
        for facts in seen:
            wanted = _wanted(framework, folder)
            assert {name: facts[name] for name in wanted} == wanted, framework
    assert not _seen(box, "hf", "1.0")["resume_from_checkpoint"], "left out at first"


def _wanted(framework: str, folder: str) -> dict[str, object]:
    return {
        name: value.replace("FOLDER", folder) if isinstance(value, str) else value
        for name, value in CASES[framework].seen.items()
    }


def _seen(box: Box, framework: str, name: str) -> dict[str, object]:
    text = box.path(f"{HOME}/{framework}.seen/{name}").read_text()
    found: dict[str, object] = json.loads(text)
    return found


def _state(box: Box, job_id: int) -> str:
    text = box.run(["scontrol", "show", "job", str(job_id), "--json"]).stdout
    return str(json.loads(text)["jobs"][0]["job_state"][0])
