output "namespace" {
  description = "Namespace of the bridge and the agent."
  value       = var.namespace
}

output "manifests" {
  description = "The text of every object, by group and name, as `holdfast render` prints it."
  value       = local.manifests
}
