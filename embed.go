// Package pushpace holds the shipped default of the configuration. The program is
// cmd/pushpace.
package pushpace

import _ "embed"

// ConfigYAML is config.yaml as it is shipped.
//
//go:embed config.yaml
var ConfigYAML []byte
