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

variable "bridge_image" {
  description = "Image of the bridge, by digest."
  type        = string
}

variable "checks" {
  description = "Modes and limits of checks; see modules/configuration."
  type        = map(object({ mode = optional(string, "observe"), limits = optional(map(string), {}) }))
  default     = {}
}
