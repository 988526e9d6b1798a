//go:build soak

package route

// troubles is the number of random histories of TestSharesUnderFaults.
const troubles = 200
