package mail

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/directory"
	"doublet/mail/fields"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// The state of vacation notices and quota warnings is in profile notes of the mail file, so that it moves with the
// file.
const (
	vacationProfile = "VacationReplies"
	quotaProfile    = "QuotaWarning"
	itemReplied     = "Replied" // "unix-seconds address", the oldest first
	itemWarned      = "Warned"  // Unix seconds
)

// maxReplied is the maximum number of senders in the list of those who got a vacation notice. A sender that drops out
// of the list may get another notice.
const maxReplied = 1000

// wantsVacation reports whether a vacation notice may be sent in reply to a message.
//
// Implements: RFC 3834 §2 When not to send automatic responses
func (s *personal) wantsVacation(sub *Submission, b *batch, h *fields.Facts, i int, p *directory.Person) bool {
	d := &b.now[i]
	switch {
	case !p.Vacation.Active(s.env.Clock.Now()), sub.Junk, sub.Unproven, d.member &&
		d.from.Target.Kind == directory.TargetGroup:
		return false
	}
	return answerable(h, sub.From, append(slices.Clone(p.Addresses()), d.from.To.String()))
}

// answerable reports whether a message with the header h is from a person, to one of the addresses own.
func answerable(h *fields.Facts, from smtp.Path, own []string) bool {
	switch {
	case h.Auto != "", h.List, h.Precedence == "bulk", h.Precedence == "list", h.Precedence == "junk",
		fields.Machine(from):
		return false
	}
	return !slices.ContainsFunc(own, func(a string) bool { return strings.EqualFold(a, from.String()) }) && h.Names(own)
}

// vacations composes the vacation notices for a message.
//
// Implements: RFC 3834 §3 Fields of automatic responses
func (s *personal) vacations(ctx context.Context, sub *Submission, b *batch) error {
	if b.whole || !b.answered {
		return nil
	}
	rows, err := s.follow.address(ctx, sub.From.String(), 0)
	if err != nil || len(rows) == 0 {
		return err
	}
	h := fields.ReadFacts(sub.Message)
	for i := range b.now {
		d := &b.now[i]
		if d.vacation == nil {
			continue
		}
		p, err := s.dir.Names.Person(ctx, d.id)
		if err != nil {
			return err
		}
		n := vacationNotice(&p, d.from.To.String(), h)
		n.to, n.id = sub.From.String(), note.DeriveUNID(b.entry.ID[:], []byte("vacation "+p.ID.String()))
		o, err := s.follow.send(ctx, b, "vacation "+p.ID.String(), s.follow.compose(&n), len(nullReturnPath),
			nullPath, rows)
		if err != nil {
			return err
		}
		o.asks = true
		d.vacation, d.days = o, max(p.Vacation.Days, 0)
	}
	return nil
}

// vacationNotice returns a person's reply to a message with the header h that was sent to an address.
func vacationNotice(p *directory.Person, address string, h *fields.Facts) notice {
	n := notice{from: cmp.Or(p.InternetAddress, address), fromName: p.Name(), auto: "auto-replied",
		subject: p.Vacation.Subject, text: p.Vacation.Text}
	if len(h.References) < 900 && fields.Ascii([]byte(h.References)) {
		n.refs = h.References
	}
	if len(h.ID) > 2 && h.ID[0] == '<' && fields.Ascii([]byte(h.ID)) && len(h.ID) < 500 {
		n.inReplyTo = h.ID
	}
	if n.subject == "" {
		n.subject = "Auto: " + mime.DecodeWords(h.Subject)
	}
	return n
}

// maxInterval is the longest interval of vacation notices.
const maxInterval = 90 * 24 * time.Hour

// firstNotice reports whether a sender gets a notice now, and records that. key is the sender's address, and the handle
// of the notice if a script sends it.
func (s *personal) firstNotice(w *store.Writer, db note.DatabaseID, key string, interval time.Duration) (bool, error) {
	now, first := s.env.Clock.Now(), true
	err := s.profile(w, db, vacationProfile, func(items note.Items) note.Items {
		var keep []string
		for _, line := range items.Get(itemReplied).AsTextList() {
			at, who, _ := strings.Cut(line, " ")
			sec, _ := strconv.ParseInt(at, 10, 64)
			age := now.Sub(time.Unix(sec, 0))
			if age >= maxInterval || who == key && age >= interval {
				continue
			}
			first = first && who != key
			keep = append(keep, line)
		}
		if !first {
			return items
		}
		keep = append(keep[max(0, len(keep)-maxReplied+1):], strconv.FormatInt(now.Unix(), 10)+" "+key)
		return items.With(itemReplied, note.TextList(keep...))
	})
	return first, err
}

// profile calls fn to change the items of a profile note of a mail file. It writes nothing if fn changes nothing.
func (s *personal) profile(w *store.Writer, db note.DatabaseID, name string, fn func(note.Items) note.Items) error {
	id := note.DeriveUNID([]byte(name), []byte(db.String()))
	n, err := w.Find(id)
	if errors.Is(err, store.ErrNotFound) {
		items := note.MakeItems(note.Item{Name: outItemForm, Value: note.Text(name)})
		next := fn(items)
		if len(next) == len(items) {
			return nil
		}
		_, err = w.Create(store.New{UNID: id, Class: note.Profile, Content: note.Content{Items: next}})
		return err
	}
	if errors.Is(err, store.ErrGrave) {
		return nil // deleted by a user: do without it
	}
	if err != nil {
		return err
	}
	c, err := w.Content(n)
	if err != nil {
		return err
	}
	next := fn(c.Content.Items)
	if slices.EqualFunc(next, c.Content.Items,
		func(a, b note.Item) bool { return a.Name == b.Name && string(a.Value) == string(b.Value) }) {
		return nil
	}
	if err := w.Rewrite(n, note.Content{Items: next}); err != nil {
		return err
	}
	return w.Prune(n, 2)
}
