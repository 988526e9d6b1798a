package providers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Fingerprint answers 16 hexadecimal digits that tell whether two Senders have
// the same credentials and use them for the same, and nothing else of either.
func Fingerprint(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d %s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
