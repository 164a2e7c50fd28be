"""The bridge's image: its Containerfile agrees with the project and with what the Deployment expects.

`scripts/test fresh` runs its commands in a minimal Debian.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from fresh_machine.containerfile import instructions
from packages.images import agent, base, bridge

from holdfast.version import VERSION
from k8s_bridge.render.pod import DEPLOYMENT

TREE = Path(__file__).parents[2]
FOLDER = TREE / "images/bridge"


CONTAINERFILE = (FOLDER / "Containerfile").read_text()


def rest_of(word: str) -> list[str]:
    return [rest for found, rest in instructions(CONTAINERFILE) if found == word]


def test_the_image_has_the_version_of_the_project() -> None:
    assert [arg for arg in rest_of("ARG") if arg.startswith("VERSION")] == [
        f"VERSION={VERSION}"
    ] * 2
    (labels,) = rest_of("LABEL")
    assert 'org.opencontainers.image.version="$VERSION"' in labels


@pytest.mark.parametrize("image", [agent, bridge], ids=["agent", "bridge"])
def test_a_containerfile_and_the_build_without_a_daemon_agree(image: ModuleType) -> None:
    """Labels, version, command; and Debian's packages, which decide what the image can do."""
    folder = image.NAME.removeprefix("holdfast-")
    text = (TREE / "images" / folder / "Containerfile").read_text()
    found = list(instructions(text))
    (given,) = [rest for word, rest in found if word == "LABEL"]
    labels = dict(re.findall(r'(\S+?)="([^"]*)"', given))
    assert labels.pop("org.opencontainers.image.version") == "$VERSION"
    assert f"VERSION={VERSION}" in [rest for word, rest in found if word == "ARG"]
    wanted = dict(image.LABELS)
    assert wanted.pop("org.opencontainers.image.version") == VERSION
    assert labels == wanted
    assert f"BASE=debian:{base.DEBIAN}-slim" in [rest for word, rest in found if word == "ARG"]
    config = {"Cmd": ["bridge"], "Entrypoint": ["holdfast"]} if image is bridge else {"Cmd": ["sh"]}
    assert {key: image.CONFIG[key] for key in config} == config
    for key, words in config.items():
        (command,) = [json.loads(rest) for word, rest in found if word == key.upper()]
        assert command == words
    installed = [rest for word, rest in found if word == "RUN" and "slurm-client" in rest]
    for package in getattr(image, "PACKAGES", ()):
        assert any(re.search(rf" {package}( |$)", rest) for rest in installed), package


def test_it_runs_as_the_user_of_the_deployment_and_not_as_root() -> None:
    uid = DEPLOYMENT.values["uid"].default
    assert rest_of("USER") == [f"{uid}:{uid}"]
    last = [word for word, _ in instructions(CONTAINERFILE) if word in ("USER", "RUN", "COPY")][-1]
    assert last == "USER", "nothing is written as root afterwards"
    user = DEPLOYMENT.values["slurm_user"].default
    assert any(f"useradd --uid {uid}" in rest and f" {user} " in rest for rest in rest_of("RUN"))


def test_what_is_copied_is_in_a_checkout_or_is_the_wheel() -> None:
    copied = [rest.split()[0] for rest in rest_of("COPY") if not rest.startswith("--from")]
    assert copied == [
        "images/bridge/requirements.lock",
        "dist/holdfast-$VERSION-py3-none-any.whl",
    ]
    assert (TREE / copied[0]).is_file()


def test_every_download_of_pip_is_checked_by_hash() -> None:
    installs = [rest for rest in rest_of("RUN") if "pip install" in rest]
    assert len(installs) == 2
    assert all("--require-hashes" in rest or "--no-index" in rest for rest in installs)


def test_the_images_lock_has_what_the_bridge_needs() -> None:
    """The wheel is installed without its dependencies: what is missing here is missing in the image."""
    wanted = required("dependencies") | required("bridge") | required("otel")
    assert {"kubernetes", "opentelemetry-sdk", "prometheus-client", "rich"} <= wanted
    assert wanted <= {pin.split("==")[0] for pin in pins(FOLDER / "requirements.lock")}


def required(key: str) -> set[str]:
    """Names of the packages in a list of pyproject.toml (Python 3.10 has no tomllib)."""
    (found,) = re.findall(
        rf"^{key} = \[(.*?)\]$", (TREE / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL
    )
    names = re.findall(r'"([A-Za-z0-9_-]+)', found)
    return {name.lower().replace("_", "-") for name in names}


def test_the_images_lock_pins_what_the_projects_lock_pins() -> None:
    whole = pins(TREE / "requirements.lock")
    for pin, hashes in pins(FOLDER / "requirements.lock").items():
        assert hashes, pin
        assert whole.get(pin) == hashes, f"{pin}: see CONTRIBUTING.md, The pictures in the README"


def pins(lock: Path) -> dict[str, frozenset[str]]:
    """`name==version` → its hashes."""
    blocks = re.split(r"\n(?=[A-Za-z0-9])", lock.read_text())
    return {
        block.split()[0]: frozenset(re.findall(r"--hash=(\S+)", block))
        for block in blocks
        if "==" in block.split("\n")[0]
    }
