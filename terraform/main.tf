# Holdfast in a cluster that Soperator's recipe deploys. The recipe's variables are passed on as they are.

locals {
  jail = "/mnt/jail"

  gpus_of = {
    for one in var.slurm_nodeset_workers : one.name => try(tonumber(regex("^([0-9]+)gpu-", one.resource.preset)[0]), 0)
  }
  with_gpus = [for name, gpus in local.gpus_of : name if gpus > 0]
  nodesets  = coalesce(var.nodesets, local.with_gpus)
  gpus      = distinct([for name in local.nodesets : lookup(local.gpus_of, name, 0)])

  filesystems = concat(var.filesystem_jail_submounts, var.filestore_jail_submounts)
  submounts   = [for one in local.filesystems : trimsuffix(one.mount_path, "/")]
  mounts      = var.mounts == null ? local.submounts : [for path in var.mounts : trimsuffix(path, "/")]

  # What slurmd sees: the jail's submounts are below the jail.
  mounts_of_slurmd  = distinct([for path in local.mounts : "${local.jail}${path}"])
  history_of_slurmd = var.history_path == null ? null : "${local.jail}${var.history_path}"
}

module "soperator" {
  source = "./modules/soperator"

  cluster             = var.slurm_cluster_name
  gpus                = try(local.gpus[0], 0)
  nvswitches          = var.nvswitches
  mounts              = local.mounts_of_slurmd
  history             = local.history_of_slurmd
  checks              = var.checks
  extra_configuration = var.extra_configuration
  kill_switches       = setsubtract(var.kill_switches, ["bridge"])

  slurm_operator_version = var.slurm_operator_version
}

module "cluster" {
  source = "./modules/cluster"

  cluster              = var.slurm_cluster_name
  namespace            = var.namespace
  create_namespace     = var.create_namespace
  bridge               = var.bridge
  agent                = var.agent
  monitoring           = var.monitoring
  kill_switches        = setintersection(var.kill_switches, ["bridge", "all"])
  network_policy       = var.network_policy
  network_policy_ports = var.network_policy_ports
  wait                 = var.wait
}
