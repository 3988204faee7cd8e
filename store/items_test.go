package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// TestEachItem checks which errors are those of an item, which end the update, and which items are tried again.
func TestEachItem(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad")
	run := func(errs []error, fail map[int]error, touched bool) (called []int, err error) {
		err = EachItem(errs, func(i int) (bool, error) {
			called = append(called, i)
			return touched, fail[i]
		})
		return called, err
	}
	errs := make([]error, 3)
	called, err := run(errs, map[int]error{1: bad}, false)
	if err != nil || len(called) != 3 || !errors.Is(errs[1], bad) {
		t.Error(called, err, errs)
	}
	errs = make([]error, 3)
	if called, err := run(errs, map[int]error{1: bad}, true); !errors.Is(err, ErrRestart) || len(called) != 2 {
		t.Error(called, err)
	}
	if called, err := run(errs, map[int]error{1: bad}, true); err != nil || !slices.Equal(called, []int{0, 2}) {
		t.Error("a failed item is tried again", called, err)
	}
	for _, all := range []error{ErrNotHome, ErrNoSpace, Abort(bad), fmt.Errorf("write: %w", ErrDamaged)} {
		errs = make([]error, 3)
		called, err := run(errs, map[int]error{1: all}, false)
		if !errors.Is(err, all) || len(called) != 2 || errs[1] != nil {
			t.Error(all, called, err, errs)
		}
	}
}
