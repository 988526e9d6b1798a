package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

// whose says of which app and user an ID is, "" for any.
type whose struct{ app, user string }

// whoseFlags adds --app and --user to a command that takes an ID.
func whoseFlags(cmd *cobra.Command) *whose {
	w := &whose{}
	f := cmd.Flags()
	f.StringVar(&w.app, "app", "", "the one for the `APP`, where several users have the ID")
	f.StringVar(&w.user, "user", "", "the one of the `USER`, where several have the ID")
	completeApps(cmd)
	return w
}

// of names what has the ID.
func (w whose) of(id string) push.Ref { return push.Ref{ID: id, App: w.app, User: w.user} }

// ofID says which ID an error is about, and which flags choose where several users have it.
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
