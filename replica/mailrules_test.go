package replica_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/replica"
	"doublet/stat"
	"doublet/store"
	"doublet/wire/smtp"
)

// post is a server that accepts mail, with a replica of the directory.
type post struct {
	store     *store.Store
	directory *directory.Directory
	mail      *mail.Service
	replica   *replica.Service
}

// newPost opens a server. With another server it begins with a replica of that one's directory.
func newPost(t *testing.T, slot uint8, from *post) *post {
	t.Helper()
	e := env.TestRealTime(t).Env
	e.Rand = env.Seeded(uint64(slot) + 1)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p := &post{}
	var err error
	p.store, err = store.Open(e, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		Indexes: slices.Concat(directory.Indexes(), trace.Indexes())})
	must(err)
	t.Cleanup(func() { must(p.store.Close()) })
	files := mailbox.New(p.store, e, mailbox.Options{})
	p.replica = replica.New(p.store, files, e, replica.Options{})
	if from != nil {
		info, err := from.store.Info(directory.ID)
		must(err)
		must(p.store.CreateReplica(note.System, info, slot))
		from.sendTo(t, p)
	}
	p.directory, err = directory.Open(p.store, e, password.New(e, 1, 10), directory.Options{Domain: "example.com"})
	must(err)
	t.Cleanup(p.directory.Close)
	if from == nil {
		must(p.store.Share(context.Background(), directory.ID, slot))
	}
	p.mail, err = mail.Open(p.store, e, p.directory, files, mail.Options{Stats: stat.New(e.Clock)})
	must(err)
	return p
}

// sendTo replicates the directory.
func (p *post) sendTo(t *testing.T, to *post) {
	t.Helper()
	if _, err := replica.Send(context.Background(), p.replica.As(note.System), to.replica.As(note.System), directory.ID,
		replica.SendOptions{}); err != nil {
		t.Fatal(err)
	}
}

// refuses reports whether the server refuses a message by a mail rule.
func (p *post) refuses(t *testing.T) bool {
	t.Helper()
	_, err := p.mail.Deposits.Deposit(context.Background(), &mail.Submission{Answer: mail.AnswerNone,
		From: smtp.Path{Local: "eve", Domain: "far.example"}, Received: &mail.Received{Helo: "x", Protocol: "ESMTP"},
		Recipients: []mail.Recipient{{To: smtp.Path{Local: "zed", Domain: "other.example"}, Outside: true}},
		Message:    []byte("Subject: offer\r\n\r\nHi\r\n")}, nil)
	var reply *smtp.Reply
	if err != nil && !errors.As(err, &reply) {
		t.Fatal(err)
	}
	return reply != nil
}

// TestMailRulesReplicate checks that a mate applies a mail rule, its changes and its end as soon as it has the
// document, without a restart.
func TestMailRulesReplicate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	one := newPost(t, 0, nil)
	two := newPost(t, 1, one)
	check := func(when string, want bool) {
		t.Helper()
		one.sendTo(t, two)
		if a, b := one.refuses(t), two.refuses(t); a != want || b != want {
			t.Errorf("%s: the first server refuses: %v, its mate: %v, want %v", when, a, b, want)
		}
	}
	check("without rules", false)
	r, err := one.directory.MailRules.Add(ctx, note.System, directory.MailRuleFields{Name: "offers",
		Text: `{"when":{"subject":["offer"]},"do":{"refuse":"No"}}`})
	if err != nil {
		t.Fatal(err)
	}
	if two.refuses(t) {
		t.Error("the mate knows the rule before its document")
	}
	check("with a rule", true)
	if _, err := one.directory.MailRules.Set(ctx, note.System, r.ID,
		func(f *directory.MailRuleFields) error { f.Off = true; return nil }); err != nil {
		t.Fatal(err)
	}
	check("with the rule off", false)
}
