//go:build cluster

package redistest

const onCluster = true
