package mail

import (
	"testing"

	"doublet/mail/queue"
	"doublet/note"
	"doublet/store/layout"
)

// TestEarly checks which messages are accepted before the flush of the log: those that enter only databases that
// acknowledge early, mail.box among them. One mail file that does not makes the message wait.
func TestEarly(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	for _, db := range []note.DatabaseID{w.Queue.Boxes.Of(queue.MakeKey(0, 0)).ID, alice.MailDatabase} {
		w.ok(w.db.SetInfo(note.System, db, func(i *layout.Info) { i.Ack = layout.AckEarly }))
	}
	for _, x := range []struct {
		to    []string
		early string
	}{
		{[]string{"far@far.example"}, "1"},
		{[]string{"alice@example.com"}, "2"},
		{[]string{"alice@example.com", "far@far.example"}, "3"},
		{[]string{"alice@example.com", "bob@example.com"}, "3"},
		{[]string{"bob@example.com", "far@far.example"}, "3"},
	} {
		w.deposit(w.from("eve@far.example", x.to...))
		w.shows("Database.RM.Commits.Early = " + x.early)
	}
	w.has(alice, 3)
	w.has(bob, 2)
	w.queue(3)
}
