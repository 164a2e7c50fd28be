# All rules of tflint for Terraform's language. scripts/test terraform runs them.

plugin "terraform" {
  enabled = true
  preset  = "all"
}

# An example is read as a whole: its variables and outputs stand beside what they are for.
rule "terraform_standard_module_structure" {
  enabled = false
}
