//go:build tools

// Package tools names the programs that check the chart, so that go.mod and go.sum cover all that they need.
package tools

import (
	_ "github.com/yannh/kubeconform/cmd/kubeconform"
	_ "helm.sh/helm/v3/cmd/helm"
)
