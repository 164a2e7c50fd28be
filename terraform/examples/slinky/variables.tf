variable "kubeconfig" {
  description = "Path of a kubeconfig of the cluster."
  type        = string
  default     = "~/.kube/config"

  validation {
    condition     = fileexists(pathexpand(var.kubeconfig))
    error_message = "kubeconfig is \"${var.kubeconfig}\", and there is no such file: give the path of a kubeconfig of the cluster."
  }
}

variable "cluster" {
  description = "Name of the cluster."
  type        = string
  default     = "slinky"
}

variable "workers_image" {
  description = "Your image of the workers, with Holdfast in /opt/holdfast."
  type        = string
}

variable "namespace" {
  description = "Namespace of the Slurm cluster."
  type        = string
  default     = "slurm"
}

variable "slurm_conf_configmap" {
  description = "The operator's ConfigMap with slurm.conf: the chart's full name and -config."
  type        = string
  default     = "slurm-config"
}

variable "bridge_image" {
  description = "Image of the bridge, by digest. null: no bridge yet."
  type        = string
  default     = null
}

variable "kill_switches" {
  description = "Kill switches that are on: `bridge` (it reports only), `all` (no action)."
  type        = set(string)
  default     = []
}

variable "checks" {
  description = "Modes and limits of checks; see modules/configuration."
  type        = map(object({ mode = optional(string, "observe"), limits = optional(map(string), {}) }))
  default     = {}
}
