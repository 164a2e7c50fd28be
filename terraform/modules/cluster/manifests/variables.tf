# The same inputs as those of modules/cluster, which checks them.

variable "cluster" {
  description = "Name of the cluster, as in Holdfast's configuration."
  type        = string
}

variable "namespace" {
  description = "Namespace of the bridge and the agent."
  type        = string
}

variable "bridge" {
  description = "See modules/cluster."
  type        = any
}

variable "agent" {
  description = "See modules/cluster."
  type        = any
}

variable "monitoring" {
  description = "See modules/cluster."
  type        = any
}

variable "kill_switches" {
  description = "See modules/cluster."
  type        = set(string)
}

variable "network_policy_ports" {
  description = "See modules/cluster."
  type        = list(number)
}
