package smtpd

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"doublet/client/milter"
	"doublet/client/milter/stub"
	"doublet/directory"
	"doublet/mail/inbound"
	"doublet/mail/verify"
	"doublet/note"
	wire "doublet/wire/milter"
)

// watcher notes the outcome of each message, and how many messages a mail file has then.
type watcher struct {
	count func() int
	got   []string
}

func (w *watcher) Seen(_ context.Context, m *verify.Seen) {
	code := 250
	if m.Reply != nil {
		code = m.Reply.Code
	}
	w.got = append(w.got, fmt.Sprintf("%d deferred=%t stored=%t to=%d bytes=%t %d",
		code, m.Deferred(), m.Stored(), len(m.To), len(m.Message) > 0, w.count()))
}

// TestObserver checks that an observer sees each message once, with its final reply: that of a filter, that of the mail
// file, or none when the message is stored.
func TestObserver(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := &watcher{count: func() int { return s.folder("alice", "INBOX") }}
	send := func(answer wire.Answer) {
		t.Helper()
		f := &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {answer}}}
		dial := s.strangers(inbound.Options{Milters: []*milter.Filter{s.milter(f)}, Observer: w}, Config{})
		s.send(dial(), "eve@far.example", from("eve@far.example", ""), "alice@example.com")
	}
	for _, a := range []wire.Answer{
		{Code: wire.TempFail}, {Code: wire.Reject}, {Code: wire.ReplyCode, Value: "452 4.7.9 later"},
		{Code: wire.Discard}, {Code: wire.Continue},
	} {
		send(a)
	}
	limit := func(f *directory.PersonFields) error { f.SizeLimit = 1; return nil }
	_, err := s.people.People.Set(context.Background(), note.System, s.person["alice"].ID, limit)
	s.ok(err)
	send(wire.Answer{Code: wire.Continue})
	want := []string{
		"451 deferred=true stored=false to=1 bytes=true 0",
		"550 deferred=false stored=false to=1 bytes=true 0",
		"452 deferred=true stored=false to=1 bytes=true 0",
		"250 deferred=false stored=false to=1 bytes=true 0",
		"250 deferred=false stored=true to=1 bytes=true 1",
		"552 deferred=false stored=false to=1 bytes=true 1",
	}
	if !slices.Equal(w.got, want) {
		t.Errorf("%q", w.got)
	}
}
