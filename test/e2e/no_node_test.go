//go:build e2e && !soak && unix

package e2e

import "testing"

// runTypeScript does nothing: with the build tag node the block needs Node and npm's registry.
func runTypeScript(*testing.T, []block) {}
