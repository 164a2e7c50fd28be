# Applies the objects of manifests/, in order: rights before the pods that use them. They are Holdfast's
# own: what somebody else changed in them is changed back (force_conflicts); the plan shows it first.

module "manifests" {
  source = "./manifests"

  cluster              = var.cluster
  namespace            = var.namespace
  bridge               = var.bridge
  agent                = var.agent
  monitoring           = var.monitoring
  kill_switches        = var.kill_switches
  network_policy_ports = var.network_policy_ports
}

locals {
  manifests = module.manifests.manifests
}

resource "kubectl_manifest" "namespace" {
  count = var.create_namespace ? 1 : 0

  yaml_body         = local.manifests.rights["namespace"]
  server_side_apply = true
  force_conflicts   = true
  wait              = var.wait
}

resource "kubectl_manifest" "rights" {
  for_each = { for name, text in local.manifests.rights : name => text if name != "namespace" }

  yaml_body         = each.value
  server_side_apply = true
  force_conflicts   = true

  depends_on = [kubectl_manifest.namespace]
}

# In namespaces of workloads, which exist: only with bridge.workloads in the bridge's extra_configuration.
resource "kubectl_manifest" "workloads" {
  for_each = local.manifests.workloads

  yaml_body         = each.value
  server_side_apply = true
  force_conflicts   = true

  depends_on = [kubectl_manifest.rights]
}

# In the namespace of Slurm's worker pods, which exists: only with bridge.worker_pods.
resource "kubectl_manifest" "worker_pods" {
  for_each = local.manifests.worker_pods

  yaml_body         = each.value
  server_side_apply = true
  force_conflicts   = true

  depends_on = [kubectl_manifest.rights]
}

resource "kubectl_manifest" "network" {
  for_each = { for name, text in local.manifests.network : name => text if var.network_policy }

  yaml_body         = each.value
  server_side_apply = true
  force_conflicts   = true

  depends_on = [kubectl_manifest.namespace]
}

resource "kubectl_manifest" "off" {
  for_each = local.manifests.off

  yaml_body         = each.value
  server_side_apply = true
  force_conflicts   = true

  depends_on = [kubectl_manifest.namespace]
}

resource "kubectl_manifest" "monitoring" {
  for_each = merge([
    for group in ["alerts", "bridge_alerts", "bridge_scrape", "agent_scrape", "dashboards"] : local.manifests[group]
  ]...)

  yaml_body         = each.value
  server_side_apply = true
  force_conflicts   = true

  depends_on = [kubectl_manifest.namespace]
}

resource "kubectl_manifest" "bridge" {
  for_each = local.manifests.bridge

  yaml_body         = each.value
  server_side_apply = true
  force_conflicts   = true
  wait_for_rollout  = var.wait

  # On destroy the bridge ends before its rights do.
  depends_on = [
    kubectl_manifest.rights,
    kubectl_manifest.workloads,
    kubectl_manifest.worker_pods,
    kubectl_manifest.network,
    kubectl_manifest.off,
  ]
}

resource "kubectl_manifest" "agent" {
  for_each = local.manifests.agent

  yaml_body         = each.value
  server_side_apply = true
  force_conflicts   = true
  wait_for_rollout  = var.wait

  depends_on = [kubectl_manifest.namespace]
}
