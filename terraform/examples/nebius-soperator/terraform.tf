# In the recipe: add kubectl to required_providers of its terraform.tf, and the provider block below.

terraform {
  required_version = ">= 1.8.0"

  required_providers {
    kubectl = {
      source  = "gavinbunney/kubectl"
      version = ">= 1.19.0, < 2.0.0"
    }
  }
}

# The same cluster and credentials as those of the recipe's provider "kubernetes":
#
#   host                   = module.k8s.control_plane.public_endpoint
#   cluster_ca_certificate = module.k8s.control_plane.cluster_ca_certificate
#   load_config_file       = false
#   exec {
#     api_version = local.kubernetes_exec.api_version
#     command     = local.kubernetes_exec.command
#     args        = local.kubernetes_exec.args
#   }
provider "kubectl" {
  config_path      = var.kubeconfig
  load_config_file = true
}
