// Package demo fills a new server with three people, a group and two weeks of their mail. It uses the delivery path of
// real mail.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"doublet/admin"
	"doublet/directory"
	"doublet/mail"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/smtp"
)

// Password is the password of all three.
const Password = "demo"

// Domain is the mail domain of the three.
const Domain = "example.com"

// People are the short names of the three. The first is the administrator.
var People = []string{"alice", "bob", "carol"}

// filler fills one server.
type filler struct {
	*admin.System
	now    time.Time
	people map[person]directory.Person
	who    map[person]note.Who
	ids    map[string]string   // key → Message-ID
	refs   map[string][]string // key → Message-IDs of the thread up to it
}

// Fill creates the people, the group, two rooms, and the mail of the people. It leaves a server that has people as it
// is and returns false.
func Fill(ctx context.Context, s *admin.System) (filled bool, err error) {
	have, _, err := s.Directory.People.List(ctx, "", 1, "")
	if err != nil || len(have) > 0 {
		return false, err
	}
	f := &filler{
		System: s, now: s.Env.Clock.Now(), people: map[person]directory.Person{}, who: map[person]note.Who{},
		ids: map[string]string{}, refs: map[string][]string{},
	}
	if err := f.addPeople(ctx); err != nil {
		return false, fmt.Errorf("demo: people: %w", err)
	}
	for i := range sent {
		if err := f.send(ctx, &sent[i]); err != nil {
			return false, fmt.Errorf("demo: message %s: %w", sent[i].key, err)
		}
	}
	for i := range drafts {
		m := &drafts[i]
		if err := f.keep(ctx, m, "Drafts", mailbox.Flags{Seen: true, Keywords: []string{mailbox.Draft}}); err != nil {
			return false, fmt.Errorf("demo: draft %s: %w", m.key, err)
		}
	}
	return true, nil
}

func (f *filler) addPeople(ctx context.Context) error {
	for i, p := range []person{alice, bob, carol} {
		spec := directory.PersonSpec{
			PersonFields: directory.PersonFields{FullName: []string{p.name}, ShortName: People[i],
				InternetAddress: p.address},
			Password: Password, Scram: f.SCRAM,
		}
		if i == 0 {
			spec.Roles = []string{directory.RoleAdmin}
		}
		made, err := f.Directory.People.Add(ctx, note.System, spec)
		if err != nil {
			return err
		}
		f.people[p] = made
		if f.who[p], err = f.Directory.Names.WhoOf(ctx, made.ID); err != nil {
			return err
		}
	}
	_, err := f.Directory.Groups.Add(ctx, note.System, directory.GroupFields{
		Name: team.name, Description: "All three", InternetAddress: team.address,
		Members: []string{alice.address, bob.address, carol.address},
	})
	if err != nil {
		return err
	}
	return f.addRooms(ctx)
}

// addRooms adds two rooms, which book themselves.
func (f *filler) addRooms(ctx context.Context) error {
	for _, r := range []directory.MailInFields{
		{Name: "Blue Room", InternetAddress: "blue.room@example.com", Resource: directory.ResourceFields{
			Kind: directory.ResourceRoom, Capacity: 8, Equipment: []string{"Projector"}, Site: "Main house"}},
		{Name: "Hall", InternetAddress: "hall@example.com", Resource: directory.ResourceFields{
			Kind: directory.ResourceRoom, Capacity: 60, Equipment: []string{"Projector", "Stage"}, Site: "Annex"}},
	} {
		var err error
		if r.Database, err = f.Mailbox.Make(ctx, note.UNID{}, r.Name, 0, 0); err != nil {
			return err
		}
		if _, err := f.Directory.MailIns.Add(ctx, note.System, r); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) file(p person) *mailbox.File {
	return f.Mailbox.File(f.who[p], f.people[p].MailDatabase)
}

// send deposits a message as if it had arrived at its date, and applies what its readers did with it.
func (f *filler) send(ctx context.Context, m *message) error {
	raw := m.raw(f.now, f.thread(m))
	sub := &mail.Submission{
		Message: raw, Date: f.now.Add(-m.ago), Answer: mail.AnswerNone,
		Received: &mail.Received{Helo: "localhost", IP: netip.MustParseAddr("127.0.0.1"), Protocol: "ESMTP"},
	}
	var err error
	if sub.From, err = path(m.from); err != nil {
		return err
	}
	local := false
	for _, to := range slices.Concat(m.to, m.cc) {
		r := mail.Recipient{}
		if r.To, err = path(to); err != nil {
			return err
		}
		switch r.Target, err = f.Directory.Names.Resolve(ctx, to.address); {
		case errors.Is(err, directory.ErrNotLocal): // it would not be relayed
			continue
		case err != nil:
			return err
		}
		local = true
		sub.Recipients = append(sub.Recipients, r)
	}
	if local {
		if _, err := f.Mail.Deposits.Deposit(ctx, sub, nil); err != nil {
			return err
		}
		for _, p := range []person{alice, bob, carol} {
			if slices.Contains(m.to, p) || slices.Contains(m.cc, p) || slices.Contains(m.to, team) {
				if err := f.handle(ctx, m, p); err != nil {
					return fmt.Errorf("at %s: %w", p.name, err)
				}
			}
		}
	}
	if _, ours := f.people[m.from]; ours {
		return f.keep(ctx, m, "Sent", mailbox.Flags{Seen: true})
	}
	return nil
}

// handle sets the flags of the newest message in a person's INBOX, and moves it to its folder.
func (f *filler) handle(ctx context.Context, m *message, p person) error {
	var flags mailbox.Flags
	flags.Seen = slices.Contains(m.seen, p)
	if slices.Contains(m.answered, p) {
		flags.Keywords = append(flags.Keywords, mailbox.Answered)
	}
	if slices.Contains(m.flagged, p) {
		flags.Keywords = append(flags.Keywords, mailbox.Flagged)
	}
	file := f.file(p)
	view, folder, err := file.Open(ctx, mailbox.Inbox, false)
	if err != nil {
		return err
	}
	newest := mailbox.Set{{Start: folder.UIDNext - 1, Stop: folder.UIDNext - 1}}
	if flags.Seen || len(flags.Keywords) > 0 {
		if _, err := view.Store(ctx, newest, true, mailbox.StoreOp{Mode: mailbox.Add, Flags: flags},
			func(*mailbox.Message) {}); err != nil {
			return err
		}
	}
	if m.move == "" {
		return nil
	}
	if _, err := file.Folder(ctx, m.move); errors.Is(err, mailbox.ErrNoFolder) {
		_, err = file.Create(ctx, m.move, "")
		if err != nil {
			return err
		}
	}
	_, err = view.Move(ctx, newest, true, m.move)
	return err
}

// keep appends a message to a folder of its sender.
func (f *filler) keep(ctx context.Context, m *message, folder string, flags mailbox.Flags) error {
	_, _, err := f.file(m.from).Append(ctx, folder, m.raw(f.now, f.thread(m)), flags, f.now.Add(-m.ago))
	return err
}

// thread returns the Message-IDs that a message answers, and records the message for later answers.
func (f *filler) thread(m *message) []string {
	refs := f.refs[m.reply]
	f.refs[m.key] = append(slices.Clone(refs), m.id(f.now))
	return refs
}

func path(p person) (smtp.Path, error) {
	out, err := smtp.ParsePath(p.address)
	if err != nil {
		return smtp.Path{}, fmt.Errorf("address %s: %w", p.address, err)
	}
	return out, nil
}
