package check_test

import (
	"testing"
)

func TestCleanStore(t *testing.T) {
	t.Parallel()
	w := build(t)
	rep := w.check(false)
	if !rep.Clean() {
		t.Fatalf("not clean:\n%s", list(rep))
	}
	if rep.Databases != 2 || rep.Notes == 0 || rep.Stubs != 1 || rep.Members == 0 || rep.Messages == 0 ||
		rep.Objects != 2 || rep.Feed == 0 || rep.Rows == 0 {
		t.Fatalf("counts: %+v", rep)
	}
	w.clean(true)
	w.reopen()
	w.clean(true)
}
