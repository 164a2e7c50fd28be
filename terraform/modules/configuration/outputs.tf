output "values" {
  description = "What the templates that contain holdfast.yaml take."
  value       = local.values

  precondition {
    condition     = length(setsubtract(keys(var.checks), local.catalogue)) == 0
    error_message = "checks names ${jsonencode(setsubtract(keys(var.checks), local.catalogue))}: there is no such check. docs/reference/checks.md lists all of them."
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
