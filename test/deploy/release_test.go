//go:build e2e && linux

package deploy

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// README's ways to install, the chart and CHANGELOG.md name one version. README and the release
// agree on the names of the archive, the image, the cask and the chart.
func TestReleaseHasOneVersion(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`).FindStringSubmatch(read(t, "../CHANGELOG.md"))
	if found == nil {
		t.Fatal("CHANGELOG.md has no version")
	}
	version := found[1]
	for file, wants := range map[string][]string{
		"../README.md": {
			"From version " + version + " on", "go install github.com/pushpace/pushpace/cmd/pushpace@v" + version + "\n",
			"/releases/download/v" + version + "/pushpace_" + version + "_linux_amd64.tar.gz | ", "brew install --cask pushpace/tap/pushpace\n",
			" ghcr.io/pushpace/pushpace:" + version + " ", " oci://ghcr.io/pushpace/charts/pushpace --version " + version + " ",
		},
		"chart/Chart.yaml":  {"\nname: pushpace\n", "\nversion: " + version + "\n", "\nappVersion: " + version + "\n"},
		"chart/values.yaml": {"repository: ghcr.io/pushpace/pushpace\n"},
		"../.goreleaser.yaml": {
			`"pushpace_{{ .Version }}_{{ .Os }}_{{ .Arch }}"`, "goos: [linux, darwin]\n", "goarch: [amd64, arm64]\n", "images: [ghcr.io/pushpace/pushpace]\n",
			"repository: {owner: pushpace, name: homebrew-tap,",
		},
		"../.github/workflows/release.yaml": {"oci://ghcr.io/pushpace/charts\n", ".ci/run\n", ".ci/soak\n", "needs: test\n", "tags: [\"v[0-9]+.[0-9]+.[0-9]+*\"]\n", "git merge-base --is-ancestor HEAD origin/main ||", ".ci/goreleaser release --clean\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(read(t, file), want) {
				t.Errorf("%s lacks %q", file, want)
			}
		}
	}
}

// A workflow has only the right to read the repository, unless a job adds a right. Each action is
// pinned to a commit.
func TestWorkflowsAreConfined(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.github/workflows/*.yaml")
	if must(t, err); len(files) != 2 {
		t.Fatalf("%d workflows", len(files))
	}
	uses, pinned := regexp.MustCompile(`uses: .*`), regexp.MustCompile(`^uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range files {
		text := read(t, file)
		if !strings.Contains(text, "\npermissions:\n  contents: read\n\n") || strings.Count(text, "actions/checkout@") != strings.Count(text, "persist-credentials: false") {
			t.Errorf("%s may do more than read", file)
		}
		for _, action := range uses.FindAllString(text, -1) {
			if !pinned.MatchString(action) {
				t.Errorf("%s: %s is not pinned to a commit", file, action)
			}
		}
	}
}
