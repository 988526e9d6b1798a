//go:build !soak

package meter_test

// histories is the number of random histories of a test.
const histories = 40
