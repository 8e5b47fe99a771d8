locals {
  labels = {
    managed-by = "npa"
    cluster    = var.cluster_name
    region     = var.region
  }

  cloud_init = <<-EOT
    #cloud-config
    users:
      - name: ${var.ssh_user_name}
        sudo: ALL=(ALL) NOPASSWD:ALL
        shell: /bin/bash
        ssh_authorized_keys:
          - ${var.ssh_public_key}
  EOT
}

# -- network --

resource "nebius_vpc_v1_network" "this" {
  parent_id = var.parent_id
  name      = "${var.cluster_name}-network"
  labels    = local.labels
}

resource "nebius_vpc_v1_subnet" "this" {
  parent_id  = var.parent_id
  name       = "${var.cluster_name}-subnet"
  network_id = nebius_vpc_v1_network.this.id
  labels     = local.labels
}

# -- the nodes' own identity --

resource "nebius_iam_v1_service_account" "nodes" {
  parent_id = var.parent_id
  name      = "${var.cluster_name}-nodes"
  labels    = local.labels
}

data "nebius_iam_v1_group" "editors" {
  parent_id = var.tenant_id
  name      = "editors"
}

resource "nebius_iam_v1_group_membership" "nodes" {
  parent_id = data.nebius_iam_v1_group.editors.id
  member_id = nebius_iam_v1_service_account.nodes.id
}

# -- the cluster --

resource "nebius_mk8s_v1_cluster" "this" {
  parent_id = var.parent_id
  name      = var.cluster_name
  labels    = local.labels

  control_plane = {
    subnet_id         = nebius_vpc_v1_subnet.this.id
    version           = var.kubernetes_version
    etcd_cluster_size = var.etcd_cluster_size

    endpoints = {
      public_endpoint = {}
    }
  }
}

resource "nebius_mk8s_v1_node_group" "cpu" {
  parent_id        = nebius_mk8s_v1_cluster.this.id
  name             = "${var.cluster_name}-cpu"
  labels           = local.labels
  version          = var.kubernetes_version
  fixed_node_count = var.cpu_nodes.count

  template = {
    service_account_id   = nebius_iam_v1_service_account.nodes.id
    cloud_init_user_data = local.cloud_init
    network_interfaces   = [{ subnet_id = nebius_vpc_v1_subnet.this.id }]

    boot_disk = {
      type           = "NETWORK_SSD"
      size_gibibytes = var.cpu_nodes.disk_gibibytes
    }

    resources = {
      platform = var.cpu_nodes.platform
      preset   = var.cpu_nodes.preset
    }
  }

  # The membership goes last, so that nodes can still deregister while they are taken down.
  depends_on = [nebius_iam_v1_group_membership.nodes]
}

resource "nebius_compute_v1_gpu_cluster" "this" {
  count = var.gpu_nodes.count > 0 && var.gpu_nodes.fabric != "" ? 1 : 0

  parent_id         = var.parent_id
  name              = "${var.cluster_name}-fabric"
  infiniband_fabric = var.gpu_nodes.fabric
  labels            = local.labels
}

resource "nebius_mk8s_v1_node_group" "gpu" {
  count = var.gpu_nodes.count > 0 ? 1 : 0

  parent_id        = nebius_mk8s_v1_cluster.this.id
  name             = "${var.cluster_name}-gpu"
  labels           = local.labels
  version          = var.kubernetes_version
  fixed_node_count = var.gpu_nodes.count

  template = {
    service_account_id   = nebius_iam_v1_service_account.nodes.id
    cloud_init_user_data = local.cloud_init
    network_interfaces   = [{ subnet_id = nebius_vpc_v1_subnet.this.id }]
    gpu_settings         = { drivers_preset = var.gpu_nodes.drivers_preset }
    gpu_cluster          = one([for fabric in nebius_compute_v1_gpu_cluster.this : { id = fabric.id }])

    boot_disk = {
      type           = "NETWORK_SSD"
      size_gibibytes = var.gpu_nodes.disk_gibibytes
    }

    resources = {
      platform = var.gpu_nodes.platform
      preset   = var.gpu_nodes.preset
    }
  }

  depends_on = [nebius_iam_v1_group_membership.nodes]
}
