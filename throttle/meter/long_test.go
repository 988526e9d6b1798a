//go:build soak

package meter_test

const histories = 100
