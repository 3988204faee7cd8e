package store

import (
	"context"
	"errors"
	"slices"
)

// ErrRestart reports that an item of an update failed after it had changed something: the update must not commit, and
// starts again without the item.
var ErrRestart = errors.New("store: update starts again without an item")

// EachItem calls fn, inside an update, for the items of errs that have not failed yet, and records their errors there.
// The changes of one item take effect completely or not at all: if fn fails after a change (touched), EachItem returns
// ErrRestart. An error of Abort, or one that concerns all items, ends the update.
func EachItem(errs []error, fn func(i int) (touched bool, err error)) error {
	for i := range errs {
		if errs[i] != nil {
			continue
		}
		touched, err := fn(i)
		switch {
		case err == nil:
			continue
		case !itemError(err):
			return err
		}
		if errs[i] = err; touched {
			return ErrRestart
		}
	}
	return nil
}

// Abort wraps an error of an item so that it ends the whole update.
func Abort(err error) error { return &abort{err} }

type abort struct{ error }

func (a *abort) Unwrap() error { return a.error }

// forAll lists the errors that concern all items of an update.
var forAll = []error{ErrDamaged, ErrNoSpace, ErrNotNamed, ErrNotHome, context.Canceled, context.DeadlineExceeded}

// itemError reports whether err concerns one item only.
func itemError(err error) bool {
	var a *abort
	return !errors.As(err, &a) && !slices.ContainsFunc(forAll, func(x error) bool { return errors.Is(err, x) })
}
