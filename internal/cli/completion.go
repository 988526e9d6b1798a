package cli

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/internal/config"
)

// addCompletion adds cobra's completion command, which would otherwise print its help for an
// unknown shell and succeed.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.RunE = func(*cobra.Command, []string) error {
				return misusedf("completion: want bash, zsh, fish or powershell")
			}
		}
	}
}

// complete completes the flag with these values, and never with file names.
func complete(cmd *cobra.Command, flag string, values ...string) {
	completeBy(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeConfigured completes the flag with names from the configuration, if one can be read.
func completeConfigured(cmd *cobra.Command, flag string, names func(*config.Config) []string) {
	completeBy(cmd, flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		file, err := cmd.Flags().GetString("config")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cfg, _, err := app.LoadConfig(file)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := names(cfg)
		slices.Sort(found)
		return found, cobra.ShellCompDirectiveNoFileComp
	})
}

func completeBy(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the command has no such flag, or completes it twice
	}
}

// completeApps and completeCategories complete the flags --app and --category.
func completeApps(cmd *cobra.Command) {
	completeConfigured(cmd, "app", func(c *config.Config) []string { return slices.Collect(maps.Keys(c.Apps)) })
}

func completeCategories(cmd *cobra.Command) {
	completeConfigured(cmd, "category", func(c *config.Config) []string { return slices.Collect(maps.Keys(c.Limits.Categories)) })
}
