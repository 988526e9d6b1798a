package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/pushpace/pushpace/internal/base/textfile"
)

// maxSecretFile is the largest file of a secret, in bytes.
const maxSecretFile = 64 << 10

// Secret is a text that no log or error shows. string(s) is the text itself.
type Secret string

const hidden = "[hidden]"

// String hides the secret; an empty secret is "".
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes the text without the line ends at its end, which tools add to files
// and variables: no service accepts a password with a line end.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(strings.TrimRight(string(text), "\r\n"))
	return nil
}

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// ReadSecret reads a secret from a file, as UnmarshalText does.
func ReadSecret(path string) (Secret, error) {
	f, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	switch {
	case err != nil:
		return "", errors.New("the file cannot be read: " + reason(err))
	case len(data) > maxSecretFile:
		return "", fmt.Errorf("the file is larger than %d bytes", maxSecretFile)
	}
	data, err = textfile.Decode(data)
	if err != nil {
		return "", fmt.Errorf("the file %w", err)
	}
	var s Secret
	if _ = s.UnmarshalText(data); s == "" { // UnmarshalText accepts any text
		return "", errors.New("the file is empty")
	}
	return s, nil
}

// openRegular opens a file, and refuses a folder, a device or a pipe, which
// might never end.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.New("the file cannot be read: " + reason(err))
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.New("the file cannot be read: " + reason(err))
	}
	return f, nil
}

// reason returns an error's text without the path, which may be a misplaced
// secret.
func reason(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
