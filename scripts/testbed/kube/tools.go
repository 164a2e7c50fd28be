//go:build tools

// Package tools names the programs of the sandbox's Kubernetes, so that go.mod and go.sum cover all that they need.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
