//go:build e2e && !soak && unix

package e2e

import "testing"

// runTypeScript does nothing without the build tag soak, as it needs Node and npm's registry.
func runTypeScript(*testing.T, []block) {}
