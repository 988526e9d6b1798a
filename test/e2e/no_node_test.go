//go:build e2e && !soak && unix

package e2e

import "testing"

// runTypeScript leaves it to the third ring: it takes Node, and npm's registry.
func runTypeScript(*testing.T, []block) {}
