"""``scripts/demo``: starts a box, runs the demo in it, shows and evaluates the result."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from testbed.box import Box
from testbed.errors import SandboxError
from testbed.shape import RELEASES
from testbed.terraform import example

from demonstration import baseline as plain
from demonstration.jobs import Order, install, submit, weights_digest
from demonstration.live import Live
from demonstration.observe import Cluster, NotSeenError
from demonstration.options import Parser
from demonstration.output import picture, recording, report
from demonstration.output.report import Outcome
from demonstration.scenario import Scenario, ScenarioRunner
from demonstration.stages import Seen

STEPS, EVERY, FAULT_STEP = 60, 5, 22


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(
        allow_abbrev=False,
        prog="scripts/demo",
        description="Show how Holdfast handles a GPU that falls off the bus under a PyTorch training.",
        epilog="example: scripts/demo --slurm 26.05 --skip-baseline",
    )
    parser.add_argument("--ranks-per-node", type=int, choices=[1, 2, 4, 8], default=4)
    parser.add_argument(
        "--slurm", choices=sorted(RELEASES), default="24.11", help="the Slurm release"
    )
    parser.add_argument(
        "--skip-baseline",
        action="store_true",
        help="skip the same job on plain Slurm (3 minutes); with --terraform: the run without pods",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="folder for the pictures and demo.json"
    )
    parser.add_argument(
        "--terraform",
        action="store_true",
        help="on real kubelets: Terraform deploys the bridge and the agents, which run as pods",
    )
    parser.add_argument("--keep", action="store_true", help="leave the box running at the end")
    return parser.parse_args(argv)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    args = _options(words)
    args.command = " ".join(["scripts/demo", *words])
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        return _with_box(args)
    except KeyboardInterrupt:
        print("\nscripts/demo: interrupted; its box has been removed", file=sys.stderr)
        return 130
    except (SandboxError, NotSeenError, OSError) as error:
        print(f"scripts/demo: {error}", file=sys.stderr)
        if isinstance(error, NotSeenError):
            _keep_scene(error.scene, args)
        return 1


def _keep_scene(scene: str, args: argparse.Namespace) -> None:
    if scene:
        (args.out / "scene.txt").write_text(scene + "\n")
        print(f"State of the cluster at the first missing stage: {args.out}/scene.txt")


def _with_box(args: argparse.Namespace) -> int:
    live = Live()
    if args.terraform:
        outcome = _deployed(live, args)
        _show(outcome, live, args)
    else:
        live.head("1. The cluster: real Slurm, real Kubernetes API, simulated H100s")
        with _box(live, args) as box:
            outcome = _run(Cluster(box), live, args)
            _show(outcome, live, args)
    return 1 if outcome.all_problems else 0


@contextmanager
def _box(live: Live, args: argparse.Namespace, *, pods: bool = False) -> Iterator[Box]:
    """A box of four nodes; ended after the block unless ``--keep``."""
    name = f"demo-{os.getpid()}"
    owner_pid = None if args.keep else os.getpid()
    box = Box.up(name, nodes=4, slurm=args.slurm, owner_pid=owner_pid, pods=pods)
    live.say(f"box {name} is up: {len(box.nodes)} nodes with 8 H100s each, Slurm {args.slurm}")
    try:
        yield box
    finally:
        if args.keep:
            live.say(f"the box keeps running; end it with: scripts/sandbox down --name {name}")
        else:
            box.down()


def _deployed(live: Live, args: argparse.Namespace) -> Outcome:
    """The run as pods that Terraform deployed; then the same without pods, for comparison."""
    live.head("1. The cluster: real Slurm in pods on real kubelets, simulated H100s")
    example.prepare(live.say)
    with _box(live, args, pods=True) as box:
        live.head("2. Terraform deploys the bridge and the agents")
        with example.deployed(box, live.say, keep=args.keep) as left_behind:
            for name, node, phase in example.pods(box):
                live.say(f"pod {name} on {node}: {phase}")
            outcome = _run(Cluster(box), live, args)
            job = outcome.scenario.job  # its files end with the box
            outcome.scenario.job = replace(job, kept=tuple(job.progress()))
            if not args.keep:
                live.head("5. Terraform removes them")
        outcome = replace(outcome, problems=[*outcome.problems, *left_behind])
    if args.skip_baseline or args.keep:
        return outcome
    live.head("6. The same job under Holdfast, without pods")
    with _box(live, args) as box:
        install(box)
        return replace(outcome, without_pods=_under_holdfast(Cluster(box), live, args))


def _run(cluster: Cluster, live: Live, args: argparse.Namespace) -> Outcome:
    install(cluster.box)
    ranks, waiting = args.ranks_per_node, None
    if not (args.skip_baseline or args.terraform):
        live.head("2. The same job without Holdfast, until Slurm's requeue delay begins")
        order = Order(
            name="plain", script="train_plain", ranks_per_node=ranks, steps=STEPS, every=EVERY
        )
        waiting = plain.until_requeued(cluster, live, order, FAULT_STEP)
    live.head("3. The reference: the same training without a fault")
    order = Order(
        name="reference", script="train_plain", ranks_per_node=ranks, steps=STEPS, step_s=0.0
    )
    reference = submit(cluster, order)
    reference.wait_state("COMPLETED")
    digests = {"reference": weights_digest(reference)}
    live.say(f"weights of the uninterrupted run: sha256 {digests['reference'][:12]}…")
    live.head("4. The job under Holdfast")
    scenario = _under_holdfast(cluster, live, args)
    problems = _compare(scenario, digests, live)
    if waiting is not None:
        live.head("5. Back to the job without Holdfast")
        plain.try_to_the_end(cluster, live, waiting)
    return Outcome(
        slurm=args.slurm,
        ranks_per_node=ranks,
        scenario=scenario,
        baseline=waiting,
        digests=digests,
        problems=problems,
    )


def _under_holdfast(cluster: Cluster, live: Live, args: argparse.Namespace) -> Scenario:
    ranks = args.ranks_per_node
    order = Order(
        name="holdfast", script="train_holdfast", ranks_per_node=ranks, steps=STEPS, every=EVERY
    )
    return ScenarioRunner(cluster, live, gpu=ranks - 1).run(order, FAULT_STEP)


def _compare(scenario: Scenario, digests: dict[str, str], live: Live) -> list[str]:
    """Compare the final weights: both files are read back and hashed tensor by tensor."""
    if "done" not in scenario.seen:
        return []
    digests["holdfast"] = weights_digest(scenario.job)
    if digests["holdfast"] != digests["reference"]:
        return [f"weights differ: {digests['holdfast'][:16]} and {digests['reference'][:16]}"]
    text = f"sha256 {digests['holdfast'][:12]}… in both"
    scenario.seen["weights"] = Seen(
        key="weights", at_s=time.time(), source="trained_model.pt", evidence=text
    )
    live.say(f"weights of the interrupted run:   {text}")
    return []


def _show(outcome: Outcome, live: Live, args: argparse.Namespace) -> None:
    live.head("Stages")
    for line in report.stage_lines(outcome):
        live.plain(line)
    live.head("Comparison")
    for line in report.comparison_lines(outcome):
        live.plain(line)
    report.write_json(outcome, args.out / "demo.json")
    if "fault" in outcome.scenario.seen:
        picture.draw(outcome, args.out / "demo.png")
        picture.draw(outcome, args.out / "demo.svg")
    _keep_scene(outcome.scenario.scene, args)
    live.plain("")
    for problem in outcome.all_problems:
        live.plain(f"FAILED: {problem}")
    if not outcome.all_problems:
        live.plain("Every stage was observed.")
    recording.write(live.shown, args.command, args.out / "demo-terminal.svg")
    print(f"Files in {args.out}: demo.png, demo.svg (picture), demo-terminal.svg, demo.json")


if __name__ == "__main__":
    sys.exit(main())
