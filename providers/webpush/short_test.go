//go:build !soak

package webpush_test

// manyOrigins is how many hosts a test sends to.
const manyOrigins = 300
