package mail

import (
	"context"
	"errors"
	"fmt"

	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// errNeedWarning means that a quota warning is due and must be composed before the update.
var errNeedWarning = errors.New("mail: a quota warning is needed")

// quotaWarning warns the owner of a mail file when a delivery makes it larger than the warning threshold. It does so
// once, until the file is smaller again.
func (s *personal) quotaWarning(w *store.Writer, b *batch, d *delivery) error {
	if d.warning == 0 {
		return nil
	}
	// The size does not include this delivery yet.
	over := mailbox.Used(&w.Reader)+b.size > d.warning
	fresh := false
	err := s.profile(w, d.database, quotaProfile, func(items note.Items) note.Items {
		warned := items.Get(itemWarned) != nil
		switch {
		case over && !warned:
			fresh = true
			return items.With(itemWarned, note.Int(s.env.Clock.Now().Unix()))
		case !over && warned:
			return items.With(itemWarned, nil)
		}
		return items
	})
	if err != nil || !fresh {
		return err
	}
	if d.warned == nil {
		d.used = mailbox.Used(&w.Reader) + b.size
		d.warn = true
		return errNeedWarning
	}
	d.warned.due = true
	return nil
}

// composeWarnings composes the warnings that an update asked for.
func (s *personal) composeWarnings(ctx context.Context, b *batch) error {
	for i := range b.now {
		d := &b.now[i]
		if !d.warn || d.warned != nil {
			continue
		}
		p, err := s.dir.Names.Person(ctx, d.id)
		if err != nil {
			return fmt.Errorf("quota warning: %w", err)
		}
		to := p.InternetAddress
		if to == "" {
			to = d.from.To.String()
		}
		n := notice{
			from: "postmaster@" + domainOf(to), fromName: "Mail server", to: to, auto: "auto-generated",
			id:      note.DeriveUNID(b.entry.ID[:], []byte("quota "+p.ID.String())),
			subject: "Your mail file is nearly full",
		}
		n.text = fmt.Sprintf("Your mail file on %s holds %s; you are warned from %s.\n", s.hostname, megabytes(d.used),
			megabytes(d.warning))
		if d.quota > 0 {
			n.text += fmt.Sprintf("Above %s new mail is refused.\n", megabytes(d.quota))
		}
		n.text += "\nPlease delete what you do not need any more, and empty the Trash.\n"
		rows := []queue.Recipient{{Address: to, Name: p.Name(), Target: p.ID, Kind: d.kind, State: queue.Pending,
			Notify: smtp.NotifyNever}}
		if d.warned, err = s.follow.send(ctx, b, "quota "+p.ID.String(), s.follow.compose(&n), len(nullReturnPath),
			nullPath, rows); err != nil {
			return err
		}
		d.warned.asks = true
	}
	return nil
}

func megabytes(n uint64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
