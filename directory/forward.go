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

// Bounds of what a person's mail is told to do.
const (
	maxForward      = 20
	maxSenders      = 1000
	maxVacationText = 64 << 10
	maxSubject      = 500
)

const itemVacation = "Vacation"

// Vacation is a notice that senders get while a person is away.
type Vacation struct {
	On bool
	// Subject may be empty: then it is made of the message's own. Text is what the notice says.
	Subject, Text string
	// From and Until bound the time in which it is sent; zero is no bound.
	From, Until time.Time
	// Days is after how many days a sender is told again: 7 where 0.
	Days int
}

// Active says whether the notice is sent at a time.
func (v *Vacation) Active(now time.Time) bool {
	return v.On && (v.From.IsZero() || !now.Before(v.From)) && (v.Until.IsZero() || now.Before(v.Until))
}

// write keeps a vacation in one item, so that two changes of it never mix: on, days, from, until,
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
	_, _ = fmt.Sscan(list[1], &v.Days) // what is no number is 0: the default
	v.From, _ = time.Parse(time.RFC3339, list[2])
	v.Until, _ = time.Parse(time.RFC3339, list[3])
	v.Subject, v.Text = list[4], list[5]
	return v
}

// checkForward checks and tidies what a person's mail is told to do.
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
		return fmt.Errorf("%w vacation of %q: the subject is one line of at most %d bytes", ErrInvalid, f.Name(), maxSubject)
	case len(v.Text) > maxVacationText || strings.IndexByte(v.Text, 0) >= 0:
		return fmt.Errorf("%w vacation of %q: the text has at most %d bytes", ErrInvalid, f.Name(), maxVacationText)
	case v.On && strings.TrimSpace(v.Text) == "":
		return fmt.Errorf("%w vacation of %q: it says nothing", ErrInvalid, f.Name())
	case v.Days < 0 || v.Days > 365:
		return fmt.Errorf("%w vacation of %q: senders are told again after 1 to 365 days", ErrInvalid, f.Name())
	}
	return nil
}

// checkRights turns who may use an address into UNIDs.
func checkRights(r *store.Reader, lists ...*[]string) error {
	for _, list := range lists {
		if len(*list) > maxSenders {
			return fmt.Errorf("%w: more than %d who may use an address", ErrTooMany, maxSenders)
		}
		seen := make(map[string]bool, len(*list))
		out := (*list)[:0:0]
		for _, m := range *list {
			id, err := personOrGroup(r, m)
			if err != nil {
				return fmt.Errorf("who may send: %.80q: %w", m, err)
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
		return u.String(), nil // one that was removed means nobody, and does no harm
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

// SetVacation changes the notice of the person who asks: it is each person's own to say. Times count in seconds.
func (ps *People) SetVacation(ctx context.Context, who note.Who, fn func(*Vacation) error) error {
	if who.Person.IsZero() {
		return store.ErrDenied
	}
	_, err := ps.Set(ctx, note.System, who.Person, func(f *PersonFields) error {
		if err := fn(&f.Vacation); err != nil {
			return err
		}
		f.Vacation.From, f.Vacation.Until = f.Vacation.From.Truncate(time.Second), f.Vacation.Until.Truncate(time.Second)
		return nil
	})
	return err
}
