// Package cli has the commands of the program.
package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pushpace/pushpace/internal/app"
)

// Run runs the command line and returns the exit status.
func Run(args []string) int {
	began := false
	root := Root()
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	root.SetArgs(args)
	err := root.Execute()
	if err != nil && !began && !errors.As(err, new(*exitError)) && !errors.As(err, new(*app.UsageError)) {
		err = misusedf("%w\nSee pushpace --help.", err) // cobra itself has refused the command line
	}
	return report(err)
}

// Root returns the program's command, with all commands below it.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "pushpace",
		Short: "Dispatch push notifications within each user's limits",
		Long: `pushpace dispatches push notifications through APNs, FCM and Web Push, within each user's
limits. A notification over a limit waits for exactly the time left.

Exit status: 0 done, 1 failed, 2 wrong use or configuration, 3 accounting or
limits violated.`,
		Version:       app.BuildVersion().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newServe(), newSend(), newStatus(), newCancel(), newWaiting(), newLimits(), newDead(), newTimeline(), newOverview(), newActions(), newAudit(), newPause(), newResume(), newPauses(), newSimulate(), newDemo(), newBench(), newCheck(), newToken(), newVAPID(), newVersion())
	root.SetVersionTemplate("{{.Version}}\n")
	addCompletion(root)
	explainArguments(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if invalid := new(pflag.InvalidValueError); errors.As(err, &invalid) {
			if _, token := invalid.GetFlag().Value.(targetFlag); token { // no error shows a device token
				err = fmt.Errorf("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
			}
		}
		return misusedf("%w\nSee %s --help.", err, cmd.CommandPath())
	})
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Args = func(_ *cobra.Command, topic []string) error {
				_, _, err := root.Find(topic)
				return err
			}
		}
	}
	return root
}

// explainArguments adds the expected arguments and an example to every argument error of the
// commands below.
func explainArguments(cmd *cobra.Command) {
	for _, cmd := range cmd.Commands() {
		explainArguments(cmd)
		fit := cmd.Args
		_, wanted, takes := strings.Cut(cmd.Use, " ")
		if fit == nil || !takes {
			continue
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if fit(cmd, args) == nil {
				return nil
			}
			path := cmd.CommandPath()
			example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
			return misusedf("%s: want %s, as in %s; see %s --help", strings.TrimPrefix(path, "pushpace "),
				strings.ReplaceAll(wanted, " | "+cmd.Name(), " or"), example, path)
		}
	}
}

// someOrAll requires arguments, or --all in their place.
func someOrAll(cmd *cobra.Command, args []string) error {
	all, err := cmd.Flags().GetBool("all")
	if len(args) == 0 && !all {
		return errors.New("want arguments, or --all")
	}
	return err
}
