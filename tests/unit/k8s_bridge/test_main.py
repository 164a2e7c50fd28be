"""What the bridge is started with, and with what it refuses to start."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.load import load_section
from holdfast.errors import ConfigError
from k8s_bridge.config import BridgeConfig
from k8s_bridge.main import main


def test_every_problem_of_the_section_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text("bridge:\n  pol_s: 1\n  poll_s: 0\n  join: by_name\n")
    with pytest.raises(ConfigError) as caught:
        load_section(file, "bridge", BridgeConfig)
    lines = str(caught.value).splitlines()
    assert f"{file}:2: bridge.pol_s: unknown key; did you mean 'poll_s'?" in lines
    assert any(":4: bridge.join: 'by_name' is not one of instance_id, table" in x for x in lines)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"poll_s": 0.0}, "bridge.poll_s: must be between 0.1 and 300"),
        ({"join": "table"}, "nodes must map at least one"),
    ],
)
def test_ranges(wrong: dict[str, object], message: str, tmp_path: Path) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text("bridge: {" + ", ".join(f"{k}: {v}" for k, v in wrong.items()) + "}\n")
    with pytest.raises(ConfigError, match=message):
        load_section(file, "bridge", BridgeConfig)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bridge: {kubeconfig: /nowhere/kubeconfig}", "/nowhere/kubeconfig"),
        ("bridge: {poll_s: soon}", "bridge.poll_s: expected number"),
    ],
)
def test_what_it_cannot_start_with_gets_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text(text)
    assert main(["--config", str(file)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
