# `terraform test` in this folder: plans of the root module, without a cluster. What each wrong input
# prints is tested by tests/terraform/test_inputs.py.

mock_provider "kubectl" {}

variables {
  slurm_operator_version = "4.1.11"
  slurm_nodeset_workers = [
    { name = "worker", resource = { platform = "gpu-h100-sxm", preset = "8gpu-128vcpu-1600gb" } },
    { name = "cpu", resource = { platform = "cpu-d3", preset = "16vcpu-64gb" } },
  ]
  filesystem_jail_submounts = [
    { name = "training", mount_path = "/mnt/training" },
    { name = "inference", mount_path = "/mnt/inference/" },
  ]
}

run "mounts_are_those_of_slurmd" {
  command = plan

  assert {
    condition     = output.mounts == tolist(["/mnt/jail/mnt/training", "/mnt/jail/mnt/inference"])
    error_message = "mounts is ${jsonencode(output.mounts)}"
  }
  assert {
    condition     = output.nodesets == tolist(["worker"])
    error_message = "nodesets is ${jsonencode(output.nodesets)}"
  }
}

run "without_images_there_are_only_rights" {
  command = plan

  assert {
    condition     = length(output.manifests.bridge) == 0 && length(output.manifests.agent) == 0 && length(output.manifests.network) == 0
    error_message = "manifests has ${jsonencode(keys(output.manifests))}"
  }
}

run "a_check_is_armed" {
  command = plan

  variables {
    checks = { gpu_xid = { mode = "drain" } }
  }

  assert {
    condition     = yamldecode(yamldecode(yamldecode(output.soperator_values).data["values.yaml"]).slurmScripts.extra["holdfast.yaml"].content).checks.gpu_xid.mode == "drain"
    error_message = "gpu_xid is not armed"
  }
}

run "a_nodeset_that_does_not_exist" {
  command = plan

  variables {
    nodesets = ["gpu"]
  }

  expect_failures = [output.nodesets]
}

run "a_path_that_is_no_submount" {
  command = plan

  variables {
    mounts = ["/mnt/data"]
  }

  expect_failures = [output.mounts]
}

run "two_filesystems_on_one_mount" {
  command = plan

  variables {
    filesystem_jail_submounts = [
      { name = "a", mount_path = "/mnt/a" },
      { name = "b", mount_path = "/mnt/a" },
    ]
  }

  expect_failures = [var.filesystem_jail_submounts]
}

run "a_release_without_scripts" {
  command = plan

  variables {
    slurm_operator_version = "1.22.4"
  }

  expect_failures = [var.slurm_operator_version]
}
