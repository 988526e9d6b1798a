//go:build !cluster

package redistest

// shards is empty: tests run on an embedded and a real Redis. The tag cluster has them run
// on a Cluster of three masters in 8 shards instead, and the tag one beside it, in one.
const shards = ""
