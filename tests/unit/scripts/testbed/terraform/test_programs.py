"""Which Terraform is used, and where it finds the provider."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.terraform import RELEASES, TFLINT, cli_config, find_terraform, is_built
from testbed.terraform.__main__ import main
from testbed.terraform.programs import PROVIDER


def program(folder: Path, name: str, version: str, host: str = "host.example") -> Path:
    """A program that answers `version -json` and `providers` as Terraform does."""
    file = folder / name
    file.write_text(
        "#!/bin/sh\n"
        f'[ "$1" != version ] || echo \'{{"terraform_version": "{version}"}}\'\n'
        f'[ "$1" != providers ] || echo "provider[{host}/gavinbunney/kubectl]"\n'
    )
    file.chmod(0o755)
    return file


def test_terraform_comes_before_opentofu_and_a_named_one_before_both(tmp_path: Path) -> None:
    tofu = program(tmp_path, "tofu", "1.9.0")
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    if find_terraform({"PATH": "/usr/bin:/bin"}) is None:
        assert find_terraform(path) == tofu
    terraform = program(tmp_path, "terraform", "1.12.0")
    assert find_terraform(path) == terraform
    assert find_terraform({**path, "HOLDFAST_TERRAFORM": str(tofu)}) == tofu


def test_a_machine_without_terraform_has_none(tmp_path: Path) -> None:
    assert find_terraform({"PATH": str(tmp_path)}) is None


@pytest.mark.parametrize("version", ["1.7.5", "0.15.0", "nonsense"])
def test_one_that_is_too_old_is_refused(tmp_path: Path, version: str) -> None:
    old = program(tmp_path, "terraform", version)
    with pytest.raises(SandboxError, match=r"1\.8 or newer"):
        find_terraform({"HOLDFAST_TERRAFORM": str(old)})


def test_the_mirror_is_where_the_program_looks(tmp_path: Path) -> None:
    """OpenTofu and Terraform have different hosts; nobody writes them down here."""
    named = program(tmp_path, "tofu", "1.9.0", host="other.example")
    provider = tmp_path / "built"
    provider.write_text("program")
    config = cli_config(named, provider, tmp_path)
    assert f'path = "{tmp_path}/mirror"' in config.read_text()
    (link,) = tmp_path.rglob("terraform-provider-kubectl_*")
    assert link.read_text() == "program"
    place = link.relative_to(tmp_path / "mirror").parts
    assert place[:3] == ("other.example", "gavinbunney", "kubectl")
    assert place[3] == PROVIDER.version
    assert cli_config(named, provider, tmp_path) == config, "again"


def test_nothing_is_built_in_an_empty_cache(tmp_path: Path) -> None:
    assert not is_built(tmp_path)
    assert not TFLINT.is_built(tmp_path)


def test_a_program_that_is_built_is_not_built_again(tmp_path: Path) -> None:
    program = TFLINT.path(tmp_path)
    assert program.parent.name.startswith(f"tflint-{TFLINT.version}-")
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    assert TFLINT.built(tmp_path, pytest.fail) == program


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--box"], "needs the name of a running box"),
        (["--box", "none-such"], "no box 'none-such'"),
        (["--release"], "needs one of terraform, tofu"),
        (["--release", "1.8"], "no release '1.8'"),
        (["--release", "tofu", "--box", "none-such"], "no box 'none-such'"),
    ],
)
def test_what_an_option_names_must_be_there(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(RELEASES))
def test_a_release_calls_itself_one(name: str) -> None:
    """A development version satisfies no `required_version`."""
    release = RELEASES[name]
    assert re.fullmatch(r"\d+\.\d+\.\d+", release.version)
    assert release.link_flags == f"-X {release.of or release.package}/version.dev=no"
