//go:build tools

// Package tools names the program, so that go.mod and go.sum cover all that it needs.
package tools

import _ "github.com/opentofu/opentofu/cmd/tofu"
