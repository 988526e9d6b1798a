package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/providers/webpush"
)

func newVAPID() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vapid",
		Short: "Make the key by which push services know an app, or print its public half",
		Long: `vapid makes and reads the key pair of an app that sends to browsers (RFC 8292). The
private key stays with the workers. The public one is what the site subscribes
with, as applicationServerKey: each subscription is bound to it for life. public also
reads the private keys of other tools: PEM, a JWK, or 32 bytes in base64 or hex.`,
	}
	cmd.AddCommand(newVAPIDNew(), newVAPIDPublic())
	return cmd
}

func newVAPIDNew() *cobra.Command {
	var asJSON *bool
	cmd := &cobra.Command{
		Use:   "new FILE",
		Short: "Make a key, write the private one into FILE, and print the public one",
		Long: `new makes a key, writes the private one into FILE, which must not be there and
which only its owner may read, and prints the public one.`,
		Example: `  pushpace vapid new vapid.pem`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := webpush.GenerateKey()
			if err != nil {
				return err
			}
			text, err := key.PEM()
			if err != nil {
				return err
			}
			if err := writeNew(args[0], text); errors.Is(err, fs.ErrExist) {
				return misusedf("%s is there already: subscriptions made with its key would be lost with it", args[0])
			} else if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%s has the private key. In the configuration, with the app's name for NAME:\n\napps:\n  NAME:\n    webpush:\n      subject: mailto:you@example.com\n      private_key_file: %s\n\nThe site subscribes with:\n", args[0], args[0])
			return printKey(cmd.OutOrStdout(), key, *asJSON)
		},
	}
	asJSON = jsonFlag(cmd)
	return cmd
}

func newVAPIDPublic() *cobra.Command {
	var asJSON *bool
	cmd := &cobra.Command{
		Use:     "public FILE",
		Short:   "Print the public key of the private one in FILE",
		Example: `  pushpace vapid public vapid.pem`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := webpush.ReadKey(args[0])
			if err != nil {
				return misused(err)
			}
			return printKey(cmd.OutOrStdout(), key, *asJSON)
		},
	}
	asJSON = jsonFlag(cmd)
	return cmd
}

func printKey(out io.Writer, key *webpush.Key, asJSON bool) error {
	if asJSON {
		return printJSON(out, struct {
			Public string `json:"public_key"`
		}{key.Public()})
	}
	_, err := fmt.Fprintln(out, key.Public())
	return err
}

// writeNew writes a file that is not there yet, for its owner's eyes.
func writeNew(name string, text []byte) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(name)
	}
	return err
}
