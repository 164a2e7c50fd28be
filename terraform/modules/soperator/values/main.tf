# The text of the ConfigMap slurm-cluster, which Flux merges into the values of the chart slurm-cluster;
# no provider. The templates are generated from those of `holdfast render` (scripts/terraform_templates).

module "configuration" {
  source = "../../configuration"

  cluster             = var.cluster
  gpus                = var.gpus
  nvswitches          = var.nvswitches
  mounts              = var.mounts
  history             = var.history
  checks              = var.checks
  extra_configuration = var.extra_configuration
}

locals {
  manifest = templatefile("${path.module}/slurm-cluster.yaml.tftpl", merge(module.configuration.values, {
    switches = var.kill_switches
  }))
}
