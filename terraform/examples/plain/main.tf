# Holdfast on plain Slurm: the files of a node and the lines of slurm.conf. No provider: Terraform writes
# no file on a node. Use the outputs where you configure nodes.

terraform {
  required_version = ">= 1.8.0"
}

module "holdfast" {
  source = "../../modules/slurm"

  cluster = "h100"
  gpus    = 8
  mounts  = ["/mnt/training"]
  history = "/mnt/training/holdfast-history"
  checks  = var.checks
}

variable "checks" {
  description = "Modes and limits of checks; see modules/configuration."
  type        = map(object({ mode = optional(string, "observe"), limits = optional(map(string), {}) }))
  default     = {}
}

output "files" {
  description = "Path => text of each file of a node: `terraform output -json files`."
  value       = module.holdfast.files
}

output "slurm_conf" {
  description = "The lines of slurm.conf: `terraform output -raw slurm_conf`."
  value       = module.holdfast.slurm_conf
}

output "cloud_init" {
  description = "User data for nodes that Terraform creates: `terraform output -raw cloud_init`."
  value       = module.holdfast.cloud_init
}
