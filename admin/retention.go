package admin

import (
	"context"
	"fmt"

	"doublet/directory"
	"doublet/directory/retention"
	"doublet/mailbox"
)

// RetentionPolicy is a retention policy of the domain.
type RetentionPolicy struct {
	Name string `json:"name"`
	On   bool   `json:"on" show:"always"`
	// For lists people and groups; empty: everyone.
	For        []string `json:"for,omitempty"`
	Folders    []string `json:"folders,omitempty"`
	Subfolders bool     `json:"subfolders,omitempty"`
	Labels     []string `json:"labels,omitempty"`
	Days       int      `json:"days"`
	Action     string   `json:"action"`
	Flagged    bool     `json:"flagged,omitempty"`
}

// RetentionAdd are the arguments of retention add.
type RetentionAdd struct {
	Name       string   `json:"name" arg:"required" help:"name of the policy"`
	Days       int      `json:"days" required:"true" help:"age of a message in days at which the action follows"`
	Action     string   `json:"action" required:"true" help:"trash, delete or keep"`
	For        []string `json:"for" help:"person or group; may be repeated (default: everyone)"`
	Folder     []string `json:"folder" help:"full name, or Sent, Junk, Trash …; may be repeated (default: all folders)"`
	Subfolders bool     `json:"subfolders" help:"the folders below these too"`
	Label      []string `json:"label" help:"label (IMAP keyword) that a message has; may be repeated"`
	Flagged    bool     `json:"flagged" help:"flagged messages too"`
	Off        bool     `json:"off" help:"do not apply it yet"`
}

// RetentionSet are the arguments of retention set. A nil field leaves the value unchanged.
type RetentionSet struct {
	Name       string    `json:"name" arg:"required" help:"name of the policy"`
	Rename     *string   `json:"rename" help:"new name"`
	Days       *int      `json:"days" help:"age of a message in days at which the action follows"`
	Action     *string   `json:"action" help:"trash, delete or keep"`
	For        *[]string `json:"for" help:"new people and groups; one empty value: everyone"`
	Folder     *[]string `json:"folder" help:"new folders; one empty value: all"`
	Subfolders *bool     `json:"subfolders" help:"the folders below these too"`
	Label      *[]string `json:"label" help:"new labels; one empty value: with or without"`
	Flagged    *bool     `json:"flagged" help:"flagged messages too"`
	Off        *bool     `json:"off" help:"do not apply it; --off=false applies it again"`
}

// RetentionNamed are the arguments of verbs on one retention policy.
type RetentionNamed struct {
	Name string `json:"name" arg:"required" help:"name of the policy"`
}

const retentionLong = `A policy selects messages by their folder, their labels and the owner of the mail file. When
a message is so many days old, the action follows:
  trash   the message moves to the Trash
  delete  the message is deleted, and can be restored as all others (deleted restore)
  keep    nothing. Before that day no other policy touches the message, and if the person deletes it, it can be
          restored until then (unless mail.keep_deleted is 0s)
Days count from the delivery (INTERNALDATE); for a policy that names Trash, from the day on which the message came
there. If several policies select a message, the latest day counts. Drafts, scheduled and snoozed messages, and those
with a reminder are never touched, nor flagged ones without --flagged, nor a mail file on hold (user hold).

The task Retention applies the policies every night. See first what would happen: retention add … --off, then
retention test --off. doc/retention.md has more.

  doublet retention add junk --folder Junk --days 30 --action delete
  doublet retention add newsletters --folder Lists --subfolders --days 90 --action trash
  doublet retention add invoices --label invoice --for Accounting --days 3650 --action keep`

func retentions() []*Verb {
	return []*Verb{
		define("retention list", "list the retention policies of the domain", retentionList),
		define("retention add", "add a retention policy: how long mail is kept", retentionAdd, changes,
			long(retentionLong)),
		define("retention set", "change a retention policy", retentionSet, changes),
		define("retention delete", "delete a retention policy; its messages stay", retentionDelete, changes),
		define("retention test", "show the messages that would be moved or deleted today, without doing it",
			retentionTest, long("Without people it looks at all mail files that this server has. It lists the first "+
				"500 messages, and counts all.")),
		define("retention run", "apply the retention policies now", retentionRun, changes, yields,
			long("The task Retention does the same every night. Without people it does all mail files that this "+
				"server leads. A run that is\ninterrupted has done a part; the next one does the rest.")),
	}
}

func retentionOf(ctx context.Context, c *Call, p *directory.RetentionPolicy) RetentionPolicy {
	return RetentionPolicy{Name: p.Name, On: !p.Off, For: c.names(ctx, p.For), Folders: p.Folders, Subfolders: p.Below,
		Labels: p.Labels, Days: p.Days, Action: string(p.Action), Flagged: p.Flagged}
}

func retentionList(ctx context.Context, c *Call, _ *struct{}) ([]RetentionPolicy, error) {
	list, err := c.Directory.Retention.List(ctx)
	out := make([]RetentionPolicy, len(list))
	for i := range list {
		out[i] = retentionOf(ctx, c, &list[i])
	}
	return out, err
}

// normalFolders returns folder names in their canonical form.
func normalFolders(list []string) (out []string, err error) {
	for _, name := range nonEmpty(list) {
		if name, err = mailbox.Normalize(name); err != nil {
			return nil, fmt.Errorf("%w: folder %.80q: %w", ErrUsage, name, err)
		}
		out = append(out, name)
	}
	return out, nil
}

func retentionAdd(ctx context.Context, c *Call, a *RetentionAdd) (RetentionPolicy, error) {
	folders, err := normalFolders(a.Folder)
	if err != nil {
		return RetentionPolicy{}, err
	}
	p, err := c.Directory.Retention.Add(ctx, c.Who, directory.RetentionFields{
		Name: a.Name, Off: a.Off, For: nonEmpty(a.For),
		Policy: retention.Policy{Folders: folders, Below: a.Subfolders, Labels: nonEmpty(a.Label), Days: a.Days,
			Action: retention.Action(a.Action), Flagged: a.Flagged},
	})
	if err != nil {
		return RetentionPolicy{}, err
	}
	return retentionOf(ctx, c, &p), nil
}

func retentionSet(ctx context.Context, c *Call, a *RetentionSet) (RetentionPolicy, error) {
	p, err := c.Directory.Retention.Named(ctx, a.Name)
	if err != nil {
		return RetentionPolicy{}, err
	}
	var folders []string
	if a.Folder != nil {
		if folders, err = normalFolders(*a.Folder); err != nil {
			return RetentionPolicy{}, err
		}
	}
	p, err = c.Directory.Retention.Set(ctx, c.Who, p.ID, func(f *directory.RetentionFields) error {
		assign(&f.Name, a.Rename)
		assign(&f.Days, a.Days)
		assign((*string)(&f.Action), a.Action)
		assign(&f.Below, a.Subfolders)
		assign(&f.Flagged, a.Flagged)
		assign(&f.Off, a.Off)
		if a.Folder != nil {
			f.Folders = folders
		}
		if a.For != nil {
			f.For = nonEmpty(*a.For)
		}
		if a.Label != nil {
			f.Labels = nonEmpty(*a.Label)
		}
		return nil
	})
	if err != nil {
		return RetentionPolicy{}, err
	}
	return retentionOf(ctx, c, &p), nil
}

func retentionDelete(ctx context.Context, c *Call, a *RetentionNamed) (Done, error) {
	p, err := c.Directory.Retention.Named(ctx, a.Name)
	if err != nil {
		return Done{}, err
	}
	return Done{"deleted the retention policy " + p.Name}, c.Directory.Retention.Remove(ctx, c.Who, p.ID)
}
