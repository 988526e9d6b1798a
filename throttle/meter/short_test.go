//go:build !soak

package meter_test

// histories is how many random ones a test has.
const histories = 40
