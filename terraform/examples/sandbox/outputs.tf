output "soperator_values" {
  description = "The ConfigMap that Flux would merge."
  value       = module.holdfast.soperator_values
}

output "manifests" {
  description = "The other objects, by group and name."
  value       = module.holdfast.manifests
}
