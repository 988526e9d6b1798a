package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// run runs the command line and answers the exit status.
func run(args []string) int {
	began := false
	root := &cobra.Command{
		Use:   "pushpace",
		Short: "Dispatches push notifications, each no sooner than its user's limits allow",
		Long: `pushpace dispatches push notifications through APNs and FCM, each no sooner
than its user's limits allow. What may not go yet waits for exactly the time left.

Exit status: 0 done, 1 failed, 2 wrong use or configuration, 3 accounting or
limits violated.`,
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(*cobra.Command, []string) { began = true },
	}
	root.AddCommand(newServe(), newSend(), newStatus(), newCancel(), newWaiting(), newLimits(), newDead(), newTimeline(), newOverview(), newActions(), newAudit(), newPause(), newResume(), newPauses(), newSimulate(), newDemo(), newCheck(), newToken(), newMan(), newVersion())
	addCompletion(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
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
	root.SetArgs(args)
	err := root.Execute()
	if err != nil && !began && !errors.As(err, new(*exitError)) {
		err = misusedf("%w\nSee pushpace --help.", err) // what cobra itself refuses
	}
	return report(err)
}
