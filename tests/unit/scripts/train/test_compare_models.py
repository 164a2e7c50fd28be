"""The comparison of two models' results, and what cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compare_models import compare, main


def results(**changed: Any) -> dict[str, Any]:
    return {
        "model": "m.pt", "weights_sha256": "aa", "seed": 1, "samples": 4, "correct": 1,
        "mean_loss": 2.0, "predictions": [0, 1, 2, 3], **changed,
    }  # fmt: skip


def test_the_gain_and_what_both_predict() -> None:
    trained = results(weights_sha256="bb", correct=3, mean_loss=0.5, predictions=[0, 1, 0, 0])
    report = compare(results(), trained)
    assert report["accuracy_gain"] == 0.5
    assert report["loss_change"] == -1.5
    assert report["same_predictions"] == 0.5
    assert not report["same_weights"]


def test_the_same_weights_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results()))
    assert main([str(path), str(path), "--output", str(tmp_path / "report.json")]) == 0
    assert "The weights of the two models are equal." in capsys.readouterr().out
    assert json.loads((tmp_path / "report.json").read_text())["accuracy_gain"] == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory; run infer.py --merge first"),
        ("{", "not JSON"),
        ("[]", "no model, weights_sha256"),
        (json.dumps({"model": "m.pt"}), "no weights_sha256, seed"),
        (json.dumps(results(predictions=[1])), "4 samples, but not one prediction for each"),
        (json.dumps(results(samples=0, predictions=[])), "0 samples"),
        (json.dumps(results(seed=2)), "different data: seed 1 and 2"),
        (json.dumps(results(samples=1, predictions=[1])), "different data: samples 4 and 1"),
    ],
)
def test_files_that_cannot_be_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, said: str
) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(json.dumps(results()))
    if content is not None:
        second.write_text(content)
    assert main([str(first), str(second), "--output", str(tmp_path / "report.json")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "report.json").exists()
