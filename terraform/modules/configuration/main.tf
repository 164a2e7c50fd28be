# Holdfast's configuration, holdfast.yaml. The template is generated from the one of
# `holdfast render configuration` (scripts/terraform_templates).

locals {
  names     = jsondecode(file("${path.module}/catalogue.json"))
  catalogue = local.names.checks

  nvswitches = coalesce(var.nvswitches, var.gpus == 8 ? 4 : 0)

  # An HGX node cannot find out by itself how many NVSwitches it should have.
  known_limits = local.nvswitches == 0 ? {} : { pci_devices = { nvswitches = tostring(local.nvswitches) } }

  limits = {
    for name in local.catalogue : name => merge(
      try(local.known_limits[name], {}),
      try(var.checks[name].limits, {}),
    )
  }

  checks = {
    for name in local.catalogue : name => merge(
      { mode = try(var.checks[name].mode, "observe") },
      # A limit is a number, a list or a text: numbers and lists are written as in JSON.
      length(local.limits[name]) == 0 ? {} : { limits = { for key, value in local.limits[name] : key => try(jsondecode(value), value) } },
    )
  }

  # Lines that follow node.budget: the other keys of node, then the other sections.
  more = concat(
    [for key, value in try(var.extra_configuration.node, {}) : "\n  ${key}: ${jsonencode(value)}" if key != "budget"],
    [for name, section in var.extra_configuration : "\n${name}: ${jsonencode(section)}" if name != "node"],
  )
  extra_keys    = concat(keys(var.extra_configuration), flatten([for name, section in var.extra_configuration : [for key in try(keys(section), []) : "${name}.${key}"]]))
  extra_unknown = [for key in local.extra_keys : key if length(split(".", key)) == 1 ? !contains(concat(keys(local.names.keys), keys(local.names.taken)), key) : !contains(try(local.names.keys[split(".", key)[0]], [split(".", key)[1]]), split(".", key)[1])]
  extra_taken   = [for key in local.extra_keys : key if contains(keys(local.names.taken), key)]

  values = {
    cluster = var.cluster
    gpus    = var.gpus
    mounts  = join(", ", var.mounts)
    history = coalesce(var.history, "null")
    # Two braces would begin or end an action of a Helm template, where this text may go.
    checks = { for name, check in local.checks : name => replace(replace(jsonencode(check), "{{", "{ {"), "}}", "} }") }
    budget = jsonencode(try(var.extra_configuration.node.budget, { max_nodes = 2, max_share = 0.1 }))
    more   = replace(join("", local.more), "}}", "} }")
  }
}
