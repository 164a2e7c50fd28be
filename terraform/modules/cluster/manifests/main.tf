# The text of Holdfast's objects in Kubernetes; no provider. The templates beside this file are
# generated from those of `holdfast render` (scripts/terraform_templates), so both describe the same.

locals {
  agent_probe_period_s = 15

  agent_script = var.agent == null ? "" : templatefile("${path.module}/agent.sh.tftpl", {
    home     = var.agent.home
    config   = var.agent.config
    programs = join(" ", var.agent.slurmd)
  })

  # Group => whether it is wanted. A group is a folder with one template for each object.
  groups = {
    rights  = true
    network = var.bridge != null
    off     = length(var.kill_switches) > 0
    bridge  = var.bridge != null
    agent   = var.agent != null
  }

  values = {
    rights = {
      namespace = var.namespace
      cordon    = try(var.bridge.cordon, true)
      taint     = try(var.bridge.taint, true)
    }
    network = {
      namespace    = var.namespace
      metrics_port = try(var.bridge.metrics_port, 9646)
      ports = concat(
        [for protocol in ["UDP", "TCP"] : { port = 53, protocol = protocol }],
        [for port in var.network_policy_ports : { port = port, protocol = "TCP" }],
      )
    }
    off = {
      namespace = var.namespace
      switches  = { for name in var.kill_switches : name => "" }
    }
    bridge = merge(try(merge(var.bridge), {}), {
      namespace  = var.namespace
      cluster    = var.cluster
      token_file = try(var.bridge.auth == "jwt" ? "${var.bridge.auth_path}/token" : "", "")
    })
    agent = merge(try(merge(var.agent), {}), {
      namespace      = var.namespace
      script         = local.agent_script
      digest         = substr(sha256(local.agent_script), 0, 12)
      silent_periods = try(ceil(var.agent.silent_s / local.agent_probe_period_s), 0)
    })
  }
}
