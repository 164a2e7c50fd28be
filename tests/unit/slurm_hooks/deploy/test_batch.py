"""The batch scripts of ``holdfast render sbatch`` are correct shell, and resume as their frameworks do."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from holdfast.cli.commands.render import render_text
from slurm_hooks.deploy.batch import _FRAMEWORKS
from slurm_hooks.job.resume.argument import refusal

TORCHRUN = ("torchrun", "megatron", "deepspeed", "hf")


def script(framework: str) -> str:
    return render_text("sbatch", framework=framework, nodes="4")


@pytest.mark.parametrize("framework", _FRAMEWORKS)
def test_a_script_is_correct_shell(framework: str) -> None:
    text = script(framework)
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n\n\n" not in text
    assert "#SBATCH --requeue\n#SBATCH --open-mode=append\n" in text


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="needs shellcheck")
@pytest.mark.parametrize("framework", _FRAMEWORKS)
def test_shellcheck_has_no_remark(framework: str) -> None:
    argv = ["shellcheck", "--severity=style", "-"]
    done = subprocess.run(
        argv, input=script(framework), text=True, capture_output=True, check=False
    )
    assert done.stdout == ""


@pytest.mark.parametrize("framework", _FRAMEWORKS)
def test_one_task_for_each_node_where_torchrun_starts_the_ranks(framework: str) -> None:
    tasks = 1 if framework in TORCHRUN else 8
    text = script(framework)
    assert f"#SBATCH --ntasks-per-node={tasks}\n" in text
    assert ("srun torchrun" in text) == (framework in TORCHRUN)


@pytest.mark.parametrize("framework", ["megatron", "lightning", "hf"])
def test_placeholders_are_arguments_of_their_own(framework: str) -> None:
    line = script(framework).partition(" -- ")[2].replace("\\\n", " ")
    words = [word.replace("'", "") for word in re.split(r"\s+", line) if "{" in word]
    assert words
    assert refusal(["srun", *words]) == ""
