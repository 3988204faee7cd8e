package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/directory"
	"doublet/mail"
	"doublet/note"
)

// names replaces ids by names where the directory has them.
func (c *Call) names(ctx context.Context, list []string) []string {
	var out []string
	for _, m := range list {
		if id, err := note.ParseUNID(m); err == nil {
			if name, err := c.Directory.Names.NameOf(ctx, id); err == nil {
				m = name
			}
		}
		out = append(out, m)
	}
	return out
}

func listText(l *directory.ListFields) string {
	words := []string{string(l.Post) + " may write"}
	if l.Tag != "" {
		words = append(words, "subjects begin with ["+l.Tag+"]")
	}
	if l.ReplyTo != "" {
		words = append(words, "answers go to the list")
	}
	if l.Rewrite != "" {
		words = append(words, "From is rewritten "+l.Rewrite)
	}
	return strings.Join(words, ", ")
}

func setList(l *directory.ListFields, a *GroupSet) {
	assign(&l.On, a.List)
	assign((*string)(&l.Post), a.Post)
	assign(&l.Tag, a.Tag)
	assign(&l.ReplyTo, a.ReplyTo)
	assign(&l.Rewrite, a.Rewrite)
	if a.Owner != nil {
		l.Owners = nonEmpty(*a.Owner)
	}
	if a.Moderator != nil {
		l.Moderators = nonEmpty(*a.Moderator)
	}
}

func vacationText(v *directory.Vacation) string {
	if !v.On {
		return ""
	}
	out := "on"
	if !v.From.IsZero() {
		out += " from " + v.From.Format(time.DateOnly)
	}
	if !v.Until.IsZero() {
		out += " until " + v.Until.AddDate(0, 0, -1).Format(time.DateOnly)
	}
	text, _, more := strings.Cut(v.Text, "\n")
	if more {
		text += " …"
	}
	return out + ": " + text
}

func setVacation(v *directory.Vacation, a *UserSet) error {
	if a.Vacation != nil {
		v.Text = *a.Vacation
		if v.On = strings.TrimSpace(v.Text) != ""; !v.On {
			*v = directory.Vacation{}
		}
	}
	assign(&v.Subject, a.VacationSubject)
	assign(&v.Days, a.VacationDays)
	for _, d := range []struct {
		to   *time.Time
		from *string
		more int
	}{{&v.From, a.VacationFrom, 0}, {&v.Until, a.VacationUntil, 1}} {
		switch {
		case d.from == nil:
		case *d.from == "":
			*d.to = time.Time{}
		default:
			day, err := time.Parse(time.DateOnly, *d.from)
			if err != nil {
				return fmt.Errorf("%w: %q is no day such as 2026-12-24", ErrUsage, *d.from)
			}
			*d.to = day.AddDate(0, 0, d.more)
		}
	}
	return nil
}

// SendAs are the arguments of user send-as allow and deny.
type SendAs struct {
	Name   string `json:"name" arg:"required" help:"person or group whose address it is"`
	By     string `json:"by" arg:"required" help:"person or group who may write under it"`
	Behalf bool   `json:"behalf" help:"on behalf: beside their own address in Sender"`
}

func sendAs(allow bool) func(context.Context, *Call, *SendAs) (Done, error) {
	return func(ctx context.Context, c *Call, a *SendAs) (Done, error) {
		by, err := c.Directory.Names.Lookup(ctx, a.By)
		if err != nil {
			return Done{}, fmt.Errorf("%q: %w", a.By, err)
		}
		change := func(as, behalf *[]string) {
			list := as
			if a.Behalf {
				list = behalf
			}
			var keep []string
			for _, id := range *list {
				if id != by.ID.String() {
					keep = append(keep, id)
				}
			}
			if allow {
				keep = append(keep, by.ID.String())
			}
			*list = keep
		}
		name := ""
		p, err := c.Directory.Names.PersonOf(ctx, a.Name)
		if err == nil {
			name = p.Name()
			_, err = c.Directory.People.Set(ctx, c.Who, p.ID,
				func(f *directory.PersonFields) error { change(&f.SendAs, &f.OnBehalf); return nil })
		} else if errors.Is(err, directory.ErrNotFound) {
			var g directory.Group
			if g, err = c.groups().find(ctx, a.Name); err == nil {
				name = g.Name
				_, err = c.Directory.Groups.Set(ctx, c.Who, g.ID,
					func(f *directory.GroupFields) error { change(&f.SendAs, &f.OnBehalf); return nil })
			}
		}
		word := "may write as "
		if a.Behalf {
			word = "may write on behalf of "
		}
		if !allow {
			word = strings.Replace(word, "may write", "may no longer write", 1)
		}
		return Done{by.Name + " " + word + name}, err
	}
}

// ListPending are the arguments of list pending.
type ListPending struct {
	Name string `json:"name" arg:"optional" help:"name or address of the list; without one of all"`
}

// Post is a message that waits for a list's moderators.
type Post struct {
	ID      string    `json:"id"`
	List    string    `json:"list"`
	Author  string    `json:"author,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Created time.Time `json:"created"`
	Reason  string    `json:"reason"`
}

// ListReject are the arguments of list reject.
type ListReject struct {
	ID     string `json:"id" arg:"required" help:"id, as list pending shows it"`
	Reason string `json:"reason" help:"what the author is told; without one nothing"`
}

func lists() []*Verb {
	return []*Verb{
		define("list pending", "list messages that wait for moderators",
			func(ctx context.Context, c *Call, a *ListPending) ([]Post, error) {
				var id note.UNID
				if a.Name != "" {
					g, err := c.groups().find(ctx, a.Name)
					if err != nil {
						return nil, err
					}
					id = g.ID
				}
				return rows(func(p mail.Post) Post {
					return Post{ID: p.ID.String(), List: p.List, Author: p.Author, Subject: p.Subject,
						Created: p.Created, Reason: p.Reason}
				})(c.Mail.Moderation.Pending(ctx, id))
			}),
		define("list approve", "send a message to its list that waits for moderators",
			func(ctx context.Context, c *Call, a *QueueID) (Done, error) {
				id, err := queueID(a.ID)
				if err != nil {
					return Done{}, err
				}
				return Done{"approved " + a.ID}, c.Mail.Moderation.Approve(ctx, id)
			}, changes),
		define("list reject", "drop a message that waits for moderators",
			func(ctx context.Context, c *Call, a *ListReject) (Done, error) {
				id, err := queueID(a.ID)
				if err != nil {
					return Done{}, err
				}
				return Done{"rejected " + a.ID}, c.Mail.Moderation.Reject(ctx, id, a.Reason)
			}, changes),
	}
}
