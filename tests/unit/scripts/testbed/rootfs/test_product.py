"""The product's dependencies, and only they, come from the lock, by hash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.inside import stage
from testbed.rootfs.layers import python_version
from testbed.rootfs.product import LOCK, ROOT_REQUIREMENTS, configuration, pinned
from testbed.shape import HISTORY

from holdfast.cli.commands.config import main as config_command
from holdfast.config.load import load_section
from holdfast.config.schema import PathsConfig

_LOCK = """\
# made by uv
certifi==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via
    #   kubernetes
    #   requests
jinja2==3.1.6 \\
    --hash=sha256:33
    # via holdfast (pyproject.toml)
kubernetes==36.0.3 \\
    --hash=sha256:dd
    # via holdfast (pyproject.toml)
mypy==2.4.1 \\
    --hash=sha256:ee
    # via holdfast (pyproject.toml)
multidict==7.1.0 ; python_full_version < '3.11' \\
    --hash=sha256:ff
    # via certifi
multidict==7.2.1 ; python_full_version >= '3.11' \\
    --hash=sha256:00
    # via certifi
nvidia-ml-py==13.6 \\
    --hash=sha256:11
    # via holdfast (pyproject.toml)
prometheus-client==0.26.0 \\
    --hash=sha256:22
    # via holdfast (pyproject.toml)
rich==15.0.0 \\
    --hash=sha256:44
    # via holdfast (pyproject.toml)
"""


def test_a_requirement_brings_its_dependencies_and_no_development_tool() -> None:
    assert list(pinned(_LOCK, "3.13")) == [
        "certifi==1.0 --hash=sha256:aa --hash=sha256:bb",
        "jinja2==3.1.6 --hash=sha256:33",
        "kubernetes==36.0.3 --hash=sha256:dd",
        "multidict==7.2.1 --hash=sha256:00",
        "nvidia-ml-py==13.6 --hash=sha256:11",
        "prometheus-client==0.26.0 --hash=sha256:22",
        "rich==15.0.0 --hash=sha256:44",
    ]


def test_markers_are_evaluated_for_the_roots_python() -> None:
    assert any(pin.startswith("multidict==7.1.0 ") for pin in pinned(_LOCK, "3.10"))


def test_a_lock_without_a_requirement_is_refused() -> None:
    with pytest.raises(SandboxError, match="nvidia-ml-py"):
        list(pinned(_LOCK.replace("nvidia-ml-py", "nvidia"), "3.13"))


def test_the_real_lock_pins_each_package_once_and_by_hash() -> None:
    pins = list(pinned(LOCK.read_text(), "3.13"))
    names = [pin.split("==")[0] for pin in pins]
    assert set(ROOT_REQUIREMENTS) <= set(names)
    assert len(names) == len(set(names))
    assert all(re.search(r" --hash=sha256:[0-9a-f]{64}", pin) for pin in pins)
    assert not {"ruff", "mypy", "pytest", "matplotlib", "numpy"} & set(names)


def test_the_roots_python_is_read_from_its_link(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("root")
    (root / "usr/bin").mkdir(parents=True)
    with pytest.raises(SandboxError, match=r"python3\.N"):
        python_version(root)
    (root / "usr/bin/python3").symlink_to("python3.13")
    assert python_version(root) == "3.13"


@pytest.mark.parametrize("pyslurm", [False, True])
def test_the_boxs_configuration_is_one_that_holdfast_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pyslurm: bool
) -> None:
    path = tmp_path / "holdfast.yaml"
    path.write_text(configuration(4, pyslurm=pyslurm))
    assert config_command(["check", str(path)]) == 0, capsys.readouterr()


def test_the_boxs_history_is_on_a_folder_that_its_nodes_share(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.yaml"
    path.write_text(configuration(4))
    assert load_section(path, "paths", PathsConfig).history_folder == Path(HISTORY)
    assert HISTORY.lstrip("/") in stage._SHARED
