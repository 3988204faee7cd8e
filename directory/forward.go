package directory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// Limits of forwarding, send rights and vacation notices.
const (
	maxForward      = 20
	maxSenders      = 1000
	maxVacationText = 64 << 10
	maxSubject      = 500
)

const itemVacation = "Vacation"

// Vacation is a notice that is sent to senders while a person is away.
type Vacation struct {
	On bool
	// Subject may be empty: the notice then derives its subject from the message. Text is the body of the notice.
	Subject, Text string
	// From and Until limit the time in which notices are sent; zero is no limit.
	From, Until time.Time
	// Days is the number of days after which a sender gets another notice; 0 means 7.
	Days int
}

// Active reports whether notices are sent at a time.
func (v *Vacation) Active(now time.Time) bool {
	return v.On && (v.From.IsZero() || !now.Before(v.From)) && (v.Until.IsZero() || now.Before(v.Until))
}

// write stores a vacation in one item, so that concurrent changes at two replicas never mix: on, days, from, until,
// subject, text.
func (v *Vacation) write(f *fields) {
	var list []string
	if *v != (Vacation{}) {
		on := ""
		if v.On {
			on = "on"
		}
		list = []string{on, fmt.Sprint(v.Days), stampText(v.From), stampText(v.Until), v.Subject, v.Text}
	}
	f.list(itemVacation, list)
}

func stampText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func readVacation(items note.Items) (v Vacation) {
	list := items.Get(itemVacation).AsTextList()
	if len(list) != 6 {
		return v
	}
	v.On = list[0] == "on"
	_, _ = fmt.Sscan(list[1], &v.Days) // a malformed number leaves 0, the default
	v.From, _ = time.Parse(time.RFC3339, list[2])
	v.Until, _ = time.Parse(time.RFC3339, list[3])
	v.Subject, v.Text = list[4], list[5]
	return v
}

// checkForward checks and normalizes the forwarding and vacation fields of a person.
func checkForward(f *PersonFields) error {
	if len(f.Forward) > maxForward {
		return fmt.Errorf("%w person %q: mail is forwarded to at most %d addresses", ErrInvalid, f.Name(), maxForward)
	}
	for _, a := range f.Forward {
		if _, err := ParseAddress(a); err != nil {
			return fmt.Errorf("forward: %w", err)
		}
	}
	if len(f.Forward) == 0 {
		f.ForwardOnly = false
	}
	v := &f.Vacation
	switch {
	case len(v.Subject) > maxSubject || strings.ContainsAny(v.Subject, "\r\n\x00"):
		return fmt.Errorf("%w vacation of %q: the subject is one line of at most %d bytes", ErrInvalid, f.Name(),
			maxSubject)
	case len(v.Text) > maxVacationText || strings.IndexByte(v.Text, 0) >= 0:
		return fmt.Errorf("%w vacation of %q: the text has at most %d bytes", ErrInvalid, f.Name(), maxVacationText)
	case v.On && strings.TrimSpace(v.Text) == "":
		return fmt.Errorf("%w vacation of %q: the message is empty", ErrInvalid, f.Name())
	case v.Days < 0 || v.Days > 365:
		return fmt.Errorf("%w vacation of %q: interval must be 1 to 365 days", ErrInvalid, f.Name())
	}
	return nil
}

// checkRights replaces names and addresses in lists of permitted senders by UNIDs.
func checkRights(r *store.Reader, lists ...*[]string) error {
	for _, list := range lists {
		if len(*list) > maxSenders {
			return fmt.Errorf("%w: more than %d users of an address", ErrTooMany, maxSenders)
		}
		seen := make(map[string]bool, len(*list))
		out := (*list)[:0:0]
		for _, m := range *list {
			id, err := personOrGroup(r, m)
			if err != nil {
				return fmt.Errorf("permitted sender %.80q: %w", m, err)
			}
			if !seen[id] {
				seen[id] = true
				out = append(out, id)
			}
		}
		*list = out
	}
	return nil
}

func personOrGroup(r *store.Reader, m string) (string, error) {
	if u, err := note.ParseUNID(strings.ToLower(m)); err == nil {
		return u.String(), nil // the UNID of a removed entry grants nothing
	}
	k := keyOf(m)
	if k == nil {
		return "", fmt.Errorf("%w name", ErrInvalid)
	}
	t, err := lookup(r, k)
	if errors.Is(err, ErrNotFound) && k[0] == 'a' {
		if a, bad := parseAddress(m); bad == nil {
			t, err = byAddress(r, a)
		}
	}
	switch {
	case errors.Is(err, ErrNotFound), err == nil && t.Kind == TargetMailIn:
		return "", fmt.Errorf("%w: no person or group has that name", ErrNotFound)
	case err != nil:
		return "", err
	}
	return t.ID.String(), nil
}

// SetVacation changes the caller's own vacation notice. No role is needed. Times are truncated to seconds.
func (ps *People) SetVacation(ctx context.Context, who note.Who, fn func(*Vacation) error) error {
	if who.Person.IsZero() {
		return store.ErrDenied
	}
	_, err := ps.Set(ctx, note.System, who.Person, func(f *PersonFields) error {
		if err := fn(&f.Vacation); err != nil {
			return err
		}
		f.Vacation.From, f.Vacation.Until = f.Vacation.From.Truncate(time.Second),
			f.Vacation.Until.Truncate(time.Second)
		return nil
	})
	return err
}
