//go:build tools

// Package tools names the provider, so that go.mod and go.sum cover all that it needs.
package tools

import _ "github.com/gavinbunney/terraform-provider-kubectl"
