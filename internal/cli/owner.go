package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

// owner holds the app and the user of an ID; "" for any.
type owner struct{ app, user string }

// ownerFlags adds --app and --user to a command that takes an ID.
func ownerFlags(cmd *cobra.Command) *owner {
	w := &owner{}
	f := cmd.Flags()
	f.StringVar(&w.app, "app", "", "the `APP`, if several users have the ID")
	f.StringVar(&w.user, "user", "", "the `USER`, if several have the ID")
	completeApps(cmd)
	return w
}

// of returns the reference of an ID.
func (w owner) of(id string) push.Ref { return push.Ref{ID: id, App: w.app, User: w.user} }

// ofID adds the ID to an error, and the flags that choose among several users.
func ofID(id string, err error) error {
	var several *push.AmbiguousError
	if !errors.As(err, &several) {
		return fmt.Errorf("%s: %w", id, err)
	}
	var flags strings.Builder
	for _, ref := range several.Choices {
		if ref.App == "" {
			flags.WriteString("\n  a dead letter that cannot be read, which has no flags")
			continue
		}
		flags.WriteString("\n  --app " + words.Quoted(ref.App) + " --user " + words.Quoted(ref.User))
	}
	return fmt.Errorf("%s: %w:%s", id, err, &flags)
}
