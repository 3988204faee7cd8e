package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"doublet/directory"
	"doublet/directory/retention"
	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/imap"
)

// RetentionRun are the arguments of retention run.
type RetentionRun struct {
	People []string `json:"people" arg:"rest" help:"only the mail files of these people"`
}

// RetentionDone is the result of retention run.
type RetentionDone struct {
	MailFiles int  `json:"mail_files" show:"always"` // that some policy is for
	Trashed   int  `json:"trashed" show:"always"`
	Deleted   int  `json:"deleted" show:"always"`
	Bytes     Size `json:"deleted_bytes" show:"always"`
}

// RetentionTry are the arguments of retention test.
type RetentionTry struct {
	People []string `json:"people" arg:"rest" help:"only the mail files of these people"`
	Off    bool     `json:"off" help:"as if the policies that are off were on"`
}

// RetentionTest holds the messages that retention run would move or delete now.
type RetentionTest struct {
	People   []RetentionPerson  `json:"people"`
	Messages []RetentionMessage `json:"messages"`
	// More reports that Messages holds only the first maxRetentionShown messages.
	More bool `json:"more,omitempty"`
}

// RetentionPerson counts the messages of one person.
type RetentionPerson struct {
	Person       string `json:"person"`
	Trashed      int    `json:"trashed"`
	TrashedBytes Size   `json:"trashed_bytes"`
	Deleted      int    `json:"deleted"`
	DeletedBytes Size   `json:"deleted_bytes"`
	// Held reports that a hold is on, so that nothing happens.
	Held bool `json:"held,omitempty"`
}

// RetentionMessage is a message that would be moved or deleted.
type RetentionMessage struct {
	Person    string    `json:"person"`
	Policy    string    `json:"policy"`
	Action    string    `json:"action"`
	Folder    string    `json:"folder"` // separated by commas
	Delivered time.Time `json:"delivered"`
	Size      Size      `json:"size"`
	Subject   string    `json:"subject"`
	ID        string    `json:"id"`
}

// maxRetentionShown is the number of messages that retention test lists at most.
const maxRetentionShown = 500

// Text returns the result as tables for people.
func (r RetentionTest) Text() string {
	if len(r.People) == 0 {
		return "no message would be moved or deleted\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "PERSON\tTO TRASH\tBYTES\tDELETED\tBYTES\t")
	for _, p := range r.People {
		held := ""
		if p.Held {
			held = "on hold"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\n", p.Person, p.Trashed, p.TrashedBytes, p.Deleted, p.DeletedBytes, held)
	}
	if len(r.Messages) > 0 {
		fmt.Fprintln(w, "\nPERSON\tPOLICY\tACTION\tFOLDER\tDELIVERED\tSIZE\tSUBJECT")
	}
	for _, m := range r.Messages {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Person, m.Policy, m.Action, m.Folder,
			m.Delivered.Format(time.DateOnly), m.Size, m.Subject)
	}
	_ = w.Flush() // to memory
	if r.More {
		fmt.Fprintf(&b, "only the first %d messages are listed\n", maxRetentionShown)
	}
	return b.String()
}

// retainedFile is the mail file of a person, with the policies that are for the person.
type retainedFile struct {
	db       note.DatabaseID
	name     string
	policies []directory.RetentionPolicy
}

// rules returns the policies of a mail file as mailbox applies them. Messages that wait for their time to be sent are
// spared.
func (f *retainedFile) rules(c *Call) *mailbox.Retention {
	out := &mailbox.Retention{Policies: rules(f.policies)}
	file, now := c.Mailbox.File(note.System, f.db), c.Env.Clock.Now()
	out.Spare = func(d *mailbox.Reading) (map[note.UNID]bool, error) {
		list, err := submission.Read(d, file, now)
		if err != nil {
			return nil, err
		}
		pending, err := list.Pending(d)
		spared := map[note.UNID]bool{}
		for _, m := range pending {
			spared[m.Email] = true
		}
		return spared, err
	}
	return out
}

// policiesOn returns the retention policies that are on, and with off also the others.
func policiesOn(ctx context.Context, s *System, off bool) ([]directory.RetentionPolicy, error) {
	list, err := s.Directory.Retention.List(ctx)
	return slices.DeleteFunc(list, func(p directory.RetentionPolicy) bool { return p.Off && !off }), err
}

// keeping returns those of some policies that keep deleted messages of a mail file, also if its owner was removed. It
// returns nil if there are none.
func keeping(ctx context.Context, s *System, i *layout.Info,
	list []directory.RetentionPolicy) (*mailbox.Retention, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(p directory.RetentionPolicy) bool { return p.Action.Removes() })
	if i.Owner.IsZero() || len(list) == 0 {
		return nil, nil
	}
	list, err := s.Directory.Retention.Of(ctx, i.Owner, list)
	return &mailbox.Retention{Policies: rules(list)}, err
}

// rules returns the rules of policies, in their order.
func rules(list []directory.RetentionPolicy) []retention.Policy {
	out := make([]retention.Policy, len(list))
	for i := range list {
		out[i] = list[i].Policy
	}
	return out
}

// eachRetained calls fn for the mail files here to which a policy applies that removes messages: those of some people,
// or all. A mail file that fails does not stop the others.
func eachRetained(ctx context.Context, c *Call, people []string, off bool,
	fn func(*retainedFile) error) error {
	list, err := policiesOn(ctx, c.System, off)
	if err != nil {
		return err
	}
	files, err := mailFilesOf(ctx, c, people)
	if err != nil || len(list) == 0 {
		return err
	}
	var errs []error
	for _, f := range files {
		if ctx.Err() != nil {
			break
		}
		if err := retainedOf(ctx, c, f, list, fn); err != nil {
			errs = append(errs, fmt.Errorf("retention of %s: %w", f.Title, err))
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// mailFilesOf returns the databases of some people, or all of this server.
func mailFilesOf(ctx context.Context, c *Call, people []string) ([]layout.Info, error) {
	if len(people) == 0 {
		return c.Store.Databases()
	}
	list := make([]layout.Info, 0, len(people))
	for _, name := range people {
		p, _, err := c.mailFile(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("person %q: %w", name, err)
		}
		i, err := c.Store.Info(p.MailDatabase)
		if err != nil {
			return nil, fmt.Errorf("mail file of %q: %w", name, err)
		}
		list = append(list, i)
	}
	return list, nil
}

// retainedOf calls fn for the mail file of a person, with the policies of a list that apply.
func retainedOf(ctx context.Context, c *Call, i layout.Info, list []directory.RetentionPolicy,
	fn func(*retainedFile) error) error {
	if i.Kind != mailbox.Kind || i.State != layout.InService || i.Owner.IsZero() {
		return nil
	}
	owner, err := c.Directory.Names.TargetOf(ctx, i.Owner)
	if err != nil || owner.Kind != directory.TargetPerson || owner.Database != i.ID {
		return except(err, directory.ErrNotFound) // a person who was removed can come back with all mail
	}
	f := &retainedFile{db: i.ID, name: owner.Name}
	if f.policies, err = c.Directory.Retention.Of(ctx, i.Owner, list); err != nil {
		return err
	}
	if !slices.ContainsFunc(f.policies, func(p directory.RetentionPolicy) bool { return p.Action.Removes() }) {
		return nil
	}
	return except(fn(f), store.ErrNotFound, store.ErrOutOfService, store.ErrIncomplete)
}

func retentionTest(ctx context.Context, c *Call, a *RetentionTry) (out RetentionTest, err error) {
	c.audited = true // it shows mail of other people
	out.People, out.Messages = []RetentionPerson{}, []RetentionMessage{}
	err = eachRetained(ctx, c, a.People, a.Off, func(f *retainedFile) (err error) {
		p := RetentionPerson{Person: f.name}
		p.Held, err = c.Mailbox.EachRetained(ctx, f.db, f.rules(c), func(m *mailbox.Retained) error {
			return out.take(f, &p, m)
		})
		if p.Held || p.Trashed+p.Deleted > 0 {
			out.People = append(out.People, p)
		}
		return err
	})
	return out, err
}

// take counts a message, and lists it if there is room.
func (r *RetentionTest) take(f *retainedFile, p *RetentionPerson, m *mailbox.Retained) error {
	policy := &f.policies[m.Policy]
	if policy.Action == retention.Trash {
		p.Trashed++
		p.TrashedBytes += Size(m.Size())
	} else {
		p.Deleted++
		p.DeletedBytes += Size(m.Size())
	}
	if r.More = len(r.Messages) >= maxRetentionShown; r.More {
		return nil
	}
	subject := ""
	if text, err := m.Envelope(); err == nil {
		if e, err := imap.ParseEnvelope(text); err == nil {
			subject = e.Subject
		}
	} else if !errors.Is(err, store.ErrDamaged) {
		return err
	}
	r.Messages = append(r.Messages, RetentionMessage{Person: f.name, Policy: policy.Name, Action: string(policy.Action),
		Folder: strings.Join(m.Folders, ", "), Delivered: time.Unix(m.Received(), 0).UTC(), Size: Size(m.Size()),
		Subject: subject, ID: m.UNID().String()})
	return nil
}

func retentionRun(ctx context.Context, c *Call, a *RetentionRun) (out RetentionDone, err error) {
	trashed := c.Stats.Counter("Mail.Retention.Trashed", "messages that retention policies moved to the Trash")
	deleted := c.Stats.Counter("Mail.Retention.Deleted", "messages that retention policies deleted")
	bytes := c.Stats.Counter("Mail.Retention.DeletedBytes", "bytes of messages that retention policies deleted")
	failures := c.Stats.Counter("Mail.Retention.Failures",
		"messages that retention policies could not move or delete")
	err = eachRetained(ctx, c, a.People, false, func(f *retainedFile) error {
		if !c.Store.Leads(f.db) {
			return nil // its primary does this
		}
		out.MailFiles++
		c.Progress(Progress{Stage: "mail file", Done: uint64(out.MailFiles), Text: f.name})
		sum, err := c.Mailbox.Retain(ctx, f.db, f.rules(c))
		out.Trashed += sum.Trashed
		out.Deleted += sum.Deleted
		out.Bytes += Size(sum.DeletedBytes)
		trashed.Add(uint64(sum.Trashed))
		deleted.Add(uint64(sum.Deleted))
		bytes.Add(sum.DeletedBytes)
		failures.Add(uint64(sum.Failed))
		if sum.Trashed+sum.Deleted+sum.Failed > 0 {
			c.Env.Log.Info("retention", "mail_file", f.name, "trashed", sum.Trashed, "deleted", sum.Deleted,
				"failed", sum.Failed)
		}
		return errors.Join(err, sum.First)
	})
	return out, err
}
