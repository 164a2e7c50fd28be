# Holdfast's objects in the sandbox's Kubernetes: `scripts/sandbox up`, then here
#
#   ../../../scripts/terraform init
#   ../../../scripts/terraform apply -var "kubeconfig=$(../../../scripts/sandbox kubeconfig)"

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

module "holdfast" {
  source = "../.."

  slurm_operator_version = "5.0.0"
  slurm_cluster_name     = "sandbox"
  slurm_nodeset_workers = [
    {
      name     = "worker"
      size     = 4
      resource = { platform = "gpu-h100-sxm", preset = "8gpu-128vcpu-1600gb" }
    }
  ]
  filesystem_jail_submounts = [{ name = "training", mount_path = "/mnt/training" }]

  checks        = var.checks
  kill_switches = var.kill_switches
  bridge        = { image = var.image }
  agent         = { image = var.image }

  # The sandbox has no kubelet: no pod starts.
  wait = false
}
