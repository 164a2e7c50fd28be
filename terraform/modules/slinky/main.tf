# Values for Slinky's chart slurm (slurm-operator). This module creates nothing: hand the output to the
# helm_release that installs the chart, after your own values.

module "configuration" {
  source = "../configuration"

  cluster             = var.cluster
  gpus                = var.gpus
  nvswitches          = var.nvswitches
  mounts              = var.mounts
  history             = var.history
  checks              = var.checks
  extra_configuration = var.extra_configuration
}
