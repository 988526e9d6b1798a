//go:build !soak

package webpush_test

// manyOrigins is the number of hosts that a test sends to.
const manyOrigins = 300
