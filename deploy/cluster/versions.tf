terraform {
  # The same bound as `npa cluster down` has.
  required_version = ">= 1.12.0"

  required_providers {
    nebius = {
      source  = "terraform-provider.storage.eu-north1.nebius.cloud/nebius/nebius"
      version = ">= 0.5.0, < 1.0.0"
    }
  }
}

provider "nebius" {
  # Short-lived and handed over in the environment as TF_VAR_iam_token. Pinned in a tfvars file it would outlive the
  # login, and a teardown refuses to run with it.
  token = var.iam_token
}
