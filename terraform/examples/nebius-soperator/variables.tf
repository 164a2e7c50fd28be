variable "kubeconfig" {
  description = "Path of a kubeconfig of the cluster."
  type        = string
  default     = "~/.kube/config"

  validation {
    condition     = fileexists(pathexpand(var.kubeconfig))
    error_message = "kubeconfig is \"${var.kubeconfig}\", and there is no such file: write one with `nebius mk8s cluster get-credentials`, or use the provider block in the comment of terraform.tf."
  }
}

variable "holdfast_image" {
  description = "Image of the bridge, by digest. null: no bridge yet."
  type        = string
  default     = null
}

variable "holdfast_checks" {
  description = "Modes and limits of checks; see the input checks of the root module."
  type        = map(object({ mode = optional(string, "observe"), limits = optional(map(string), {}) }))
  default     = {}
}

# From here on: variables of the recipe, with the demo's values.

variable "company_name" {
  description = "Name of the cluster."
  type        = string
  default     = "demo"
}

variable "slurm_operator_version" {
  description = "Release of Soperator."
  type        = string
  default     = "4.1.11"
}

variable "slurm_nodeset_workers" {
  description = "The worker nodesets."
  type = list(object({
    name        = string
    size        = number
    resource    = object({ platform = string, preset = string })
    boot_disk   = object({ type = string, size_gibibytes = number, block_size_kibibytes = number })
    gpu_cluster = optional(object({ infiniband_fabric = string }))
  }))
  default = [
    {
      name        = "worker"
      size        = 2
      resource    = { platform = "gpu-h100-sxm", preset = "8gpu-128vcpu-1600gb" }
      boot_disk   = { type = "NETWORK_SSD", size_gibibytes = 512, block_size_kibibytes = 4 }
      gpu_cluster = { infiniband_fabric = "fabric-6" }
    }
  ]
}

variable "filestore_jail_submounts" {
  description = "Shared filesystems below the jail, in recipes before filesystem_jail_submounts."
  type = list(object({
    name       = string
    mount_path = string
    existing   = optional(object({ id = string }))
    spec       = optional(object({ size_gibibytes = number, block_size_kibibytes = number }))
  }))
  default = []
}

variable "filesystem_jail_submounts" {
  description = "Shared filesystems below the jail."
  type = list(object({
    name       = string
    mount_path = string
    existing   = optional(object({ id = string }))
    spec       = optional(object({ type = optional(string, "NETWORK_SSD"), size_gibibytes = number, block_size_kibibytes = number }))
  }))
  default = [
    { name = "training", mount_path = "/mnt/training", spec = { size_gibibytes = 2048, block_size_kibibytes = 4 } },
    { name = "inference", mount_path = "/mnt/inference", spec = { size_gibibytes = 1024, block_size_kibibytes = 4 } },
  ]
}
