package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/client/imap"
	"doublet/env"
	wire "doublet/wire/imap"
)

// readTimeout is the timeout of one reply.
const readTimeout = time.Minute

// Read returns the messages in a person's folders, read over IMAP.
func Read(e *env.Env, door, user, password string) ([]Message, error) {
	c, err := imap.Dial(e.Dial, door, imap.Options{Timeout: readTimeout, Clock: e.Clock})
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	defer c.Close()
	if err := c.Login(user, password); err != nil {
		return nil, fmt.Errorf("ledger: %s: %w", user, err)
	}
	var out []Message
	for _, folder := range []string{Inbox, Archive} {
		if out, err = list(c, folder, out); err != nil {
			return nil, fmt.Errorf("ledger: %s of %s: %w", folder, user, err)
		}
	}
	return out, c.Logout()
}

func list(c *imap.Client, folder string, out []Message) ([]Message, error) {
	sel, err := c.Select(&wire.Select{Mailbox: folder}, true)
	var refused *imap.StatusError
	if errors.As(err, &refused) && refused.Status == wire.NO && folder != Inbox && refused.Code != nil &&
		refused.Code.Name == "NONEXISTENT" {
		return out, nil
	}
	if err != nil || sel.Exists == 0 {
		return out, err
	}
	items := []wire.FetchItem{{Kind: wire.ItemFlags}, {Kind: wire.ItemBodySection, Peek: true,
		Section: wire.Section{Text: wire.TextHeaderFields, Fields: []string{"Message-ID"}}}}
	all := wire.Fetch{Target: wire.Target{Set: wire.Set{{Start: 1, Stop: 0}}}, Items: items}
	err = c.Fetch(&all, false, func(d *wire.FetchData) error {
		s := d.Section(wire.ItemBodySection)
		if s == nil {
			return nil
		}
		m := Message{Folder: folder, ID: idOf(s.Data)}
		for _, f := range d.Flags {
			m.Flagged = m.Flagged || strings.EqualFold(string(f), `\Flagged`)
		}
		if m.ID != "" {
			out = append(out, m)
		}
		return nil
	}, nil)
	return out, err
}

// domain is the end of the benchmark's Message-IDs.
const domain = "@bench.example>"

// idOf returns the left part of the last Message-ID of the benchmark in a text, "" if there is none.
func idOf(text string) string {
	end := strings.LastIndex(text, domain)
	if end < 0 {
		return ""
	}
	begin := strings.LastIndexByte(text[:end], '<')
	return text[begin+1 : end]
}

// ID returns the id of a message from its ENVELOPE as received: the Message-ID is the last item.
func ID(envelope []byte) string { return idOf(string(envelope)) }
