package probe

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// Silence keeps the events of some targets from being notified for a time. They are recorded all the same. After it the
// channels are notified of those that are open then, and of the end of those that they know as open.
type Silence struct {
	ID string `json:"id"`
	// Probe and Target are patterns, in which * is any text. Empty: any.
	Probe  string    `json:"probe,omitempty"`
	Target string    `json:"target,omitempty"`
	Until  time.Time `json:"until"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// longestSilence bounds how far in the future a silence ends, so that a forgotten one does not hide problems forever.
const longestSilence = 365 * 24 * time.Hour

func (s *Silence) unid() note.UNID {
	return note.DeriveUNID([]byte("silence"), []byte(s.Probe), []byte(s.Target))
}

func (s *Silence) items() note.Items {
	return note.MakeItems(textItem(itemForm, formSilence), textItem(itemProbe, s.Probe), textItem(itemTarget, s.Target),
		timeItem(itemSilenced, s.Until), textItem(itemBy, s.By), textItem(itemComment, s.Reason))
}

func parseSilence(it note.Items) *Silence {
	s := &Silence{Probe: it.Get(itemProbe).AsText(), Target: it.Get(itemTarget).AsText(),
		Until: timeOf(it, itemSilenced), By: it.Get(itemBy).AsText(), Reason: it.Get(itemComment).AsText()}
	s.name()
	return s
}

func (s *Silence) name() {
	id := s.unid()
	s.ID = hex.EncodeToString(id[:6])
}

func (s *Silence) fits(e *Event) bool {
	return matches(s.Probe, e.Probe) && matches(s.Target, e.Target)
}

// matches reports whether a text fits a pattern, in any case. The pattern was checked when it was stored.
func matches(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "/", "\x00") } // * is a slash too
	ok, _ := path.Match(fold(pattern), fold(text))
	return ok
}

// silenced reports whether an event is silenced, by itself or by a silence in effect. The caller holds mu.
func (l *Log) silenced(e *Event) bool {
	now := l.env.Clock.Now()
	if now.Before(e.Silenced) {
		return true
	}
	for _, s := range l.silences {
		if now.Before(s.Until) && s.fits(e) {
			return true
		}
	}
	return false
}

// Silences returns the silences in effect, the one that ends first at first.
func (l *Log) Silences() []Silence {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, now := []Silence{}, l.env.Clock.Now()
	for _, s := range l.silences {
		if now.Before(s.Until) {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b Silence) int {
		return cmp.Or(a.Until.Compare(b.Until), strings.Compare(a.ID, b.ID))
	})
	return list
}

// Silence stores a silence. One of the same probe and target is replaced.
func (l *Log) Silence(ctx context.Context, s Silence) (Silence, error) {
	now := l.env.Clock.Now()
	if err := checkUntil(now, s.Until); err != nil {
		return s, err
	}
	if s.Probe == "" && s.Target == "" {
		return s, fmt.Errorf("%w: a silence needs a probe or a target", ErrInvalid)
	}
	for _, text := range []string{s.Probe, s.Target, s.Reason, s.By} {
		if len(text) > maxTarget {
			return s, fmt.Errorf("%w: a text has more than %d bytes", ErrInvalid, maxTarget)
		}
	}
	for _, pattern := range []string{s.Probe, s.Target} {
		if _, err := path.Match(pattern, ""); err != nil {
			return s, fmt.Errorf("%w: pattern %q: %w", ErrInvalid, pattern, err)
		}
	}
	s.Until = s.Until.UTC().Truncate(time.Second)
	s.name()
	l.changing.Lock()
	defer l.changing.Unlock()
	if list := l.Silences(); len(list) >= maxSilences &&
		!slices.ContainsFunc(list, func(x Silence) bool { return x.ID == s.ID }) {
		return s, fmt.Errorf("%w: there are %d silences already", ErrInvalid, len(list))
	}
	return s, l.setSilence(ctx, s)
}

// EndSilence ends a silence.
func (l *Log) EndSilence(ctx context.Context, id string) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	list := l.Silences()
	i := slices.IndexFunc(list, func(s Silence) bool { return s.ID == strings.ToLower(id) })
	if i < 0 {
		return fmt.Errorf("%w: silence %q", ErrNoEvent, cut(id, maxTarget))
	}
	list[i].Until = time.Time{}
	return l.setSilence(ctx, list[i])
}

// setSilence writes a silence. One that has ended is removed by Thin. The caller holds changing.
func (l *Log) setSilence(ctx context.Context, s Silence) error {
	err := l.update(ctx, func(w *store.Writer) error {
		return w.Put(s.unid(), note.Document, note.Content{Items: s.items()})
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silences[s.unid()] = &s; s.Until.IsZero() {
		delete(l.silences, s.unid())
	}
	return nil
}

func checkUntil(now, until time.Time) error {
	if !until.After(now) || until.Sub(now) > longestSilence {
		return fmt.Errorf("%w: a silence ends in the future, within %d days", ErrInvalid,
			int(longestSilence/(24*time.Hour)))
	}
	return nil
}

// edit changes an event for a person. It returns when the change is durable; if it cannot be written, nothing has
// changed. what is the entry in the history.
func (l *Log) edit(ctx context.Context, id, by, what string, fn func(*Event) error) (Event, error) {
	l.changing.Lock()
	defer l.changing.Unlock()
	found, err := l.Event(id)
	if err != nil {
		return Event{}, err
	}
	e := found.clone()
	if err := fn(e); err != nil {
		return Event{}, err
	}
	now := l.env.Clock.Now().UTC()
	e.remember(now, by, what)
	key := unid(e.Probe, e.Target)
	err = l.update(ctx, func(w *store.Writer) error {
		return w.Put(key, note.Document, note.Content{Items: e.items()})
	})
	if err != nil {
		return Event{}, err
	}
	e.saved = now
	l.put(e, same)
	l.count()
	return *e, nil
}

// Assign makes a person responsible for an event, nobody if person is empty.
func (l *Log) Assign(ctx context.Context, id, by, person string) (Event, error) {
	what := "assigned to " + person
	if person == "" {
		what = "assigned to nobody"
	}
	return l.edit(ctx, id, by, what, func(e *Event) error {
		e.Assigned = person
		return checkText(person, maxTarget)
	})
}

// Comment replaces the comment of an event.
func (l *Log) Comment(ctx context.Context, id, by, text string) (Event, error) {
	return l.edit(ctx, id, by, "comment: "+text, func(e *Event) error {
		e.Comment = text
		return checkText(text, maxText)
	})
}

func checkText(text string, limit int) error {
	if len(text) > limit {
		return fmt.Errorf("%w: the text has more than %d bytes", ErrInvalid, limit)
	}
	return nil
}

// SilenceEvent keeps one event from being notified until a time; the zero time ends that.
func (l *Log) SilenceEvent(ctx context.Context, id, by string, until time.Time) (Event, error) {
	what := "silenced until " + until.UTC().Format(time.RFC3339)
	if until.IsZero() {
		what = "not silenced any more"
	} else if err := checkUntil(l.env.Clock.Now(), until); err != nil {
		return Event{}, err
	}
	return l.edit(ctx, id, by, what, func(e *Event) error {
		if e.Silenced = until; !until.IsZero() {
			e.Silenced = until.UTC().Truncate(time.Second)
		}
		return nil
	})
}

// Close closes an event. It opens again when its cause has gone away and returns, or becomes more severe. A permanently
// closed event stays closed until Reopen.
func (l *Log) Close(ctx context.Context, id, by string, permanently bool) (Event, error) {
	what := StateClosed
	if permanently {
		what = StatePermanent
	}
	return l.edit(ctx, id, by, string(what), func(e *Event) error {
		e.State, e.dismissed, e.Changed = what, true, l.env.Clock.Now().UTC()
		return nil
	})
}

// Reopen makes a closed event open again at its next finding.
func (l *Log) Reopen(ctx context.Context, id, by string) (Event, error) {
	return l.edit(ctx, id, by, "may open again", func(e *Event) error {
		if e.State == StateOpen {
			return fmt.Errorf("%w: the event is open", ErrInvalid)
		}
		e.State, e.dismissed, e.Changed = StateClosed, false, l.env.Clock.Now().UTC()
		return nil
	})
}
