output "manifest" {
  description = "The ConfigMap that Flux merges, as `holdfast render soperator --set as=flux` prints it."
  value       = module.values.manifest
}

output "nodeset_values" {
  description = "What to add to each GPU entry of `nodesets`: the folder of the host that outlives a pod."
  value       = module.values.nodeset_values
}
