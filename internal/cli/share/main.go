// Share writes the program's man pages and completions into a folder, as a package installs them.
//
//	go run ./internal/cli/share FOLDER
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra/doc"

	"github.com/pushpace/pushpace/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "share: want the FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "share:", err)
		os.Exit(1)
	}
}

// write writes both kinds of files. The pages' date is SOURCE_DATE_EPOCH, or else today.
func write(folder string) error {
	man, completions := filepath.Join(folder, "man"), filepath.Join(folder, "completions")
	for _, dir := range []string{man, completions} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	root := cli.Root()
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "pushpace", Manual: "pushpace"}, man); err != nil {
		return err
	}
	const withDescriptions = true
	for name, generate := range map[string]func(string) error{
		"pushpace.bash": func(file string) error { return root.GenBashCompletionFileV2(file, withDescriptions) },
		"_pushpace":     root.GenZshCompletionFile,
		"pushpace.fish": func(file string) error { return root.GenFishCompletionFile(file, withDescriptions) },
	} {
		if err := generate(filepath.Join(completions, name)); err != nil {
			return err
		}
	}
	return nil
}
