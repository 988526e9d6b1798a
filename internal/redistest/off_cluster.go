//go:build !cluster

package redistest

// onCluster is false: tests run on an embedded and a real Redis. With the build tag cluster they
// run on a Cluster of three masters instead.
const onCluster = false
