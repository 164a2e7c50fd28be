output "manifest" {
  description = "The ConfigMap slurm-cluster in flux-system, as `holdfast render soperator --set as=flux` prints it."
  value       = local.manifest

  precondition {
    condition     = length(setsubtract(var.kill_switches, concat(module.configuration.catalogue, ["all"]))) == 0
    error_message = "kill_switches names ${jsonencode(setsubtract(var.kill_switches, concat(module.configuration.catalogue, ["all"])))}: there is no such check. Use names of checks (docs/reference/checks.md) or \"all\"."
  }
}

output "values" {
  description = "The values in it, for a chart that is installed without Flux."
  value       = yamldecode(local.manifest).data["values.yaml"]
}

output "nodeset_values" {
  description = "What to add to each GPU entry of `nodesets`: the folder of the host that outlives a pod."
  value       = templatefile("${path.module}/nodeset.yaml.tftpl", {})
}
