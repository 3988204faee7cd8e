package drive

import (
	"context"
	"errors"
	"fmt"

	"doublet/bench/content"
	client "doublet/client/jmap"
	wire "doublet/wire/jmap"
)

// mostTries is the number of times that the client sends a message again at once if other changes come between.
const mostTries = 10

// submit sends a message with the requests of the client: the look for what an earlier request sent, the message with
// its submission, and the end of its draft. Like the client it repeats the first two if the Emails change in between.
func (s *webSession) submit(ctx context.Context, l *letter) error {
	for tries := 0; ; tries++ {
		state, err := l.unsent(ctx, s)
		if err == nil {
			err = l.submitIn(ctx, s, state)
		}
		var refused *wire.Error
		if errors.As(err, &refused) && refused.Type == "stateMismatch" && tries < mostTries {
			continue
		}
		if err != nil {
			return err
		}
		return s.conclude(ctx, l)
	}
}

// unsent returns the state of the Emails in which neither Sent nor Drafts has the message.
func (l *letter) unsent(ctx context.Context, s *webSession) (string, error) {
	r := client.NewRequest(webUsing...)
	now := r.Get("Email", s.account, []string{}, "id")
	var found []client.Handle
	for _, folder := range []string{s.sent, s.drafts} {
		found = append(found, r.Query("Email", s.account, &client.Query{Limit: 1, Filter: func(f *wire.Writer) {
			f.Text("operator", "AND")
			list(f, "conditions", []bool{true, false}, func(c *wire.Writer, place bool) {
				if place {
					c.Text("inMailbox", folder)
				} else {
					c.Strings("header", "Message-ID", l.ID+"@"+content.Domain)
				}
			})
		}}))
	}
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return "", err
	}
	for _, h := range found {
		v, err := out.Get(h)
		if err != nil {
			return "", err
		}
		if v.Get("ids").Len() != 0 {
			return "", &Refusal{"a message that was not sent is among those that were"}
		}
	}
	v, err := out.Get(now)
	if err != nil {
		return "", err
	}
	state, _ := v.Get("state").Text()
	return state, nil
}

// submitIn makes the message and submits it, if the Emails are in a state.
func (l *letter) submitIn(ctx context.Context, s *webSession, state string) error {
	r := client.NewRequest(webUsing...)
	made := r.Set("Email", s.account, &client.Set{
		Create: map[string]func(*wire.Writer){"m": func(w *wire.Writer) { s.email(w, l, true) }},
		More:   func(w *wire.Writer) { w.Text("ifInState", state) },
	})
	sent := r.Set("EmailSubmission", s.account, &client.Set{
		Create: map[string]func(*wire.Writer){"s": func(w *wire.Writer) {
			w.Text("emailId", "#m")
			w.Text("identityId", s.identity)
			w.Object("envelope", func(e *wire.Writer) {
				e.Object("mailFrom", func(a *wire.Writer) { a.Text("email", s.u.Address) })
				list(e, "rcptTo", l.To, func(a *wire.Writer, to string) { a.Text("email", to) })
			})
		}},
		More: func(w *wire.Writer) {
			w.Object("onSuccessUpdateEmail", func(o *wire.Writer) {
				o.Object("#s", func(p *wire.Writer) {
					p.Raw("mailboxIds/"+s.drafts, "null")
					p.Bool("mailboxIds/"+s.sent, true)
					p.Raw("keywords/$draft", "null")
				})
			})
		},
	})
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return err
	}
	id := ""
	for _, step := range []struct {
		h    client.Handle
		name string
	}{{made, "m"}, {sent, "s"}} {
		o, err := out.OutcomeOf(step.h)
		if err != nil {
			return err
		}
		got, err := o.Created(step.name)
		if err != nil {
			return err
		}
		if id == "" {
			id = got
		}
	}
	if !filed(out, id) {
		return &Refusal{"a message that is sent and not filed"}
	}
	return nil
}

// filed reports whether an answer shows that a submission has changed its Email, by the implied call.
func filed(out *client.Response, id string) bool {
	for i := range out.Calls {
		if c := &out.Calls[i]; c.Name == "Email/set" {
			if changed := c.Args.Get("updated"); changed.Kind() == wire.Object && changed.Len() == 1 &&
				changed.Name(0) == id {
				return true
			}
		}
	}
	return false
}

// conclude destroys the draft and marks the answered message. Like the client it ignores that this message is gone,
// because the reply has been sent.
func (s *webSession) conclude(ctx context.Context, l *letter) error {
	o, err := s.set(ctx, "Email", &client.Set{Destroy: []string{l.draft}})
	if err == nil {
		err = o.Destroyed(l.draft)
	}
	if err == nil && l.answered != "" {
		answered := func(w *wire.Writer) { w.Bool("keywords/$answered", true) }
		o, err = s.set(ctx, "Email", &client.Set{Update: map[string]func(*wire.Writer){l.answered: answered}})
		if err == nil {
			err = unlessGone(o.Updated(l.answered))
		}
	}
	if err != nil {
		return fmt.Errorf("drive: after the command: %w", err)
	}
	return nil
}

// unlessGone drops the error notFound (RFC 8620 section 5.3).
func unlessGone(err error) error {
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Type == "notFound" {
		return nil
	}
	return err
}
