# The text of Holdfast's objects in Kubernetes; no provider. The templates beside this file are
# generated from those of `holdfast render` (scripts/terraform_templates), so both describe the same.

locals {
  names = jsondecode(file("${path.module}/names.json"))

  agent_probe_period_s = 15

  # Lines that follow the last one of a section.
  extra      = try(merge(var.bridge.extra_configuration), {})
  slurm_more = [for key, value in try(local.extra.slurm, {}) : "\n  ${key}: ${jsonencode(value)}"]
  more = concat(
    [for key, value in try(local.extra.bridge, {}) : "\n  ${key}: ${jsonencode(value)}"],
    [for name, section in local.extra : "\n${name}: ${jsonencode(section)}" if !contains(["bridge", "slurm"], name)],
  )
  extra_keys    = concat(keys(local.extra), flatten([for name, section in local.extra : [for key in try(keys(section), []) : "${name}.${key}"]]))
  extra_unknown = [for key in local.extra_keys : key if length(split(".", key)) == 1 ? !contains(keys(local.names.keys), key) : !contains(try(local.names.keys[split(".", key)[0]], []), split(".", key)[1])]
  extra_taken   = [for key in local.extra_keys : key if contains(keys(local.names.taken), key)]

  # The namespaces whose workloads the bridge restarts; only there it gets rights for that.
  workload_namespaces = try(toset(local.extra.bridge.workloads.namespaces), toset([]))

  agent_script = var.agent == null ? "" : templatefile("${path.module}/agent.sh.tftpl", {
    home     = var.agent.home
    config   = var.agent.config
    programs = join(" ", var.agent.slurmd)
  })

  rest_port = try([tonumber(regex(":([0-9]+)$", var.bridge.rest_url)[0])], [])

  # Group => whether it is wanted. A group is a folder with one template for each object.
  groups = {
    rights  = true
    network = var.bridge != null
    off     = length(var.kill_switches) > 0
    bridge  = var.bridge != null
    agent   = var.agent != null

    worker_pods = try(var.bridge.worker_pods, null) != null

    alerts        = var.monitoring != null
    bridge_alerts = var.monitoring != null && var.bridge != null
    bridge_scrape = var.monitoring != null && var.bridge != null
    agent_scrape  = try(var.monitoring.agent_pods, null) != null
    dashboards    = try(var.monitoring.dashboards, false)
  }

  # Holdfast's own labels win.
  labels = { for name in ["agent", "bridge", "dashboard-cluster", "dashboard-job", "dashboard-node"] : name => merge(
    try(var.monitoring.labels, {}),
    {
      "app.kubernetes.io/name"    = "holdfast-${name}"
      "app.kubernetes.io/part-of" = "holdfast"
      "app.kubernetes.io/version" = local.names.version
    },
  ) }
  monitoring = {
    namespace       = var.namespace
    interval_s      = try(var.monitoring.interval_s, 30)
    drained_percent = try(var.monitoring.drained_percent, 10)
  }

  values = {
    rights = {
      namespace = var.namespace
      cordon    = try(var.bridge.cordon, true)
      taint     = try(var.bridge.taint, true)
    }
    workloads = { namespace = var.namespace }
    worker_pods = {
      namespace        = var.namespace
      worker_namespace = try(var.bridge.worker_pods.namespace, "")
      labels           = try(var.bridge.worker_pods.labels, {})
    }
    network = {
      namespace    = var.namespace
      metrics_port = try(var.bridge.metrics_port, 9646)
      ports = concat(
        [for protocol in ["UDP", "TCP"] : { port = 53, protocol = protocol }],
        [for port in distinct(concat(var.network_policy_ports, local.rest_port)) : { port = port, protocol = "TCP" }],
      )
    }
    off = {
      namespace = var.namespace
      switches  = { for name in var.kill_switches : name => "" }
    }
    bridge = merge(try(merge(var.bridge), {}), {
      namespace  = var.namespace
      cluster    = var.cluster
      token_file = try(var.bridge.auth, "") == "token" ? "${var.bridge.auth_path}/token" : ""
      auth_image = try(coalesce(var.bridge.auth_image, var.bridge.image), "")
      join       = try(length(var.bridge.nodes) > 0, false) ? "table" : "instance_id"
      slurm_more = join("", local.slurm_more)
      more       = join("", local.more)

      worker_pods_namespace = try(var.bridge.worker_pods.namespace, "")
    })
    alerts        = merge(local.monitoring, { labels = local.labels["agent"] })
    bridge_alerts = merge(local.monitoring, { labels = local.labels["bridge"] })
    bridge_scrape = merge(local.monitoring, { labels = local.labels["bridge"] })
    agent_scrape = merge(local.monitoring, {
      labels         = local.labels["agent"]
      pods           = try(var.monitoring.agent_pods.labels, {})
      pods_namespace = try(var.monitoring.agent_pods.namespace, "")
      port           = try(var.monitoring.agent_pods.port, 9645)
    })
    dashboards = merge(local.monitoring, {
      labels = { for name in ["cluster", "job", "node"] : name => merge(local.labels["dashboard-${name}"], { grafana_dashboard = "1" }) }
    })
    agent = merge(try(merge(var.agent), {}), {
      namespace      = var.namespace
      script         = local.agent_script
      digest         = substr(sha256(local.agent_script), 0, 12)
      silent_periods = try(ceil(var.agent.silent_s / local.agent_probe_period_s), 0)
    })
  }
}
