package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/bench/content"
	"doublet/bench/ledger"
	"doublet/bench/workload"
	client "doublet/client/imap"
	wire "doublet/wire/imap"
)

// Resets reports whether Fill can put back whole mailboxes: over IMAP if the target has a door for it, else over JMAP
// if that fills them. Otherwise it only cuts the INBOX back and tops it up.
func (w *World) Resets() bool { return w.Target.HasIMAP() || w.FillOver == workload.JMAP }

// HasIMAP reports whether the target has a door for IMAP.
func (t *Target) HasIMAP() bool { return t.Doors["imap"] != "" || t.Doors["imaps"] != "" }

// Reader signs a user in over IMAP, with a client that is not measured. The caller closes it.
func (w *World) Reader(ctx context.Context, u *User) (c *client.Client, done func(), err error) {
	conn, secure, err := w.dial("imap", "imaps")
	if err != nil {
		return nil, nil, err
	}
	stop := w.guard(ctx, conn)
	done = func() { stop(); _ = conn.Close() }
	o := client.Options{Timeout: w.timeout(), Clock: w.Env.Clock}
	if w.Target.StartTLS && !secure {
		o.Security, o.TLS = client.StartTLS, w.Target.tlsFor(w.Target.Doors["imap"])
	}
	if c, err = client.New(conn, o); err == nil {
		err = c.Login(u.Name, u.Password)
	}
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("drive: sign %s in: %w", u.Name, err)
	}
	return c, done, nil
}

// Mail reads the messages of a user over IMAP, for a ledger.
func (w *World) Mail(ctx context.Context, u *User) ([]ledger.Message, error) {
	c, done, err := w.Reader(ctx, u)
	if err != nil {
		return nil, err
	}
	defer done()
	list, err := ledger.Read(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Name, err)
	}
	return list, c.Logout()
}

// resetIMAP puts back what people have changed in a mailbox since it was filled with want messages: it empties all
// other folders, deletes from the INBOX every message that is not of the beginning, with what follows a missing one,
// and sets the flags as they were. It returns the number of deleted messages. Fill adds those that are missing.
func resetIMAP(ctx context.Context, w *World, u *User, want int) (removed int, err error) {
	c, done, err := w.Reader(ctx, u)
	if err != nil {
		return 0, err
	}
	defer done()
	folders, err := otherFolders(c)
	if err != nil {
		return 0, err
	}
	for _, name := range folders {
		n, err := empty(c, name)
		if removed += n; err != nil {
			return removed, fmt.Errorf("drive: empty %s of %s: %w", name, u.Name, err)
		}
	}
	n, err := w.resetInbox(c, u, want)
	if removed += n; err != nil {
		return removed, fmt.Errorf("drive: reset the INBOX of %s: %w", u.Name, err)
	}
	return removed, c.Logout()
}

// otherFolders lists the folders besides the INBOX that hold messages of their own.
func otherFolders(c *client.Client) (out []string, err error) {
	err = c.List(&wire.List{Patterns: []string{"*"}}, func(d *wire.ListData) {
		has := func(attr string) bool {
			return slices.ContainsFunc(d.Attrs, func(a string) bool { return strings.EqualFold(a, attr) })
		}
		// A folder of all or of flagged messages shows those of others (RFC 6154 section 2).
		if !strings.EqualFold(d.Mailbox, ledger.Inbox) &&
			!slices.ContainsFunc([]string{`\Noselect`, `\NonExistent`, `\All`, `\Flagged`}, has) {
			out = append(out, d.Mailbox)
		}
	}, nil)
	return out, err
}

// everything is the set of all messages of a folder.
var everything = wire.Target{Set: wire.Set{{Start: 1, Stop: 0}}}

// empty deletes the messages of a folder. It leaves one that is read-only, such as one of deleted messages.
func empty(c *client.Client, folder string) (int, error) {
	sel, err := c.Select(&wire.Select{Mailbox: folder}, false)
	if err != nil || sel.Exists == 0 || sel.ReadOnly {
		return 0, err
	}
	return int(sel.Exists), remove(c, everything)
}

// remove deletes messages of the selected folder for good.
func remove(c *client.Client, which wire.Target) error {
	if err := store(c, which, wire.StoreAdd, `\Deleted`); err != nil {
		return err
	}
	return c.Expunge(nil)
}

func store(c *client.Client, which wire.Target, op wire.StoreOp, flags ...wire.Flag) error {
	_, err := c.Store(&wire.Store{Target: which, Op: op, Silent: true, Flags: flags}, false, nil)
	return err
}

// perCommand is the largest number of ranges in one command, whose length servers limit.
const perCommand = 200

// resetInbox keeps the messages of the beginning that are in their places, and gives them their flags.
func (w *World) resetInbox(c *client.Client, u *User, want int) (removed int, err error) {
	sel, err := c.Select(&wire.Select{Mailbox: ledger.Inbox}, false)
	if err != nil || sel.Exists == 0 {
		return 0, err
	}
	kept := 0 // the messages in their places come first
	var seen, unseen wire.Set
	items := []wire.FetchItem{{Kind: wire.ItemFlags}, {Kind: wire.ItemBodySection, Peek: true,
		Section: wire.Section{Text: wire.TextHeaderFields, Fields: []string{"Message-ID"}}}}
	err = c.Fetch(&wire.Fetch{Target: everything, Items: items}, false, func(d *wire.FetchData) error {
		s := d.Section(wire.ItemBodySection)
		if s == nil || int(d.Seq) != kept+1 || kept == want || ledger.ID([]byte(s.Data)) != w.initialID(u, kept) {
			return nil
		}
		m := w.initial(u, kept, want)
		kept++
		switch should := w.seenFirst(&m); {
		case same(d.Flags, should):
		case should:
			seen = seen.Add(d.Seq)
		default:
			unseen = unseen.Add(d.Seq)
		}
		return nil
	}, nil)
	if err != nil {
		return 0, err
	}
	for part := range slices.Chunk(seen, perCommand) {
		err = errors.Join(err, store(c, wire.Target{Set: part}, wire.StoreReplace, `\Seen`))
	}
	for part := range slices.Chunk(unseen, perCommand) {
		err = errors.Join(err, store(c, wire.Target{Set: part}, wire.StoreReplace))
	}
	if removed = int(sel.Exists) - kept; removed > 0 && err == nil {
		err = remove(c, wire.Target{Set: wire.Set{{Start: uint32(kept) + 1, Stop: 0}}}) //nolint:gosec // below Exists
	}
	return removed, err
}

// seenFirst reports whether a message of the beginning is \Seen. Messages that came over LMTP are new.
func (w *World) seenFirst(m *content.Message) bool {
	return w.FillOver != workload.LMTP && int(m.Seed>>40%100) < w.Workload.Mailbox.Seen
}

// same reports whether the flags of a message are \Seen, or none, as it should be. \Recent is the server's.
func same(flags []wire.Flag, seen bool) bool {
	has := false
	for _, f := range flags {
		switch {
		case strings.EqualFold(string(f), `\Seen`):
			has = true
		case !strings.EqualFold(string(f), `\Recent`):
			return false
		}
	}
	return has == seen
}
