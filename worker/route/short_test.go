//go:build !soak

package route

// troubles is the number of random histories of TestSharesUnderFaultsNeverExceedBound.
const troubles = 4
