//go:build cluster && !shards

package redistest

const shards = "1"
