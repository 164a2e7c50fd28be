output "manifests" {
  description = "Group => kind and name => the object's text. The namespace itself is in the group rights."
  value = {
    for group, wanted in local.groups : group => {
      for file in fileset("${path.module}/${group}", "*.yaml.tftpl") :
      trimsuffix(file, ".yaml.tftpl") => templatefile("${path.module}/${group}/${file}", local.values[group])
      if wanted
    }
  }
}
