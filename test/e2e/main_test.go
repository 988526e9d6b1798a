//go:build e2e && unix

package e2e

import (
	"testing"

	"github.com/pushpace/pushpace/test/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
