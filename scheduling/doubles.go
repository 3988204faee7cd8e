package scheduling

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/mail"
	"doublet/mail/fields"
	"doublet/note"
	"doublet/wire/ical"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// doubles declines the bookings of a room that overlap an earlier one, and writes to both organizers. There are such
// bookings after a split of the cluster in which both sides had a primary of the room's database.
func (x *Reserver) doubles(ctx context.Context, taken []*booking) error {
	type span struct {
		calendar.Period
		of *booking
	}
	var list []span
	for _, b := range taken {
		zone := ical.Named(b.room.Resource.TimeZone)
		times, _ := x.s.times(&b.room.Resource, b.object, zone)
		for _, p := range times {
			list = append(list, span{p, b})
		}
	}
	slices.SortFunc(list, func(a, b span) int {
		return cmp.Or(a.From.Compare(b.From), strings.Compare(a.of.entry.UID, b.of.entry.UID))
	})
	lost := map[*booking]bool{}
	for i := range list {
		for k := i + 1; k < len(list) && list[k].From.Before(list[i].To); k++ {
			a, b := list[i].of, list[k].of
			if a == b || lost[a] || lost[b] {
				continue
			}
			if later(a, b) {
				a, b = b, a
			}
			if err := x.double(ctx, a, b, list[k].From); err != nil {
				return err
			}
			lost[b] = true
		}
	}
	return nil
}

// later reports whether a booking was answered after another one. A booking that its owners have not confirmed is later
// than one that is confirmed.
func later(a, b *booking) bool {
	if x, y := itip.Status(a.object, a.me), itip.Status(b.object, b.me); x != y {
		return x == "TENTATIVE"
	}
	x, y := itip.AnsweredAt(a.object, a.me), itip.AnsweredAt(b.object, b.me)
	if !x.Equal(y) {
		return x.After(y)
	}
	return a.entry.UID > b.entry.UID
}

// double declines the booking of loser, which overlaps that of winner at a time.
func (x *Reserver) double(ctx context.Context, winner, loser *booking, at time.Time) error {
	for _, w := range []struct {
		of   *booking
		text string
	}{
		{loser, "Your booking was declined: another one of this time was earlier."},
		{winner, "Your booking stands; the other one was declined."},
	} {
		if err := x.s.tellDouble(ctx, w.of, winner, loser, at, w.text); err != nil {
			return err
		}
	}
	if err := x.s.answer(ctx, loser, "DECLINED", ""); err != nil {
		return err
	}
	x.s.stats.doubles.Inc()
	return nil
}

// tellDouble sends a mail about a double booking to the organizer of one of the bookings, once. It names nothing of the
// booking of somebody else.
func (s *Service) tellDouble(ctx context.Context, b, winner, loser *booking, at time.Time, text string) error {
	address := organizerOf(b.object)
	to, err := smtp.ParsePath(address)
	if err != nil {
		return nil //nolint:nilerr // nobody can be told
	}
	from, err := smtp.ParsePath(b.room.InternetAddress)
	if err != nil {
		return nil //nolint:nilerr // a room without an address sends nothing
	}
	id := note.DeriveUNID([]byte("double booking"), b.room.ID[:], []byte(winner.object.UID), []byte(loser.object.UID),
		[]byte(at.UTC().Format(time.RFC3339)+address+text))
	title := strings.Join(strings.Fields(b.object.Parts[0].Text("SUMMARY")), " ")
	body := title + "\r\n" + at.UTC().Format("Mon, 2 Jan 2006 15:04 UTC") + "\r\n\r\n" + b.room.Name +
		" was booked twice at this time, while servers could not reach each other. " + text + "\r\n"
	raw := []byte("From: " + fields.DisplayName(b.room.Name) + " <" + b.room.InternetAddress + ">\r\nTo: <" + address +
		">\r\nSubject: " + fields.Encode("Booked twice: "+strings.ToValidUTF8(title[:min(len(title), 200)], "")) +
		"\r\nDate: " + s.env.Clock.Now().UTC().Format(fields.DateFormat) + "\r\nMessage-ID: <" + id.String() + "@" +
		s.opt.Hostname + ">\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n" +
		"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n")
	raw = mime.AppendBase64Lines(raw, []byte(strings.ToValidUTF8(body, "\ufffd")), 76, true)
	_, err = s.mail.Send(ctx, &mail.Submission{ID: id, From: from, Message: raw, Answer: mail.AnswerNone},
		[]mail.Addressee{{To: to, Params: smtp.RcptParams{Notify: smtp.NotifyNever}}}, time.Time{})
	return err
}
