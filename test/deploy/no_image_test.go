//go:build e2e && !soak && linux

package deploy

const asImage = false
