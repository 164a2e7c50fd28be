"""Compares the results of two models on the same data, as JSON, and as text on the terminal.

Example: python3 compare_models.py original/inference_results.json trained/inference_results.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FIELDS = ("model", "weights_sha256", "seed", "samples", "correct", "mean_loss", "predictions")


class UnusableError(Exception):
    """The files cannot be compared; the text says why."""


def options(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("first", type=Path, help="inference_results.json of the original model")
    parser.add_argument("second", type=Path, help="inference_results.json of the trained model")
    parser.add_argument("--output", type=Path, help="write the comparison to this file, as JSON")
    return parser.parse_args(argv)


def read(path: Path) -> dict[str, Any]:
    """A results file of ``infer.py``. Raises ``UnusableError``."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnusableError(f"{path}: {error.strerror}; run infer.py --merge first") from None
    except ValueError as error:
        raise UnusableError(f"{path}: not JSON: {error}") from None
    missing = [name for name in FIELDS if not isinstance(found, dict) or name not in found]
    if missing:
        raise UnusableError(f"{path}: not a file of infer.py --merge: no {', '.join(missing)}")
    if not found["samples"] or len(found["predictions"]) != found["samples"]:
        raise UnusableError(f"{path}: {found['samples']} samples, but not one prediction for each")
    return dict(found)


def compare(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The comparison of two files' contents. Raises ``UnusableError`` if they are of different data."""
    for name in ("seed", "samples"):
        if first[name] != second[name]:
            raise UnusableError(
                f"the two were given different data: {name} {first[name]} and {second[name]}"
            )
    samples = first["samples"]
    same = sum(a == b for a, b in zip(first["predictions"], second["predictions"], strict=True))
    report: dict[str, Any] = {
        name: {
            "model": one["model"],
            "weights_sha256": one["weights_sha256"],
            "accuracy": one["correct"] / samples,
            "mean_loss": one["mean_loss"],
        }
        for name, one in (("first", first), ("second", second))
    }
    report["samples"] = samples
    report["accuracy_gain"] = (second["correct"] - first["correct"]) / samples
    report["loss_change"] = second["mean_loss"] - first["mean_loss"]
    report["same_predictions"] = same / samples
    report["same_weights"] = first["weights_sha256"] == second["weights_sha256"]
    return report


def text(report: dict[str, Any]) -> str:
    lines = [
        f"{100 * report[name]['accuracy']:5.1f} % right, mean loss {report[name]['mean_loss']:.4f}: "
        f"{report[name]['model']}"
        for name in ("first", "second")
    ]
    lines.append(
        f"The second is right in {100 * report['accuracy_gain']:+.1f} percentage points of "
        f"{report['samples']} samples; {100 * report['same_predictions']:.1f} % of the predictions are equal."
    )
    if report["same_weights"]:
        lines.append("The weights of the two models are equal.")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    args = options(argv)
    try:
        report = compare(read(args.first), read(args.second))
    except UnusableError as error:
        print(f"compare_models.py: {error}", file=sys.stderr)
        return 2
    if args.output:
        args.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(text(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
