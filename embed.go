// Package pushpace holds the shipped default of the configuration, and the page that
// explains states, causes and reasons. The program is cmd/pushpace.
package pushpace

import _ "embed"

// ConfigYAML is config.yaml as it is shipped.
//
//go:embed config.yaml
var ConfigYAML []byte

// ReasonsMD is docs/reasons.md.
//
//go:embed docs/reasons.md
var ReasonsMD string
