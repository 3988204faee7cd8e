package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	client "doublet/client/jmap"
	wire "doublet/wire/jmap"
)

// known holds the states that the client knows.
type known struct{ emails, boxes string }

// news are the calls that ask for what changed since the known states (syncCalls in web/src/state/mail.ts).
type news struct {
	since         known
	boxes, emails client.Handle
}

// askNews adds the calls for what changed.
func (s *webSession) askNews(r *client.Request) news {
	s.view.mu.Lock()
	n := news{since: s.view.known}
	s.view.mu.Unlock()
	n.boxes = r.Changes("Mailbox", s.account, n.since.boxes, 0)
	r.GetReferred("Mailbox", s.account, n.boxes.At("/created"))
	r.Call("Mailbox/get", func(w *wire.Writer) {
		w.Text("accountId", s.account)
		w.Refer("ids", n.boxes.At("/updated"))
		w.Refer("properties", n.boxes.At("/updatedProperties"))
	})
	n.emails = r.Changes("Email", s.account, n.since.emails, webChanges)
	return n
}

// takeNews applies the answers to askNews, and requests the rows of changed Emails that are shown; more reports further
// changes. With own, the view has the changes already.
func (s *webSession) takeNews(ctx context.Context, out *client.Response, n news, own bool) (more bool,
	err error) {
	boxes, err := out.Get(n.boxes)
	if err != nil {
		return false, err
	}
	emails, err := out.Get(n.emails)
	if err != nil {
		return false, err
	}
	now := known{strings.Clone(stateOf(emails, "newState")), strings.Clone(stateOf(boxes, "newState"))}
	if now.emails == "" || now.boxes == "" {
		return false, fmt.Errorf("%w: changes without a state", client.ErrProtocol)
	}
	ids := texts(emails.Get("created"))
	view := &s.view
	view.mu.Lock()
	for _, id := range texts(emails.Get("updated")) {
		if _, shown := view.rows[id]; shown {
			ids = append(ids, id)
		}
	}
	view.mu.Unlock()
	if len(ids) > 0 && !own {
		if err := s.rows(ctx, ids); err != nil {
			return false, err
		}
	}
	view.mu.Lock()
	defer view.mu.Unlock()
	for _, id := range texts(emails.Get("destroyed")) {
		delete(view.rows, id)
		delete(view.bodies, id)
	}
	view.known = now
	more, _ = emails.Get("hasMoreChanges").Bool()
	further, _ := boxes.Get("hasMoreChanges").Bool()
	return more || further, nil
}

// update asks for changes.
func (s *webSession) update(ctx context.Context) error {
	for more := true; more; {
		r := client.NewRequest(webUsing...)
		n := s.askNews(r)
		out, err := s.c.Do(ctx, r)
		if err == nil {
			more, err = s.takeNews(ctx, out, n, false)
		}
		if uncountable(err) {
			return s.anew(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uncountable reports that the server cannot calculate the changes.
func uncountable(err error) bool {
	var refused *wire.Error
	return errors.As(err, &refused) && refused.Type == "cannotCalculateChanges"
}

// anew asks for the states, and for all mailboxes.
func (s *webSession) anew(ctx context.Context) error {
	r := client.NewRequest(webUsing...)
	boxes, emails := r.Get("Mailbox", s.account, nil), r.Get("Email", s.account, []string{})
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return err
	}
	b, err := out.Get(boxes)
	if err != nil {
		return err
	}
	e, err := out.Get(emails)
	if err != nil {
		return err
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.view.known = known{strings.Clone(stateOf(e, "state")), strings.Clone(stateOf(b, "state"))}
	return nil
}

// heed applies the news that came with the answer to a change of Emails (settled in web/src/state/mail.ts). If they
// tell of this change alone, and it moved nothing, nothing is left to do; else the list, or all changes, are requested
// in the background.
func (s *webSession) heed(ctx context.Context, out *client.Response, set client.Handle, n news, ids []string,
	moved bool) error {
	s.mu.Lock()
	heard, busy := s.heard, s.asking
	s.heard, s.telling = nil, false
	s.mu.Unlock()
	answer, err := out.Get(set)
	if err != nil {
		return err
	}
	emails, err := out.Get(n.emails)
	if err != nil || busy || stateOf(emails, "oldState") != s.view.states().emails {
		s.later(beside{ask: true, list: true})
		return nil //nolint:nilerr // the change is done; the background work asks again
	}
	more, _ := emails.Get("hasMoreChanges").Bool()
	own := !more && stateOf(answer, "oldState") == n.since.emails &&
		stateOf(answer, "newState") == stateOf(emails, "newState") &&
		emails.Get("created").Len() == 0 && emails.Get("destroyed").Len() == 0
	for _, id := range texts(emails.Get("updated")) {
		own = own && slices.Contains(ids, id)
	}
	if more, err = s.takeNews(ctx, out, n, own); err != nil {
		if uncountable(err) {
			s.later(beside{ask: true, list: true})
			return nil
		}
		return err
	}
	more = more || s.view.behind(heard[s.account])
	if more || moved || !own {
		s.later(beside{ask: more, list: true})
	}
	return nil
}

// hear handles a push. A push that comes during a change may be about that change, so it waits for the answer.
func (s *webSession) hear(c client.Changed) {
	s.mu.Lock()
	if s.telling {
		s.heard = c
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	if s.view.behind(c[s.account]) {
		s.later(beside{ask: true, list: true})
	}
}

// states returns the known states.
func (v *view) states() known {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known
}

// behind reports that pushed states are not the known ones.
func (v *view) behind(pushed map[string]string) bool {
	k := v.states()
	emails, boxes := pushed["Email"], pushed["Mailbox"]
	return emails != "" && emails != k.emails || boxes != "" && boxes != k.boxes
}
