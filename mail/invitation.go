package mail

import (
	"bytes"
	"context"
	"slices"

	"doublet/mail/queue"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// Calendars reads the scheduling messages (iMIP) that mails bring. Package scheduling implements it.
type Calendars interface {
	// Read returns the scheduling message of a mail whose author is verified, nil if it has none that the author may
	// send. raw is the whole mail.
	Read(ctx context.Context, raw []byte) Invitation
}

// Invitation is a scheduling message on its way to the calendars of the mail's recipients.
type Invitation interface {
	// Apply applies the message to the calendar in the mail file db of a recipient, in the update that delivers the
	// mail. A message without effect is no error. On a replica that is not the home it returns store.ErrNotHome.
	Apply(tx *store.Tx, recipient note.UNID, db note.DatabaseID) error
}

// invitation returns the scheduling message of a mail, nil if it has none, or if nothing verifies the author.
func (s *Depositor) invitation(ctx context.Context, raw []byte, verified bool) Invitation {
	if !verified || s.opt.Calendars == nil {
		return nil
	}
	return s.opt.Calendars.Read(ctx, raw)
}

// schedule applies the scheduling message of a mail to the calendar of a recipient who got the mail. Junk, mail of
// blocked senders and mail that the recipient's script drops change no calendar.
func (s *Depositor) schedule(tx *store.Tx, from []mime.Address, d *delivery, l *letter) error {
	if l == nil || l.invitation == nil || d.junk || d.ruling != nil && len(d.ruling.Filings) == 0 {
		return nil
	}
	w, err := tx.Database(d.database)
	if err != nil {
		return err
	}
	blocked, err := d.isBlocked(w, from)
	if err != nil || blocked {
		return err
	}
	return l.invitation.Apply(tx, d.id, d.database)
}

// toHomes leaves the deliveries of a scheduling message to the homes of the mail files: a calendar changes at its home
// alone, while mail can be delivered into any replica.
func (s *Depositor) toHomes(b *batch) {
	if b.letter.invitation == nil {
		return
	}
	b.now = slices.DeleteFunc(b.now, func(d delivery) bool {
		if !s.files.awayFromHome(d.database) {
			return false
		}
		b.later = append(b.later, d.row(queue.Pending))
		return true
	})
}

// awayFromHome reports whether another member of the cluster may be the home of a mail file.
func (s *Files) awayFromHome(db note.DatabaseID) bool {
	if s.mates == nil || s.store.Leads(db) {
		return false
	}
	_, err := s.store.Info(db)
	return err == nil || s.elsewhere(db)
}

// letterOf returns the message of a submission for scripts and calendars.
func (s *Depositor) letterOf(ctx context.Context, sub *Submission, raw []byte, returnPath int) *letter {
	l := &letter{raw: raw, returnPath: returnPath, from: sub.From, unproven: sub.Unproven,
		invitation: s.invitation(ctx, raw, !sub.unsigned && !sub.Junk)}
	if sub.Received != nil {
		l.remote, l.outside = sub.Received.IP, outside(sub)
	}
	return l
}

// outside reports whether a message comes from outside. From another place of the domain (Transit) it has the ID that
// it got there, and a checker if it came from outside there.
func outside(sub *Submission) bool {
	return sub.Received != nil && sub.Submitter == nil && (!sub.again || sub.Checker != "")
}

// letterFrom returns a message from a mate for scripts and calendars. It returns store.ErrNotHome for a scheduling
// message if another mate is the home of the mail file.
func (s *Depositor) letterFrom(ctx context.Context, h *Handed, raw []byte, from smtp.Path) (*letter, error) {
	l := &letter{raw: raw, from: from, unproven: h.Unproven, outside: h.Outside,
		invitation: s.invitation(ctx, raw, h.Proven && !h.Junk)}
	if l.invitation != nil && s.files.awayFromHome(h.Database) {
		return nil, store.ErrNotHome
	}
	if bytes.HasPrefix(raw, []byte("Return-Path:")) {
		l.returnPath = bytes.IndexByte(raw, '\n') + 1
	}
	return l, nil
}
