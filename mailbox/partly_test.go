package mailbox_test

import (
	"errors"
	"testing"

	"doublet/mailbox"
	"doublet/store"
)

// TestMovesBetweenParts checks that an operation is not reported as not begun if the mail file moves after its first
// part: the new home would execute it again as a whole. An operation that has changed nothing is.
func TestMovesBetweenParts(t *testing.T) {
	t.Parallel()
	all := mailbox.Set{{Start: 1, Stop: 0}}
	flag := mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Keywords: []string{"k"}}}
	conditional := flag
	conditional.UnchangedSince, conditional.HasUnchangedSince = 1<<62, true
	for name, run := range map[string]func(w *world, v *mailbox.View, leave func()) error{
		"copy": func(w *world, v *mailbox.View, leave func()) error {
			_, err := v.CopyTo(w.ctx, all, true, w.mf, "Archive", false, func(_, _ uint64) { leave() })
			return err
		},
		"move": func(w *world, v *mailbox.View, leave func()) error {
			_, err := v.CopyTo(w.ctx, all, true, w.mf, "Archive", true, func(_, _ uint64) { leave() })
			return err
		},
		"conditional store": func(w *world, v *mailbox.View, leave func()) error {
			_, err := v.Store(w.ctx, all, true, conditional, func(*mailbox.Message) { leave() })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			w.must(w.s.Share(w.ctx, w.db, 0))
			for i := range 64 {
				w.append("INBOX", plain(i), mailbox.Flags{})
			}
			for range 4 { // 1024 messages: two parts
				_, err := w.open("INBOX").Copy(w.ctx, all, true, "INBOX")
				w.must(err)
			}
			v, left := w.open("INBOX"), false
			leave := func() {
				if !left {
					left = true
					w.must(w.s.Follow(w.ctx, w.db))
				}
			}
			if err := run(w, v, leave); !left || !errors.Is(err, mailbox.ErrPartly) || errors.Is(err, store.ErrNotHome) {
				t.Errorf("moved between the parts (%v): %v", left, err)
			}
			if err := run(w, v, leave); !errors.Is(err, store.ErrNotHome) {
				t.Errorf("moved before: %v", err)
			}
		})
	}
}
