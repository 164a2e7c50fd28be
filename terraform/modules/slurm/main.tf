# Files of a node of plain Slurm, and the lines of slurm.conf. This module creates nothing: Terraform
# has no connection to the nodes. Hand the outputs to what configures them (cloud-init, Ansible, an image).

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

locals {
  configuration_path = "/etc/holdfast/holdfast.yaml"

  files = {
    (local.configuration_path) = module.configuration.text
    "/etc/systemd/system/holdfast-agent.service" = templatefile("${path.module}/holdfast-agent.service.tftpl", {
      home       = var.home
      config     = local.configuration_path
      watchdog_s = var.watchdog_s
    })
  }
}
