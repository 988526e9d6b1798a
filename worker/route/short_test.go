//go:build !soak

package route

// troubles is how many histories of workers that share are gone through.
const troubles = 4
