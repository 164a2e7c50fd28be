"""The wheel and the source distribution: as `scripts/package wheel` makes them, and as twine checks them."""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path

import pytest
from packages import wheel
from packages.vendored import own
from testbed.errors import SandboxError
from testbed.paths import cache
from testbed.rootfs import pinned_venv

from holdfast.version import VERSION


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    sdist, built = sorted(wheel.write(tmp_path_factory.mktemp("dist"), print), key=_is_wheel)
    assert (sdist.name, built.name) == (
        f"holdfast-{VERSION}.tar.gz",
        f"holdfast-{VERSION}-py3-none-any.whl",
    )
    return sdist, built


def _is_wheel(path: Path) -> bool:
    return path.suffix == ".whl"


def test_the_wheel_has_every_file_of_the_packages(made: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(made[1]) as archive:
        found = {name: archive.read(name) for name in archive.namelist() if "dist-info" not in name}
    assert found == dict(own())


def test_a_wheel_made_from_the_source_distribution_is_the_same(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    with tarfile.open(made[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    programs = pinned_venv.make(wheel.LOCK, cache() / "release", print) / "bin"
    (folder,) = tmp_path.iterdir()
    again = tmp_path / "again"
    wheel._run([programs / "python", "-I", "-c", wheel._BUILD, again], folder)
    (built,) = again.glob("*.whl")
    with zipfile.ZipFile(built) as new, zipfile.ZipFile(made[1]) as first:
        assert {name: new.read(name) for name in new.namelist()} == {
            name: first.read(name) for name in first.namelist()
        }


def test_the_same_tree_gives_the_same_bytes(made: tuple[Path, Path], tmp_path: Path) -> None:
    second = sorted(wheel.write(tmp_path, print), key=_is_wheel)
    assert [path.read_bytes() for path in second] == [path.read_bytes() for path in made]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (r"\n\n# Holdfast.*", "", "no-description|missing|description"),
        (r"Metadata-Version: \S+", "Metadata-Version: 0.3", "[Mm]etadata"),
    ],
    ids=["description", "metadata"],
)
def test_twine_refuses_a_wheel_that_the_index_would_not_show(
    made: tuple[Path, Path], tmp_path: Path, before: str, after: str, message: str
) -> None:
    """Otherwise `twine check` would accept anything."""
    bad = tmp_path / made[1].name
    with zipfile.ZipFile(made[1]) as first, zipfile.ZipFile(bad, "w") as archive:
        for name in first.namelist():
            content = first.read(name)
            if name.endswith("/METADATA"):
                text, count = re.subn(before, after, content.decode(), count=1, flags=re.DOTALL)
                assert count == 1
                content = text.encode()
            archive.writestr(name, content)
    programs = pinned_venv.make(wheel.LOCK, cache() / "release", print) / "bin"
    with pytest.raises(SandboxError, match=message):
        wheel.check([bad], programs)
