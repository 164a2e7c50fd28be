output "manifests" {
  description = "Group => kind and name => the object's text. The namespace itself is in the group rights."
  value = merge({
    workloads = merge([
      for name in local.workload_namespaces : {
        for file in fileset("${path.module}/workloads", "*.yaml.tftpl") :
        "${trimsuffix(file, ".yaml.tftpl")}-${name}" => templatefile("${path.module}/workloads/${file}", merge(local.values.workloads, { workload_namespace = name }))
      }
    ]...)
    }, {
    for group, wanted in local.groups : group => {
      for file in fileset("${path.module}/${group}", "*.yaml.tftpl") :
      trimsuffix(file, ".yaml.tftpl") => templatefile("${path.module}/${group}/${file}", local.values[group])
      if wanted
    }
  })

  precondition {
    condition     = length(local.extra_taken) == 0
    error_message = "bridge.extra_configuration has ${jsonencode(local.extra_taken)}: the attribute of bridge ${jsonencode(distinct([for key in local.extra_taken : local.names.taken[key]]))} sets that; an empty name means that it is fixed."
  }
  precondition {
    condition     = length(local.extra_unknown) == 0
    error_message = "bridge.extra_configuration has ${jsonencode(local.extra_unknown)}: the bridge reads no such key. Use keys of bridge, node, paths and slurm (docs/reference/configuration.md)."
  }
}
