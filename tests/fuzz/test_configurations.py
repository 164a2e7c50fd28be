"""Invalid configurations: one clear line each, with file, line and remedy, and always a
ConfigError."""

from __future__ import annotations

import dataclasses
import random
import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from slurm_hooks import checks
from slurm_hooks.checks import CATALOGUE
from slurm_hooks.settings import settings
from slurm_hooks.settings.sections import AgentConfig
from tests.fuzz.garbage import DEEP, LONG, broken, noise

WHOLE = """\
cluster: demo
paths: {kmsg: /sim/kmsg, sysfs: /sim/sys}
slurm: {timeout_s: 5}
node:
  expected_gpus: 8
  mounts: [/mnt/training, /mnt/inference]
  budget: {max_nodes: 2, max_share: 0.1}
agent: {interval_s: 1, probe_deadline_s: 1, verdict_ttl_s: 10}
checks:
  gpu_xid: {mode: drain, limits: {ignore: [31, 43]}}
  mounts: {mode: comment, limits: {min_free_share: 0.02, open_after: 3}}
job: {poll_s: 2}
bridge: {poll_s: 0.5}
"""


def problems(path: Path, text: str | bytes) -> list[str]:
    """What loading says against it, line by line; none when it loads."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
    try:
        settings.load(path)
    except ConfigError as error:
        return str(error).splitlines()
    return []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.yaml"


def test_the_complete_configuration_loads(path: Path) -> None:
    assert problems(path, WHOLE) == []


def _numbers() -> Iterator[tuple[str, str]]:
    """Every limit of every check that is a number."""
    for name in CATALOGUE:
        kind = checks.load(name).limits
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if {hints[field.name], *typing.get_args(hints[field.name])} & {int, float}:
                if typing.get_origin(hints[field.name]) in (frozenset, tuple):
                    continue
                yield name, field.name


@pytest.mark.parametrize(("check", "limit"), list(_numbers()))
@pytest.mark.parametrize("value", ["-1000000000000", "1000000000000"])
def test_every_limit_of_every_check_has_a_range(
    path: Path, check: str, limit: str, value: str
) -> None:
    """At its own line, with its own name, the value and what would do."""
    text = f"cluster: demo\nchecks:\n  {check}:\n    limits:\n      {limit}: {value}\n"
    found = problems(path, text)
    assert len(found) == 1, found
    assert found[0].startswith(f"{path}:5: checks.{check}.limits.{limit}: "), found
    assert re.search(r"must|should|expected|between|at most|at least", found[0]), found


def _numbers_of_the_agent() -> Iterator[str]:
    for name, hint in typing.get_type_hints(AgentConfig).items():
        if hint in (int, float):
            yield name


@pytest.mark.parametrize("field", list(_numbers_of_the_agent()))
def test_every_number_of_the_agent_has_a_range(path: Path, field: str) -> None:
    for value in ("-1000000000000", "1000000000000"):
        found = problems(path, f"agent:\n  {field}: {value}\n")
        assert found, value
        assert found[0].startswith(f"{path}:2: agent.{field}: "), found


@pytest.mark.parametrize("check", list(CATALOGUE))
def test_a_misspelt_check_or_mode_is_reported_with_a_suggestion(path: Path, check: str) -> None:
    (found,) = problems(path, f"checks:\n  {check}x: {{mode: drain}}\n")
    assert found.startswith(f"{path}:2: ")
    assert f"did you mean '{check}'?" in found
    (found,) = problems(path, f"checks:\n  {check}: {{mode: drian}}\n")
    assert found.startswith(f"{path}:2: checks.{check}.mode: ")
    assert "did you mean 'drain'?" in found


def test_all_problems_of_all_sections_are_reported_at_once(path: Path) -> None:
    text = "agent:\n  interval_s: 0\nchecks:\n  mounts: {mode: drop}\n  gpu_xidd: {}\nclutser: x\n"
    found = problems(path, text)
    assert [int(line.removeprefix(f"{path}:").split(":")[0]) for line in found] == [2, 4, 5, 6]


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_file_is_valid_or_a_clear_error(path: Path, seed: int) -> None:
    """Half-written, flipped, anything: loaded as it stands, or refused line by line."""
    chance = random.Random(seed)
    for _ in range(200):
        what = chance.randrange(3)
        data = WHOLE.encode()
        data = (
            data[: chance.randrange(len(data))]
            if what == 0
            else broken(chance, data) if what == 1 else noise(chance, 300)
        )  # fmt: skip
        for line in problems(path, data):
            assert re.match(rf"{re.escape(str(path))}:\d+: ", line), (data, line)
            assert len(line) < 600, (data, line)


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        "checks: " + "{a: " * 3000,
        f"agent: {{interval_s: {LONG}}}",
        "agent: {interval_s: .inf}",
        "agent: {interval_s: .nan}",
        "a: &a [*a]",
        "checks: &c {gpu_xid: *c}",
        "agent: !!python/object/apply:os.system [true]",
        "\ufeffagent: {interval_s: 5, interval_s: 0}",
        "? [complex, key]\n: value",
        "\0",
        "agent: 2026-11-21",
    ],
)
def test_unwanted_yaml_features_are_refused(path: Path, text: str) -> None:
    found = problems(path, text)
    assert found, text[:40]
    assert all(line.startswith(f"{path}:") and len(line) < 600 for line in found), found
