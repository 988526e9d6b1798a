package providers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Fingerprint returns 16 hexadecimal digits that are equal for Senders with the same
// credentials and the same use of them. It reveals nothing else.
func Fingerprint(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d %s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
