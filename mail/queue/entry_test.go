package queue

import (
	"testing"

	"doublet/note"
	"doublet/wire/smtp"
)

func FuzzEntry(f *testing.F) {
	e := Entry{From: smtp.Path{Local: "a", Domain: "b.example"},
		Recipients: []Recipient{{Address: "x@y.example", State: Waiting, Attempts: 3}}}
	c := note.Content{Items: e.items()}
	f.Add(note.AppendContent(nil, &c))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, _, err := note.ReadContent(b)
		if err != nil {
			return
		}
		var e, again Entry
		if e.read(c.Items) != nil {
			return
		}
		if err := again.read(e.items()); err != nil || len(again.Recipients) != len(e.Recipients) ||
			again.From != e.From {
			t.Fatalf("%v: %+v became %+v", err, e, again)
		}
		e.tally()
	})
}
