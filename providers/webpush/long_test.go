//go:build soak

package webpush_test

const manyOrigins = 10_000
