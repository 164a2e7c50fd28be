# Holdfast in a cluster of Soperator's recipe: the ConfigMap slurm-cluster in flux-system. Without the
# provider kubectl: use values/ and apply its output by other means.

module "values" {
  source = "./values"

  cluster             = var.cluster
  gpus                = var.gpus
  nvswitches          = var.nvswitches
  mounts              = var.mounts
  history             = var.history
  checks              = var.checks
  extra_configuration = var.extra_configuration
  kill_switches       = var.kill_switches
}

resource "kubectl_manifest" "slurm_cluster" {
  yaml_body         = module.values.manifest
  server_side_apply = true
  # Not forced: a ConfigMap of this name may be yours. Then apply ends with a conflict, and nothing changes.
  force_conflicts = false
}
