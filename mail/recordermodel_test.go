package mail

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/journal"
	"doublet/note"
	"doublet/store/layout"
	"doublet/test/long"
)

// recordModel is a server that journals, with what it has accepted.
type recordModel struct {
	*world
	rnd      *rand.Rand
	people   []directory.Person
	subs     []*Submission   // all that were deposited
	accepted map[string]bool // by subject
}

// TestJournalModel deposits messages at random, with faults of the disk, power failures, roll-overs and an unusable
// journal between them. The journal has each message that is in a mail file or in mail.box once, and no other.
func TestJournalModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(4, 16)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := &recordModel{rnd: rand.New(rand.NewPCG(seed, 1)), accepted: map[string]bool{}}
			m.world = journaling(t, Options{MaxLocal: 2}, journal.Options{RollDays: 1, RollSize: 20_000})
			for i := range 4 {
				m.people = append(m.people, m.person(fmt.Sprintf("p%d", i)))
			}
			for range 120 {
				m.step()
			}
			m.compare()
		})
	}
}

func (m *recordModel) step() {
	m.t.Helper()
	switch n := m.rnd.IntN(100); {
	case n < 60:
		m.send()
	case n < 70 && len(m.subs) > 0: // the reply was lost
		sub := *m.subs[m.rnd.IntN(len(m.subs))]
		sub.Message = append([]byte(nil), sub.Message...)
		m.try(&sub)
	case n < 78:
		m.route()
	case n < 82:
		m.fix.Time.Advance(time.Duration(m.rnd.IntN(30)) * time.Hour)
	case n < 86: // nothing is accepted meanwhile
		m.whileUnusable(m.send)
	case n < 93:
		m.crash(func() {})
	default: // the power fails during a deposit
		m.fix.Faults.FailFrom(env.OpSync, 1+m.rnd.IntN(3), errors.New("the disk is gone"))
		m.crash(m.send)
	}
}

func (m *recordModel) send() {
	i := len(m.subs)
	to := []string{m.people[m.rnd.IntN(4)].InternetAddress, m.people[m.rnd.IntN(4)].InternetAddress,
		"zoe@far.example", m.people[m.rnd.IntN(4)].InternetAddress}
	sub := m.from("eve@far.example", to[:1+m.rnd.IntN(4)]...)
	m.fix.Fill(sub.ID[:])
	sub.Message = []byte(strings.Replace(plain, "hello", fmt.Sprintf("number-%d.", i), 1) +
		strings.Repeat("some text of it\r\n", m.rnd.IntN(3000)))
	kept := *sub
	kept.Message = append([]byte(nil), sub.Message...)
	m.subs = append(m.subs, &kept)
	m.try(sub)
}

// try deposits a message. An error leaves open if it was accepted.
func (m *recordModel) try(sub *Submission) {
	subject := subjectOf(string(sub.Message))
	if _, err := m.Deposits.Deposit(bg, sub, nil); err == nil {
		m.accepted[subject] = true
	} else if !slices.Contains([]string{"452 4.3.0"}, replyCode(err)) {
		m.t.Logf("%s: %v", subject, err)
	}
}

func (m *recordModel) whileUnusable(fn func()) {
	m.t.Helper()
	list, err := m.journal.Databases(bg)
	m.ok(err)
	if len(list) == 0 || !list[len(list)-1].Current {
		return
	}
	set := func(s layout.DatabaseState) {
		m.ok(m.db.SetInfo(note.System, list[len(list)-1].ID, func(i *layout.Info) { i.State = s }))
	}
	set(layout.OutOfService)
	fn()
	set(layout.InService)
}

// crash starts the server again on what the disk has kept.
func (m *recordModel) crash(before func()) {
	m.t.Helper()
	before()
	old := m.world
	next := &world{t: old.t, fix: old.fix.Crash(m.rnd.IntN(100), m.rnd.Uint64()), opt: old.opt, record: old.record}
	old.closed = true // the power is off: nothing of it runs on
	old.people.Close()
	next.start()
	m.t.Cleanup(func() {
		if !next.closed {
			next.checkStore()
			next.stop()
		}
	})
	m.world = next
	m.compare()
}

func subjectOf(raw string) string {
	_, rest, _ := strings.Cut(raw, "Subject: ")
	s, _, _ := strings.Cut(rest, "\r\n")
	return s
}

// compare compares the journal with the mail files and mail.box.
func (m *recordModel) compare() {
	m.t.Helper()
	want := map[string]bool{}
	for _, p := range m.people {
		for _, raw := range m.inbox(p.MailDatabase) {
			want[subjectOf(raw)] = true
		}
	}
	list, _, err := m.Queue.List(bg, 0, "")
	m.ok(err)
	for _, e := range list {
		want[subjectOf(m.raw(e))] = true
	}
	got := map[string]bool{}
	for _, e := range m.entries() {
		s := subjectOf(e.raw)
		if got[s] {
			m.t.Errorf("%s is in the journal twice", s)
		}
		if got[s] = true; !want[s] {
			m.t.Errorf("%s is only in the journal", s)
		}
	}
	for s := range want {
		if !got[s] {
			m.t.Errorf("%s is not in the journal", s)
		}
	}
	for s := range m.accepted {
		if !want[s] {
			m.t.Errorf("%s was accepted, and is lost", s)
		}
	}
	if m.t.Failed() {
		m.t.FailNow()
	}
}
