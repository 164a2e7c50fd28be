output "files" {
  description = "Path => text of each file that every node needs, besides Holdfast itself."
  value       = local.files
}

output "slurm_conf" {
  description = "The lines of slurm.conf that call the hooks. A second PrologFlags or SchedulerParameters line replaces the first: `holdfast render slurm-conf --set onto=FILE` merges them into a file."
  value = templatefile("${path.module}/slurm.conf.tftpl", {
    hooks                   = "${var.home}/hooks"
    health_check_interval_s = var.health_check_interval_s
  })
}

output "cloud_init" {
  description = "The files as user data of cloud-init, for nodes that Terraform creates."
  value = "#cloud-config\n${yamlencode({
    write_files = [for path, text in local.files : { path = path, permissions = "0644", content = text }]
    runcmd      = [["systemctl", "daemon-reload"], ["systemctl", "enable", "--now", "holdfast-agent.service"]]
  })}"
}
