//go:build cluster && !one

package redistest

const shards = "8"
