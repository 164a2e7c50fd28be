"""Slurm's configuration of a box."""

from __future__ import annotations

import dataclasses

import pytest
from testbed.shape import Shape
from testbed.startup.slurm_conf import gres_conf, hosts, slurm_conf, slurm_files


def settings(text: str) -> dict[str, str]:
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    single = (line for line in lines if not line.startswith(("NodeName", "Partition")))
    return dict(line.split("=", 1) for line in single)


@pytest.fixture
def four() -> Shape:
    return Shape(name="b", nodes=4, slurm="24.11", root="/r", hooks=True)


def test_the_requeue_delay_stays_at_slurms_default(four: Shape) -> None:
    assert "cred_expire" not in slurm_conf(four)


def test_settings_that_the_product_relies_on_are_those_of_soperator(four: Shape) -> None:
    conf = settings(slurm_conf(four))
    wanted = {"JobRequeue": "1", "KillOnBadExit": "1", "ReturnToService": "2", "WaitTime": "0"}
    assert wanted.items() <= conf.items()
    assert "nohold_on_prolog_fail" in conf["SchedulerParameters"].split(",")


def test_hooks_are_configured_only_with_the_product(four: Shape) -> None:
    conf = settings(slurm_conf(four))
    assert conf["Prolog"] == "/opt/holdfast/hooks/prolog"
    assert conf["HealthCheckNodeState"] == "ANY"
    bare = Shape(name="b", nodes=1, slurm="24.11", root="/r")
    assert "/opt/holdfast" not in slurm_conf(bare)
    # What `holdfast render slurm-conf` has to add is missing, and what needs it.
    assert "PrologFlags" not in settings(slurm_conf(bare))
    assert "nohold_on_prolog_fail" not in slurm_conf(bare)
    assert "enable_stepmgr" not in slurm_conf(bare)
    assert "enable_stepmgr" in settings(slurm_conf(four))["SlurmctldParameters"]


def test_with_pods_the_daemonset_starts_the_agents_and_not_the_health_check(four: Shape) -> None:
    conf = settings(slurm_conf(dataclasses.replace(four, pods=(("root", "/machine"),))))
    assert conf["Epilog"] == "/opt/holdfast/hooks/epilog"
    assert not [name for name in conf if name.startswith("HealthCheck")]


@pytest.mark.parametrize(("auth", "cred"), [("munge", "cred/munge"), ("slurm", "auth/slurm")])
def test_all_daemons_authenticate_alike(four: Shape, auth: str, cred: str) -> None:
    files = slurm_files(dataclasses.replace(four, auth=auth))
    conf, database = settings(files["slurm.conf"]), settings(files["slurmdbd.conf"])
    assert (conf["AuthType"], conf["CredType"]) == (f"auth/{auth}", cred)
    assert database["AuthType"] == conf["AuthType"]


def test_each_node_is_in_every_file(four: Shape) -> None:
    for node in four.node_names:
        assert f"NodeName={node} " in slurm_conf(four)
        assert f"NodeName={node} Name=gpu Type=h100 File=/dev/nvidia[0-7]" in gres_conf(four)
        assert any(line.split()[1] == node for line in hosts(four).splitlines())


def test_no_setting_is_given_twice(four: Shape) -> None:
    for name, text in slurm_files(four).items():
        keys = [line.split("=")[0] for line in text.splitlines() if "=" in line and line[0] != "#"]
        single = [key for key in keys if key not in ("NodeName", "PartitionName")]
        assert len(single) == len(set(single)), name
