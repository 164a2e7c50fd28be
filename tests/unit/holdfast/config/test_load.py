"""The loader: all problems at once, each with its line, and no partial values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, Literal, Optional, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cli.commands import config
from holdfast.config.bounds import within
from holdfast.config.load import YamlDocument, check, load_section
from holdfast.config.schema import load_cluster
from holdfast.errors import ConfigError
from holdfast.vocabulary import Mode

L = TypeVar("L")


class Colour(str, Enum):
    RED = "red"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    size: int = 1

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(f"size must not be negative, got {self.size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    low: int = 1
    high: int = 10
    unit: Colour = Colour.RED

    def __post_init__(self) -> None:
        within(self, low=(0, 100), high=(0, 100))
        if self.low > self.high:
            raise ValueError(f"high must be at least low ({self.low}), got {self.high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    name: str = "x"
    ratio: float = 0.5
    on: bool = False
    colour: Colour = Colour.RED
    style: Literal["a", "b"] = "a"
    where: Path = Path("/")
    maybe: Optional[int] = 3  # noqa: UP045 - both spellings must work
    maybe_too: str | None = None
    many: tuple[str, ...] = ()
    numbers: frozenset[int] = frozenset()
    table: Mapping[str, Inner] = field(default_factory=dict)
    raw: Any = None
    inner: Inner = field(default_factory=Inner)

    def __post_init__(self) -> None:
        if self.name == self.style:
            raise ValueError("name and style must differ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked(Generic[L]):
    limits: L
    mode: Mode = Mode.OBSERVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Needy:
    token: str


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "h.yaml"
    path.write_text(text)
    return path


def sample(tmp_path: Path, text: str) -> Sample:
    body = "\n".join(f"  {line}" for line in text.splitlines())
    return load_section(write(tmp_path, f"s:\n{body}\n"), "s", Sample)


def problems(tmp_path: Path, text: str) -> list[str]:
    body = "\n".join(f"  {line}" for line in text.splitlines())
    path = write(tmp_path, f"s:\n{body}\n")
    return [line.removeprefix(f"{path}:") for line in check(path, {"s": Sample})]


def test_every_kind_of_value(tmp_path: Path) -> None:
    found = sample(
        tmp_path,
        """\
name: "7"
ratio: 2
on: yes
colour: off
style: b
where: /mnt/training
maybe: null
maybe_too: text
many: [a, b]
numbers: [1, 2, 2]
table: {one: {size: 4}}
raw: {deep: [1, {two: null}]}
inner:
  size: 9""",
    )
    assert found == Sample(
        name="7",
        ratio=2.0,
        on=True,
        colour=Colour.OFF,
        style="b",
        where=Path("/mnt/training"),
        maybe=None,
        maybe_too="text",
        many=("a", "b"),
        numbers=frozenset({1, 2}),
        table={"one": Inner(size=4)},
        raw={"deep": [1, {"two": None}]},
        inner=Inner(size=9),
    )
    assert isinstance(found.ratio, float)


def test_every_problem_at_once_with_its_line(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        """\
name: 7
ratoi: 1
colour: rde
inner: {size: -4}
many: [a, 1]
ratio: .nan
on: maybe
on: true
table: [1]""",
    ) == [
        "2: s.name: expected text, got whole number '7'; put it in quotes",
        "3: s.ratoi: unknown key; did you mean 'ratio'?",
        "4: s.colour: 'rde' is not one of red, off; did you mean 'red'?",
        "5: s.inner.size: must not be negative, got -4",
        "6: s.many[1]: expected text, got whole number '1'; put it in quotes",
        "7: s.ratio: expected a finite number, got .nan",
        "8: s.on: expected true or false, got text 'maybe'",
        "9: s.on: given twice, first in line 8",
        "10: s.table: expected mapping, got list",
    ]


def test_a_refusal_of_the_whole_section_has_the_sections_line(tmp_path: Path) -> None:
    assert problems(tmp_path, "# about\nname: a") == ["3: s: name and style must differ"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{low: -1, high: 101}", ["low: must be between 0", "high: must be between 0"]),
        ("{low: -1, high: 101, unit: blue}", ["unit: 'blue' is", "low: must be", "high: must be"]),
        ("{low: x, high: 101, lo: 3}", ["lo: unknown", "low: expected", "high: must be"]),
        ("{low: 9, high: 3}", ["high: must be at least low (9), got 3"]),
        # A wrong field gets its default, against which no other field is checked.
        ("{low: x, high: 0}", ["low: expected"]),
        ("{low: 101, high: 0}", ["low: must be between 0 and 100"]),
        ("{low: 20}", [": high must be at least low (20), got 10"]),
    ],
)
def test_every_wrong_field_is_reported(tmp_path: Path, text: str, message: list[str]) -> None:
    path = write(tmp_path, f"s: {text}\n")
    found = check(path, {"s": Span})
    assert len(found) == len(message), found
    for line, words in zip(found, message, strict=True):
        assert f"s.{words}" in line or f"s{words}" in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "colour:",
            "s.colour: expected one of red, off, got nothing; remove the key for its default",
        ),
        ("ratio: null", "s.ratio: expected number, got nothing; remove the key for its default"),
        ("name: ~", "s.name: expected text, got nothing; remove the key for its default"),
        ("colour: OFF", "s.colour: 'OFF' is not one of red, off; did you mean 'off'?"),
        ("colour: green", "s.colour: 'green' is not one of red, off"),
    ],
)
def test_an_empty_or_misspelt_value_is_reported(tmp_path: Path, text: str, message: str) -> None:
    assert problems(tmp_path, text) == [f"2: {message}"]


def test_an_empty_section_has_its_defaults(tmp_path: Path) -> None:
    assert sample(tmp_path, "inner:\nmany:\nnumbers:\ntable:\nmaybe:") == Sample(maybe=None)


@pytest.mark.parametrize(("text", "number"), [("1e-3", 0.001), ("2", 2.0), ("0.5", 0.5)])
def test_numbers_as_people_write_them(tmp_path: Path, text: str, number: float) -> None:
    assert sample(tmp_path, f"ratio: {text}").ratio == number


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "s:\n", "s: {}\n", "s: null\n"])
def test_nothing_means_defaults(tmp_path: Path, text: str) -> None:
    assert load_section(write(tmp_path, text), "s", Sample) == Sample()


def test_no_file_means_defaults_but_an_unreadable_path_is_an_error(tmp_path: Path) -> None:
    assert load_section(tmp_path / "none.yaml", "s", Sample) == Sample()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_section(tmp_path, "s", Sample)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: [1\n", r":\d: not valid YAML: "),
        (b"slurm:\n\ttimeout_s: 1\n", ":2: not valid YAML: "),
        (b"ok: 1\n\xff\n", ":2: not UTF-8 text"),
        (b"a: \x01\n", ":1: not valid YAML: "),
        (b"--- 1\n--- 2\n", "not valid YAML: expected a single document"),
        (b"- 1\n", ":1: expected mapping, got list"),
        (b"just words\n", ":1: expected mapping, got text 'just words'"),
        (b"a: &x {b: *x}\n", "unknown section"),
        (b"<<: {a: 1}\n", "merge keys"),
        (b"? [1, 2]\n: 3\n", "unknown section"),
    ],
)
def test_an_invalid_file_is_one_clear_line(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "h.yaml"
    path.write_bytes(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_section(path, "slurm", Sample)
    assert len(str(caught.value).splitlines()) == 1


def test_a_misspelt_section_stops_every_reader_and_an_invalid_one_only_its_own(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, "s: {name: y}\nbridge: {poll_s: never}\n")
    assert load_section(path, "s", Sample).name == "y"
    path = write(tmp_path, "s: {name: y}\nbrigde: {}\n")
    with pytest.raises(ConfigError, match="did you mean 'bridge'"):
        load_section(path, "s", Sample)


def test_a_section_of_checks_has_limits_for_each_check(tmp_path: Path) -> None:
    table: Mapping[str, Any] = {"gpu_xid": Checked[Inner], "mounts": Checked[Sample]}
    path = write(tmp_path, "checks: {gpu_xid: {mode: drain, limits: {size: 5}}, mounts: }\n")
    found = YamlDocument(path, ["checks"]).section("checks", table)
    assert found["gpu_xid"] == Checked(limits=Inner(size=5), mode=Mode.DRAIN)
    assert found["mounts"] == Checked(limits=Sample())
    path = write(tmp_path, "checks: {gpu_xit: {mode: drain}, mounts: {mode: dry}}\n")
    problems = "\n".join(check(path, {"checks": table}))
    assert "checks.gpu_xit: unknown key; did you mean 'gpu_xid'?" in problems
    assert "checks.mounts.mode: 'dry' is not one of off, observe" in problems


def test_a_value_without_a_default_is_required(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"s\.token: missing"):
        load_section(write(tmp_path, "s: {}\n"), "s", Needy)


def test_the_shared_sections(tmp_path: Path) -> None:
    path = write(tmp_path, "cluster: demo\npaths: {run: /r}\nslurm: {timeout_s: 3}\nnode: {x: 1}\n")
    config = load_cluster(path)
    assert (config.cluster, config.paths.run, config.slurm.timeout_s) == ("demo", Path("/r"), 3.0)
    assert load_cluster(tmp_path / "none") == load_cluster(tmp_path / "none either")
    with pytest.raises(ConfigError, match=r":1: paths\.run: must be an absolute path"):
        load_cluster(write(tmp_path, "paths: {run: here}\n"))


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="abs:{}[]-,&*!<'\"\n #01.|>?%@\t", max_size=60))
def test_no_text_crashes_the_loader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text)
    for line in check(path, {"s": Sample}):
        assert line.startswith(f"{path}:")
        assert "\n" not in line


def test_config_check_distinguishes_valid_invalid_and_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write(tmp_path, "cluster: demo\njob: {max_attempts: 5}\n")
    assert config.main(["check", str(good)]) == 0
    assert "valid" in capsys.readouterr().out
    bad = write(tmp_path, "cluster: demo\njob: {max_atempts: 5}\nnode: {expected_gpus: many}\n")
    assert config.main(["check", str(bad)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert "h.yaml:2: job.max_atempts: unknown key; did you mean 'max_attempts'?" in out[0]
    assert "h.yaml:3: node.expected_gpus: expected whole number, got text 'many'" in out[1]
    assert config.main(["check", str(tmp_path / "none.yaml")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert config.main(["check", str(tmp_path)]) == 2
    assert "is a folder; name a file" in capsys.readouterr().err
