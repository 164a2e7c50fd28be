# Holdfast's objects in the sandbox's Kubernetes. As root, in a checkout:
#
#   scripts/sandbox up --pods
#   scripts/terraform --box default -chdir=terraform/examples/sandbox init
#   scripts/terraform --box default -chdir=terraform/examples/sandbox apply
#
# In a box without --pods (then create the namespace flux-system first) the objects exist and no pod starts.

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

locals {
  namespace = "holdfast"
  labels    = { "app.kubernetes.io/part-of" = "holdfast" }

  # What only a person with access to Slurm has. Without it the module makes the namespace, as elsewhere.
  has_slurm = nonsensitive(var.slurm_conf != "" && var.slurm_token != "")
}

# The bridge's pod starts once these exist, so they come first.
resource "kubectl_manifest" "namespace" {
  count = local.has_slurm ? 1 : 0

  yaml_body = yamlencode({
    apiVersion = "v1"
    kind       = "Namespace"
    metadata   = { name = local.namespace, labels = local.labels }
  })
  server_side_apply = true
  wait              = true
}

resource "kubectl_manifest" "slurm_conf" {
  count = local.has_slurm ? 1 : 0

  yaml_body = yamlencode({
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = { name = "slurm-conf", namespace = local.namespace, labels = local.labels }
    data       = { "slurm.conf" = var.slurm_conf }
  })
  server_side_apply = true

  depends_on = [kubectl_manifest.namespace]
}

resource "kubectl_manifest" "slurm_auth" {
  count = local.has_slurm ? 1 : 0

  yaml_body = yamlencode({
    apiVersion = "v1"
    kind       = "Secret"
    metadata   = { name = "slurm-auth", namespace = local.namespace, labels = local.labels }
    data = {
      (var.slurm_auth == "token" ? "token" : "${var.slurm_auth}.key") = var.slurm_auth == "token" ? base64encode(var.slurm_token) : var.slurm_key
    }
  })
  server_side_apply = true

  depends_on = [kubectl_manifest.namespace]
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

  create_namespace = !local.has_slurm
  checks           = var.checks
  kill_switches    = var.kill_switches
  agent            = { image = var.agent_image }

  # The uid of the user holdfast in a box.
  bridge = { image = var.bridge_image, poll_s = var.poll_s, uid = 2004, auth = var.slurm_auth }

  # Without a kubelet no pod starts, and there is nothing to wait for.
  wait = local.has_slurm

  depends_on = [kubectl_manifest.slurm_conf, kubectl_manifest.slurm_auth]
}
