output "values" {
  description = "What the templates that contain holdfast.yaml take."
  value       = local.values

  precondition {
    condition     = length(setsubtract(keys(var.checks), local.catalogue)) == 0
    error_message = "checks names ${jsonencode(setsubtract(keys(var.checks), local.catalogue))}: there is no such check. docs/reference/checks.md lists all of them."
  }
  precondition {
    condition     = length(local.extra_taken) == 0
    error_message = "extra_configuration has ${jsonencode(local.extra_taken)}: the input ${join(", ", distinct([for key in local.extra_taken : local.names.taken[key]]))} sets that (in the root module: slurm_cluster_name, mounts, history_path, checks; GPUs come from the presets)."
  }
  precondition {
    condition     = length(local.extra_unknown) == 0
    error_message = "extra_configuration has ${jsonencode(local.extra_unknown)}: there is no such key. docs/reference/configuration.md lists all of them."
  }
  precondition {
    condition     = !strcontains(jsonencode(var.extra_configuration), "{{")
    error_message = "extra_configuration has a text with two opening braces: Helm would take them for an action."
  }
}

output "catalogue" {
  description = "The names of all checks."
  value       = local.catalogue
}

output "text" {
  description = "holdfast.yaml. Check it with `holdfast config check FILE`."
  value       = templatefile("${path.module}/holdfast.yaml.tftpl", local.values)
}
