# Holdfast's configuration, holdfast.yaml. The template is generated from the one of
# `holdfast render configuration` (scripts/terraform_templates).

locals {
  catalogue = jsondecode(file("${path.module}/catalogue.json")).checks

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

  values = {
    cluster = var.cluster
    gpus    = var.gpus
    mounts  = join(", ", var.mounts)
    history = coalesce(var.history, "null")
    # Two braces would begin or end an action of a Helm template, where this text may go.
    checks = { for name, check in local.checks : name => replace(replace(jsonencode(check), "{{", "{ {"), "}}", "} }") }
  }
}
