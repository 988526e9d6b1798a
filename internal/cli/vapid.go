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
		Short: "Make an app's key for the push services of browsers, or print its public part",
		Long: `vapid makes and reads the key pair of an app that sends to browsers (RFC 8292). The private
key stays with the workers. The site subscribes with the public key, as
applicationServerKey; a subscription is bound to that key for life. public also reads the
private keys of other tools: PEM, a JWK, or 32 bytes in base64 or hex.`,
	}
	cmd.AddCommand(newVAPIDNew(), newVAPIDPublic())
	return cmd
}

func newVAPIDNew() *cobra.Command {
	var asJSON *bool
	cmd := &cobra.Command{
		Use:   "new FILE",
		Short: "Make a key, write the private one into FILE, and print the public one",
		Long: `new makes a key and prints the public part. It writes the private key to FILE, which must
not exist, with access for its owner alone.`,
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
				return misusedf("%s exists already: without its key, all subscriptions made with the key would be lost", args[0])
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

// writeNew writes a file that must not exist, readable by its owner alone.
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
