package app

import "errors"

// Closers close resources in the reverse order of their opening.
type Closers []func() error

func (c *Closers) Add(f func() error) { *c = append(*c, f) }

// Close closes everything once, the last opened first.
func (c *Closers) Close() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	*c = nil
	return errors.Join(errs...)
}
