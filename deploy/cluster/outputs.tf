output "kube_cluster" {
  description = "The cluster. Its id is compared with the saved record before anything is destroyed."
  value = {
    id       = nebius_mk8s_v1_cluster.this.id
    name     = nebius_mk8s_v1_cluster.this.name
    endpoint = nebius_mk8s_v1_cluster.this.status.control_plane.endpoints.public_endpoint
  }
}

output "node_groups" {
  description = "Ids of the node groups, by pool."
  value = {
    cpu = nebius_mk8s_v1_node_group.cpu.id
    gpu = one(nebius_mk8s_v1_node_group.gpu[*].id)
  }
}
