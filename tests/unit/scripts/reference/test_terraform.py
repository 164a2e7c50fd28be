"""The page of Terraform's inputs and outputs: what the parser of .tf files reads."""

from __future__ import annotations

import pytest
from reference.terraform import FOLDER, items, terraform_page

TEXT = """\
variable "image" {
  description = "An \\"image\\"."
  type        = string

  validation {
    condition     = var.image != ""
    error_message = "image is empty"
  }
}

variable "bridge" {
  description = <<-EOT
    The bridge.

    - `image`: by digest.
  EOT
  type = object({
    image = string
  })
  default = null
}

output "text" {
  description = "The text."
  value       = "x"
}
"""


def test_the_blocks_of_a_file() -> None:
    image, bridge, text = items(TEXT)
    assert (image.kind, image.name, image.type, image.default) == (
        "variable",
        "image",
        "string",
        "",
    )
    assert image.description == 'An "image".'
    assert (bridge.type, bridge.default) == ("object", "null")
    assert bridge.description == "The bridge.\n\n- `image`: by digest."
    assert (text.kind, text.description) == ("output", "The text.")


def test_a_block_without_a_description_is_an_error() -> None:
    with pytest.raises(ValueError, match='variable "x" has no description'):
        list(items('variable "x" {\n  type = string\n}\n'))


def test_the_page_has_every_input_of_the_root_module() -> None:
    page = terraform_page()
    text = (FOLDER / "variables.tf").read_text()
    names = [item.name for item in items(text)]
    assert len(names) == text.count('\nvariable "')
    assert all(f"| `{name}` |" in page for name in names)
