//go:build !cluster

package redistest

// shards is empty: tests run on an embedded and a real Redis. With the tag cluster they run
// on a Cluster of three masters in one shard instead, and with the tag shards too, in 8.
const shards = ""
