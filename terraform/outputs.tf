# Inputs that contradict each other are refused here: a variable's own validation sees only that variable.

output "nodesets" {
  description = "Nodesets that Holdfast watches."
  value       = local.nodesets

  precondition {
    condition     = length(setsubtract(local.nodesets, keys(local.gpus_of))) == 0
    error_message = "nodesets names ${jsonencode(setsubtract(local.nodesets, keys(local.gpus_of)))}, which slurm_nodeset_workers does not have: use some of ${jsonencode(keys(local.gpus_of))}."
  }
  precondition {
    condition     = length(local.nodesets) > 0
    error_message = "No nodeset of slurm_nodeset_workers has GPUs (presets ${jsonencode(var.slurm_nodeset_workers[*].resource.preset)}). Name the nodesets to watch in nodesets."
  }
  precondition {
    condition     = length(local.gpus) <= 1
    error_message = "The nodesets ${jsonencode(local.nodesets)} have ${join(" and ", local.gpus)} GPUs, and Holdfast's configuration has one number. Name those with the same number in nodesets."
  }
}

output "mounts" {
  description = "Mounts that Holdfast watches, as slurmd sees them."
  value       = local.mounts_of_slurmd

  precondition {
    condition     = length(setsubtract(local.mounts, local.submounts)) == 0
    error_message = "mounts has ${jsonencode(setsubtract(local.mounts, local.submounts))}, which is no submount: use some of ${jsonencode(local.submounts)}, the mount_path of filesystem_jail_submounts."
  }
  precondition {
    condition     = length(var.filesystem_jail_submounts) == 0 || length(var.filestore_jail_submounts) == 0
    error_message = "filesystem_jail_submounts and filestore_jail_submounts are both set (${jsonencode(local.submounts)}): pass the one that your recipe has."
  }
  precondition {
    condition     = var.history_path == null ? true : anytrue([for path in local.submounts : startswith(var.history_path, "${path}/")])
    error_message = "history_path is \"${coalesce(var.history_path, "null")}\", which is on no submount: use a folder below one of ${jsonencode(local.submounts)}, for example \"${try(local.submounts[0], "/mnt/training")}/holdfast-history\"."
  }
}

output "soperator_values" {
  description = "The ConfigMap slurm-cluster that Flux merges, as `holdfast render soperator --set as=flux` prints it."
  value       = module.soperator.manifest
}

output "nodeset_values" {
  description = "What to add to each GPU entry of `nodesets`: the folder of the host that outlives a worker's pod."
  value       = module.soperator.nodeset_values
}

output "manifests" {
  description = "The other objects, by group and name, as `holdfast render` prints them."
  value       = module.cluster.manifests
}
