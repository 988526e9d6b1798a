//go:build race

package main

// The program is built as its tests are.
func init() { buildFlags = append(buildFlags, "-race") }
