# Holdfast in an installation of Nebius' recipe: one more file beside its main.tf. The variables in
# variables.tf here are the recipe's own: leave that file out there.

module "holdfast" {
  source = "../.."

  slurm_operator_version    = var.slurm_operator_version
  slurm_nodeset_workers     = var.slurm_nodeset_workers
  filestore_jail_submounts  = var.filestore_jail_submounts
  filesystem_jail_submounts = var.filesystem_jail_submounts

  slurm_cluster_name = var.company_name
  history_path       = "/mnt/training/holdfast-history"

  # Every check observes and changes nothing. Raise one at a time: docs/howto/daily.md
  checks = var.holdfast_checks

  bridge = var.holdfast_image == null ? null : {
    image = var.holdfast_image
  }
}

output "holdfast_nodeset_values" {
  description = "Lines for each GPU entry of nodesets in modules/slurm/templates/helm_values/flux_release_nodesets.yaml.tftpl."
  value       = module.holdfast.nodeset_values
}
