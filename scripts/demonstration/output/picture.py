"""The demo as one picture: training, nodes and stages over time, and wall time compared with plain Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demonstration.jobs import Job
from demonstration.output.dot_positions import spread
from demonstration.output.report import Outcome
from demonstration.stages import CATALOGUE, Seen

INK, FAINT, GRID = "#1f2933", "#7b8794", "#e4e7eb"
FIRST, SECOND, OUT, LOST, START = "#2a9d8f", "#3a6ea5", "#f4a259", "#d1495b", "#cbd2d9"
AGAIN = "#a3d5cd"
LEGEND = (
    ("training", FIRST),
    ("repeated steps", AGAIN),
    ("starting", START),
    ("nothing runs", LOST),
)

SHORT = {
    "fault": "Xid in the kernel log",
    "verdict": "verdict: bad",
    "drain": "DRAIN in Slurm",
    "step_end": "step ended",
    "requeue": "requeued",
    "restart": "started on healthy nodes",
    "checkpoint": "checkpoint checked",
    "loaded": "checkpoint loaded",
    "next_step": "first new step",
    "condition": "Node condition",
    "taint": "Node taint",
    "event": "Kubernetes event",
    "done": "training done",
    "healed": "node repaired, rebooted",
    "undrain": "returned to service",
    "untaint": "taint gone",
}


def draw(outcome: Outcome, path: Path) -> None:
    """Write the picture; the suffix decides between PNG and SVG."""
    import matplotlib  # noqa: PLC0415 - half a second, only here

    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "text.color": INK,
            "axes.edgecolor": GRID,
            "axes.labelcolor": FAINT,
            "xtick.color": FAINT,
            "ytick.color": FAINT,
            "svg.fonttype": "none",
            "svg.hashsalt": "holdfast",
        }
    )
    import matplotlib.pyplot as plt  # noqa: PLC0415 - half a second, only here

    figure = plt.figure(figsize=(13, 8.2), facecolor="white")
    grid = figure.add_gridspec(
        4, 2, height_ratios=[0.75, 3.1, 2, 1.7], width_ratios=[3, 1.12],
        hspace=0.14, wspace=0.03, left=0.075, right=0.985, top=0.885, bottom=0.075,
    )  # fmt: skip
    marks = figure.add_subplot(grid[0, 0])
    steps = figure.add_subplot(grid[1, 0], sharex=marks)
    lanes = figure.add_subplot(grid[2, 0], sharex=marks)
    words = figure.add_subplot(grid[0:3, 1])
    cost = figure.add_subplot(grid[3, :])
    zero = outcome.scenario.at("fault") or 0.0
    numbered = _numbered(outcome.scenario.seen)
    _frame(figure, (marks, steps, lanes), outcome, zero)
    _marks(marks, numbered, zero)
    _steps(steps, outcome, zero)
    _lanes(lanes, outcome, zero)
    _words(words, numbered, zero, weights="weights" in outcome.scenario.seen)
    _cost(cost, outcome)
    figure.savefig(path, dpi=150, metadata=None if path.suffix == ".png" else {"Date": None})
    plt.close(figure)


def _frame(figure: Any, axes: Sequence[Any], outcome: Outcome, zero: float) -> None:
    begin = outcome.scenario.job.submitted_s - zero
    end = (
        max(stage.at_s for stage in outcome.scenario.seen.values() if stage.key != "weights") - zero
    )
    axes[0].set_xlim(begin - 0.5, end + 1.5)
    for axis in axes:
        axis.axvline(0, color=LOST, lw=1.4, zorder=1)
        axis.spines[["top", "right", "left"]].set_visible(False)
    for axis in axes[:2]:
        axis.tick_params(labelbottom=False, bottom=False)
        axis.spines["bottom"].set_visible(False)
    axes[2].set_xlabel("seconds from the fault", loc="right", labelpad=2)
    left = 0.075
    figure.text(
        left, 0.955, "A GPU falls off the bus; the training continues", size=19, weight="bold"
    )
    nodes = sorted({node for node, _, _ in outcome.scenario.occupied})
    after = f"{outcome.next_step_s:.1f} s" if outcome.next_step_s is not None else "-"
    about = (
        f"PyTorch DDP, {2 * outcome.ranks_per_node} ranks on 2 of {max(4, len(nodes))} nodes, real Slurm "
        f"{outcome.slurm} and Kubernetes API, simulated H100s.  Fault to the next step: {after}."
    )
    figure.text(left, 0.922, about, size=11, color=FAINT)


def _numbered(seen: dict[str, Seen]) -> list[tuple[int, Seen]]:
    shown = [stage for stage in seen.values() if stage.key in SHORT]
    return list(enumerate(sorted(shown, key=lambda stage: stage.at_s), start=1))


def _colour(key: str) -> str:
    if key in ("fault", "verdict", "drain", "step_end"):
        return LOST
    if key in ("condition", "taint", "event", "untaint"):
        return "#8d6a9f"
    return OUT if key in ("healed", "undrain") else SECOND


def _marks(axis: Any, numbered: list[tuple[int, Seen]], zero: float) -> None:
    """A row of numbered dots, one for each stage, with a line from each to its time."""
    axis.set_yticks([])
    times = [stage.at_s - zero for _, stage in numbered]
    begin, end = axis.get_xlim()
    places = spread(times, gap=(end - begin) * 0.028, least=0.0)
    for (number, stage), at, place in zip(numbered, times, places, strict=True):
        colour = _colour(stage.key)
        axis.plot([at, place, place], [0, 0.62, 1], color=colour, lw=0.9, alpha=0.55, zorder=1)
        axis.scatter([place], [1], s=200, color=colour, zorder=3, linewidths=0, clip_on=False)
        axis.text(
            place, 1, str(number), color="white", size=8, weight="bold", ha="center", va="center",
            zorder=4,
        )  # fmt: skip
    axis.set_ylim(0, 1.3)


def _steps(axis: Any, outcome: Outcome, zero: float) -> None:
    lines = [line for line in outcome.scenario.job.progress() if line["event"] == "step"]
    saved = [line for line in outcome.scenario.job.progress() if line["event"] == "saved"]
    axis.set_axisbelow(True)
    axis.grid(axis="y", color=GRID, lw=0.8)
    for attempt, colour in ((0, FIRST), (1, SECOND)):
        mine = [line for line in lines if line["attempt"] == attempt]
        axis.plot(
            [line["t"] - zero for line in mine], [line["step"] for line in mine], color=colour, lw=2.6,
            solid_capstyle="round",
        )  # fmt: skip
    axis.scatter(
        [line["t"] - zero for line in saved], [line["step"] for line in saved], s=26, color="white",
        edgecolors=INK, linewidths=1.1, zorder=5, label="checkpoint",
    )  # fmt: skip
    step, fault = outcome.scenario.at("next_step"), outcome.scenario.fault_step
    if step is not None:
        axis.axvspan(0, step - zero, color=LOST, alpha=0.08, lw=0)
        top = outcome.scenario.job.order.steps * 0.93
        axis.text(
            (step - zero) / 2, top, f"{step - zero:.1f} s\nno training", color=LOST, ha="center",
            va="top", weight="bold",
        )  # fmt: skip
    axis.annotate(
        f"step {fault}", (0, fault), (-6, 4), textcoords="offset points", ha="right", color=FIRST
    )
    axis.set_ylabel("training step")
    axis.set_ylim(0, outcome.scenario.job.order.steps * 1.04)
    axis.legend(loc="lower right", frameon=False, labelcolor=FAINT, handletextpad=0.1)


def _lanes(axis: Any, outcome: Outcome, zero: float) -> None:
    names = [node.name for node in outcome.scenario.job.cluster.box.nodes]
    scenario = outcome.scenario
    end = max(stage.at_s for stage in scenario.seen.values() if stage.key != "weights") - zero + 1.5
    begin = scenario.job.submitted_s - zero - 0.5
    firsts = min((start for _, start, _ in scenario.occupied), default=0.0)
    for index, name in enumerate(names):
        axis.barh(index, end - begin, left=begin, height=0.62, color="#f5f7fa", zorder=1)
        axis.text(begin - (end - begin) * 0.008, index, name, ha="right", va="center", color=INK)
    for node, start, stop in scenario.occupied:
        first = start - firsts < 1
        row, trains = names.index(node), _trains_from(scenario.job, 0 if first else 1, stop)
        colour, text = (FIRST, "training") if first else (SECOND, "training, resumed")
        axis.barh(row, stop - start, left=start - zero, height=0.62, color=START, zorder=3)
        axis.barh(row, stop - trains, left=trains - zero, height=0.62, color=colour, zorder=3)
        axis.text(
            (trains + stop) / 2 - zero, row, text, color="white", ha="center", va="center", zorder=4
        )
    drain, back = scenario.at("drain"), scenario.at("undrain")
    if drain is not None and scenario.victim in names:
        stop = back if back is not None else zero + end
        axis.barh(
            names.index(scenario.victim),
            stop - drain,
            left=drain - zero,
            height=0.62,
            color=OUT,
            zorder=2,
        )
        axis.text(
            (drain + stop) / 2 - zero, names.index(scenario.victim), "out of service", color=INK, ha="center",
            va="center", zorder=4,
        )  # fmt: skip
    base = outcome.baseline
    if base is not None and base.victim in names:
        axis.barh(names.index(base.victim), end - begin, left=begin, height=0.62, color=START, zorder=2, hatch="//",
                  edgecolor="white", lw=0)  # fmt: skip
        axis.text((begin + end) / 2, names.index(base.victim), "drained by hand: not touched", ha="center",
                  va="center", zorder=4, color=INK)  # fmt: skip
    axis.set_yticks([])
    axis.set_ylim(len(names) - 0.5, -0.5)


def _trains_from(job: Job, attempt: int, otherwise: float) -> float:
    """When an attempt's first step began."""
    steps = (
        line for line in job.progress() if line["event"] == "step" and line["attempt"] == attempt
    )
    return next((line["t"] - line["took_s"] for line in steps), otherwise)


def _words(axis: Any, numbered: list[tuple[int, Seen]], zero: float, *, weights: bool) -> None:
    axis.axis("off")
    axis.set_xlim(0, 1)
    axis.set_ylim(len(CATALOGUE) - 0.5, -0.6)
    for row, (number, stage) in enumerate(numbered):
        axis.scatter([0.06], [row], s=190, color=_colour(stage.key), linewidths=0)
        axis.text(
            0.06, row, str(number), color="white", size=8, weight="bold", ha="center", va="center"
        )
        axis.text(0.345, row, f"{stage.at_s - zero:+.2f} s", ha="right", va="center", color=FAINT)
        axis.text(0.38, row, SHORT[stage.key], ha="left", va="center")
    if weights:
        text = "Final weights: identical bit for bit\nto a run without a fault."
        axis.text(0.02, len(numbered) + 0.1, text, va="top", color=FIRST, weight="bold")


def _cost(axis: Any, outcome: Outcome) -> None:
    """Both jobs' wall time in pieces: start, training, idle, repeated steps."""
    scenario, base = outcome.scenario, outcome.baseline
    begins = sorted({begin for _, begin, _ in scenario.occupied})
    runs = [("Holdfast", outcome.ettr, _pieces(scenario.job, begins[1:2], scenario.fault_step))]
    if base is not None:
        pieces = _pieces(base.job, [base.restarted_s], base.fault_step)
        runs.append(("plain Slurm,\nbest case", outcome.baseline_ettr, pieces))
    longest = max([figure.wall_s for _, figure, _ in runs if figure is not None], default=1.0)
    for row, (name, figure, pieces) in enumerate(runs):
        for begin, length, colour in pieces:
            axis.barh(row, length, left=begin, height=0.6, color=colour, lw=0)
        axis.text(-longest * 0.006, row, name, ha="right", va="center", color=INK)
        if figure is not None:
            text = f"  ETTR {figure.ratio:.2f} in {figure.wall_s:.0f} s"
            axis.text(figure.wall_s, row, text, va="center", weight="bold")
    axis.set_xlim(0, longest * 1.17)
    axis.set_ylim(len(runs) - 0.45, -0.95)
    axis.set_yticks([])
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.set_xlabel("seconds of wall time", loc="right", labelpad=2)
    x = longest * 0.005
    for text, colour in LEGEND:
        axis.scatter([x], [-0.72], s=42, color=colour, marker="s", clip_on=False)
        axis.text(x + longest * 0.009, -0.72, text, va="center", color=FAINT)
        x += longest * (0.028 + 0.0082 * len(text))


def _pieces(job: Job, restarts: Sequence[float], reached: int) -> list[tuple[float, float, str]]:
    """(begin, length, colour) in seconds since submission; ``restarts``: when Slurm restarted the job."""
    steps = [line for line in job.progress() if line["event"] == "step"]
    found: list[tuple[float, float, str]] = []
    end = job.submitted_s
    for attempt, came in zip((0, 1), [job.submitted_s, *restarts], strict=False):
        mine = [line for line in steps if line["attempt"] == attempt]
        if not mine:
            break
        start = mine[0]["t"] - mine[0]["took_s"]
        again = [line for line in mine if attempt and line["step"] <= reached]
        middle = again[-1]["t"] if again else start
        found += [(end, came - end, LOST), (came, start - came, START)]
        found += [(start, middle - start, AGAIN), (middle, mine[-1]["t"] - middle, FIRST)]
        end = mine[-1]["t"]
    return [
        (begin - job.submitted_s, length, colour) for begin, length, colour in found if length > 0
    ]
