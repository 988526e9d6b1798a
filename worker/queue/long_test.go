//go:build soak

package queue

// long has a master fail over, too, to a replica: of Sentinel's and of a Cluster's.
const long = true
