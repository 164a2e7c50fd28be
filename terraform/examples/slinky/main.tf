# Holdfast on Slinky's slurm-operator: values for its chart slurm, and the bridge beside the cluster.

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

# The operator writes the bridge's token into the Secret slurm-auth, and renews it. Operator 1.0:
# jwtHs256KeyRef = { name = "slurm-auth-jwths256", key = "jwt_hs256.key" }
resource "kubectl_manifest" "token" {
  count = var.bridge_image == null ? 0 : 1

  yaml_body = yamlencode({
    apiVersion = "slinky.slurm.net/v1beta1"
    kind       = "Token"
    metadata   = { name = "holdfast", namespace = var.namespace }
    spec = {
      username  = "holdfast"
      jwtKeyRef = { name = "slurm-auth-jwt", key = "jwt.key" }
      secretRef = { name = "slurm-auth", key = "token" }
    }
  })
  server_side_apply = true
}

module "cluster" {
  source = "../../modules/cluster"

  cluster          = var.cluster
  namespace        = var.namespace
  create_namespace = false
  kill_switches    = var.kill_switches

  bridge = var.bridge_image == null ? null : {
    image                = var.bridge_image
    slurm_conf_configmap = var.slurm_conf_configmap
  }

  depends_on = [kubectl_manifest.token]
}

output "values" {
  description = "Values of the chart slurm: `terraform output -raw values >holdfast-values.yaml`."
  value       = module.values.values
}
