output "values" {
  description = "Values of the chart slurm, to be added to yours."
  value = templatefile("${path.module}/values.yaml.tftpl", merge(module.configuration.values, {
    image                   = var.image
    nodeset                 = var.nodeset
    health_check_interval_s = var.health_check_interval_s
  }))
}
