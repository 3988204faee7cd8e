package drive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/bench/content"
	"doublet/bench/ledger"
	"doublet/bench/workload"
	client "doublet/client/smtp"
	"doublet/wire/smtp"
)

// Filled counts the changes that Fill made.
type Filled struct {
	Added, Removed int
	Bytes          uint64
}

// spacing is the time between two messages of an initialised mailbox.
const spacing = time.Hour

// filling is a user's INBOX while it is filled.
type filling interface {
	// count returns the number of messages.
	count() int
	// cut removes all messages after the first want.
	cut(want int) error
	add(message []byte, seen bool, date time.Time) error
	// finish ends the filling cleanly.
	finish() error
}

// Fill brings a user's mailbox to its initial state: want messages in the INBOX, with their flags, and nothing in the
// other folders, if w.Resets; otherwise it only cuts the INBOX back and tops it up. Message i is the same for the same
// seed, user and i, so Fill can resume after an interruption. Over IMAP and JMAP it also creates the folder into which
// users file; over LMTP (FillOver) messages are new and unread. If w.Plans is set, it empties the user's calendars.
func (w *World) Fill(ctx context.Context, u *User, want int) (f Filled, err error) {
	if w.Resets() {
		reset := resetIMAP
		if !w.Target.HasIMAP() {
			reset = resetJMAP
		}
		if f.Removed, err = reset(ctx, w, u, want); err != nil {
			return f, err
		}
	}
	if w.Plans {
		n, err := emptyCalendar(ctx, w, u)
		if f.Removed += n; err != nil {
			return f, err
		}
	}
	open := w.fillIMAP
	switch w.FillOver {
	case workload.LMTP:
		open = w.fillLMTP
	case workload.JMAP:
		open = w.fillJMAP
	}
	in, done, err := open(ctx, u)
	if err != nil {
		return f, err
	}
	defer done()
	defer func() {
		if cerr := in.finish(); err == nil {
			err = cerr
		}
	}()
	have := in.count()
	if have > want {
		f.Removed += have - want
		return f, in.cut(want)
	}
	buf := w.memory.takeMessage()
	defer w.memory.giveMessage(buf)
	for i := have; i < want && ctx.Err() == nil; i++ {
		m := w.initial(u, i, want)
		*buf = m.Append((*buf)[:0])
		if err := in.add(*buf, w.seenFirst(&m), m.Date); err != nil {
			return f, err
		}
		f.Added++
		f.Bytes += uint64(len(*buf))
	}
	return f, nil
}

// imapInbox fills with APPEND.
type imapInbox struct{ *imapSession }

func (w *World) fillIMAP(ctx context.Context, u *User) (filling, func(), error) {
	opened, _, err := w.openIMAP(ctx, u)
	if err != nil {
		return nil, nil, err
	}
	s := opened.(*imapSession)
	done := w.guard(ctx, s.conn)
	var refused *Refusal
	for _, folder := range []string{ledger.Archive, ledger.Calendar, sentFolder} {
		if err = s.command("CREATE " + folder); err != nil && !errors.As(err, &refused) { // refused if it exists
			break
		}
		err = nil
	}
	if err == nil {
		err = s.command("SELECT INBOX")
	}
	if err != nil {
		done()
		return nil, nil, errors.Join(err, s.Close())
	}
	return imapInbox{s}, done, nil
}

func (s imapInbox) count() int { return int(s.exists) }

func (s imapInbox) cut(want int) error {
	if err := s.command(fmt.Sprintf("STORE %d:* +FLAGS.SILENT (\\Deleted)", want+1)); err != nil {
		return err
	}
	return s.command("EXPUNGE")
}

func (s imapInbox) add(message []byte, seen bool, date time.Time) error {
	flags := ""
	if seen {
		flags = `(\Seen) `
	}
	return s.append(ledger.Inbox, message, flags+date.UTC().Format(`"02-Jan-2006 15:04:05 +0000" `))
}

func (s imapInbox) finish() error { return s.Close() }

// lmtpInbox fills over LMTP. It counts and cuts over a reading protocol: IMAP, or POP3 without IMAP.
type lmtpInbox struct {
	reader filling
	c      *client.Client
	to     smtp.Path
}

func (w *World) fillLMTP(ctx context.Context, u *User) (filling, func(), error) {
	open := w.fillIMAP
	if w.Target.Doors["imap"] == "" && w.Target.Doors["imaps"] == "" {
		open = w.fillPOP3
	}
	to, err := smtp.ParsePath(u.Address)
	if err != nil {
		return nil, nil, fmt.Errorf("drive: address of %s: %w", u.Name, err)
	}
	reader, done, err := open(ctx, u)
	if err != nil {
		return nil, nil, err
	}
	c, err := w.submission(ctx, u, true)
	if err != nil {
		done()
		return nil, nil, errors.Join(err, reader.finish())
	}
	guarded := w.guard(ctx, c)
	return &lmtpInbox{reader, c, to}, func() { guarded(); done() }, nil
}

func (l *lmtpInbox) count() int         { return l.reader.count() }
func (l *lmtpInbox) cut(want int) error { return l.reader.cut(want) }

func (l *lmtpInbox) add(message []byte, _ bool, _ time.Time) error {
	out := client.Outgoing{From: l.to, To: []smtp.Path{l.to}, Message: message, Params: smtp.MailParams{}}
	res, err := l.c.Deliver(&out)
	if err != nil {
		return fmt.Errorf("drive: fill over LMTP: %w", err)
	}
	if !res.Accepted(0) {
		return &Refusal{refusedWith(&res, 0)}
	}
	return nil
}

func (l *lmtpInbox) finish() error { return errors.Join(l.c.Quit(), l.reader.finish()) }

// pop3Inbox counts and cuts over POP3.
type pop3Inbox struct{ *pop3Session }

func (w *World) fillPOP3(ctx context.Context, u *User) (filling, func(), error) {
	opened, _, err := w.openPOP3(ctx, u)
	if err != nil {
		return nil, nil, err
	}
	s := opened.(*pop3Session)
	done := w.guard(ctx, s.c)
	if _, err := s.list(); err != nil {
		done()
		return nil, nil, errors.Join(pop3Error(err), s.c.Close())
	}
	return pop3Inbox{s}, done, nil
}

func (s pop3Inbox) count() int { return len(s.known) }

func (s pop3Inbox) cut(want int) error {
	for _, n := range s.known[want:] {
		if err := s.c.Delete(n); err != nil {
			return pop3Error(err)
		}
	}
	return nil
}

func (s pop3Inbox) add([]byte, bool, time.Time) error {
	return errors.New("drive: POP3 cannot store messages")
}

func (s pop3Inbox) finish() error { return s.Close() }

// epoch is the date of the last message of an initialised mailbox.
var epoch = time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)

// initial returns message i of a mailbox's initial content.
func (w *World) initial(u *User, i, of int) content.Message {
	r := mix(w.Seed, uint64(u.Index), uint64(i))
	size := workload.Pick(w.Workload.Sizes[w.Workload.Mailbox.Sizes], r)
	from := w.Users[mix(r, 1, 2)%uint64(len(w.Users))]
	return content.Message{
		From: from.Address, To: []string{u.Address}, Subject: fmt.Sprintf("%s%d of the beginning", subjectMail, i+1),
		Date: epoch.Add(-time.Duration(of-i) * spacing), ID: w.initialID(u, i),
		Body: int64(size.Body), Attachment: int64(size.Attachment), Seed: mix(r, 3, 4),
	}
}

func (w *World) initialID(u *User, i int) string {
	return fmt.Sprintf("init.%d.%d.%x", u.Index, i, w.Seed)
}

// mix returns a pseudo-random number derived from three numbers (SplitMix64's finaliser over their sum of odd
// multiples).
func mix(a, b, c uint64) uint64 {
	z := a*0x9e3779b97f4a7c15 + b*0xbf58476d1ce4e5b9 + c*0x94d049bb133111eb + 0x2545f4914f6cdd1d
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
