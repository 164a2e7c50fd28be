# Holdfast on Slinky's slurm-operator: values for its chart slurm, and the bridge.

terraform {
  required_version = ">= 1.8.0"

  required_providers {
    kubectl = {
      source  = "gavinbunney/kubectl"
      version = ">= 1.19.0, < 2.0.0"
    }
  }
}

provider "kubectl" {
  config_path      = var.kubeconfig
  load_config_file = true
}

module "values" {
  source = "../../modules/slinky"

  cluster = var.cluster
  image   = var.workers_image
  nodeset = "slinky"
  mounts  = ["/mnt/training"]
  checks  = var.checks
}

# The chart's release takes the values after your own, so that maps merge:
#
#   resource "helm_release" "slurm" {
#     name      = "slurm"
#     namespace = "slurm"
#     chart     = "oci://…/charts/slurm"
#     values    = [file("slurm.yaml"), module.values.values]
#   }

module "cluster" {
  source = "../../modules/cluster"

  cluster = var.cluster
  bridge  = { image = var.bridge_image }
}

output "values" {
  description = "Values of the chart slurm: `terraform output -raw values >holdfast-values.yaml`."
  value       = module.values.values
}
