variable "iam_token" {
  description = "IAM token of the operator. Never written to a file."
  type        = string
  sensitive   = true
}

variable "parent_id" {
  description = "Project that everything is created in (project-...)."
  type        = string
}

variable "tenant_id" {
  description = "Tenant of the project; its editors group is looked up there."
  type        = string
}

variable "region" {
  description = "Region of the project, recorded as a label."
  type        = string
}

variable "cluster_name" {
  description = "Name of the cluster, and prefix of all that belongs to it."
  type        = string
  default     = "npa-cluster"

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,40}[a-z0-9])?$", var.cluster_name))
    error_message = "A cluster name is at most 42 lower-case letters, digits and hyphens, and starts with a letter."
  }
}

variable "kubernetes_version" {
  description = "Minor version of Kubernetes, or null for the provider's default."
  type        = string
  default     = null
}

variable "etcd_cluster_size" {
  description = "Control plane nodes: 1, or 3 for high availability."
  type        = number
  default     = 3
}

variable "ssh_user_name" {
  description = "Account that the node images create for the key below."
  type        = string
  default     = "ubuntu"
}

variable "ssh_public_key" {
  description = "Public key for the nodes."
  type        = string
}

variable "cpu_nodes" {
  description = "The CPU pool, which also runs the system workloads."
  type = object({
    count          = optional(number, 1)
    platform       = optional(string, "cpu-d3")
    preset         = optional(string, "8vcpu-32gb")
    disk_gibibytes = optional(number, 128)
  })
  default = {}
}

variable "gpu_nodes" {
  description = "The GPU pool; a count of 0 leaves it out."
  type = object({
    count          = optional(number, 0)
    platform       = optional(string, "gpu-h100-sxm")
    preset         = optional(string, "8gpu-128vcpu-1600gb")
    disk_gibibytes = optional(number, 1023)
    drivers_preset = optional(string, "cuda12.8")
    fabric         = optional(string, "")
  })
  default = {}
}
