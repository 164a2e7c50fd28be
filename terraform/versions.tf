terraform {
  required_version = ">= 1.8.0"

  required_providers {
    # tflint-ignore: terraform_unused_required_providers # modules/cluster and modules/soperator get it from here
    kubectl = {
      source  = "gavinbunney/kubectl"
      version = ">= 1.19.0, < 2.0.0"
    }
  }
}
