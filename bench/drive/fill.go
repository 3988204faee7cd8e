package drive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/bench/content"
	"doublet/bench/workload"
)

// Filled is what filling a mailbox did.
type Filled struct {
	Added, Removed int
	Bytes          uint64
}

// spacing is how far apart in time the messages of an initialised mailbox lie.
const spacing = time.Hour

// Fill brings a user's INBOX to want messages over IMAP: message i is the same for the same seed, user
// and i, so that filling that was cut short goes on where it stopped. What is above want is removed. The
// folder into which users file is made.
func (w *World) Fill(ctx context.Context, u *User, want int) (f Filled, err error) {
	opened, _, err := w.openIMAP(ctx, u)
	if err != nil {
		return f, err
	}
	s := opened.(*imapSession)
	defer w.guard(ctx, s.conn)()
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}()
	var refused *Refusal
	if err := s.command("CREATE Archive"); err != nil && !errors.As(err, &refused) { // refused where it is there
		return f, err
	}
	if err := s.command("SELECT INBOX"); err != nil {
		return f, err
	}
	have := int(s.exists)
	if have > want {
		f.Removed = have - want
		if err := s.command(fmt.Sprintf("STORE %d:* +FLAGS.SILENT (\\Deleted)", want+1)); err != nil {
			return f, err
		}
		return f, s.command("EXPUNGE")
	}
	buf := w.takeMessage()
	defer w.giveMessage(buf)
	for i := have; i < want && ctx.Err() == nil; i++ {
		m := w.initial(u, i, want)
		*buf = m.Append((*buf)[:0])
		flags := ""
		if int(m.Seed>>40%100) < w.Workload.Mailbox.Seen {
			flags = `(\Seen) `
		}
		if err := s.append(*buf, flags+m.Date.UTC().Format(`"02-Jan-2006 15:04:05 +0000" `)); err != nil {
			return f, err
		}
		f.Added++
		f.Bytes += uint64(len(*buf))
	}
	return f, nil
}

// epoch is when the last message of an initialised mailbox came.
var epoch = time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)

// initial is message i of a mailbox's first ones.
func (w *World) initial(u *User, i, of int) content.Message {
	r := mix(w.Seed, uint64(u.Index), uint64(i))
	size := workload.Pick(w.Workload.Sizes[w.Workload.Mailbox.Sizes], r)
	from := w.Users[mix(r, 1, 2)%uint64(len(w.Users))]
	return content.Message{
		From: from.Address, To: []string{u.Address}, Subject: fmt.Sprintf("%s%d of the beginning", subjectMail, i+1),
		Date: epoch.Add(-time.Duration(of-i) * spacing), ID: fmt.Sprintf("init.%d.%d.%x", u.Index, i, w.Seed),
		Body: int64(size.Body), Attachment: int64(size.Attachment), Seed: mix(r, 3, 4),
	}
}

// mix makes a random number of three (SplitMix64's finaliser over their sum of odd multiples).
func mix(a, b, c uint64) uint64 {
	z := a*0x9e3779b97f4a7c15 + b*0xbf58476d1ce4e5b9 + c*0x94d049bb133111eb + 0x2545f4914f6cdd1d
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
