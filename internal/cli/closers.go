package cli

import "errors"

// closers are what has to be closed at the end, in the order it was opened.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

// close closes everything once, the last opened first.
func (c *closers) close() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	*c = nil
	return errors.Join(errs...)
}
