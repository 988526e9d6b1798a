package main

import (
	"github.com/spf13/cobra"
)

// run runs the command line and answers the exit status.
func run(args []string) int {
	began := false
	root := &cobra.Command{
		Use:   "pushpace",
		Short: "Dispatches push notifications, each no sooner than its user's limits allow",
		Long: `pushpace dispatches push notifications through APNs and FCM, each no sooner
than its user's limits allow. What is denied is put off by exactly the time left.

Exit status: 0 done, 1 failed, 2 wrong use or configuration, 3 accounting or
limits violated.`,
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(*cobra.Command, []string) { began = true },
	}
	root.AddCommand(newServe(), newSend(), newStatus(), newCancel(), newWaiting(), newLimits(), newDead(), newTimeline(), newOverview(), newAudit(), newPause(), newResume(), newPauses(), newSimulate(), newDemo(), newCheck(), newToken(), newMan(), newVersion())
	addCompletion(root)
	root.SetArgs(args)
	err := root.Execute()
	if err != nil && !began {
		err = misusedf("%w\nSee pushpace --help.", err) // what cobra itself refuses
	}
	return report(err)
}
