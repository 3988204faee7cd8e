package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"doublet/client/imap"
	"doublet/env"
	wire "doublet/wire/imap"
)

// Read returns the messages in the folders of a person who has signed in over IMAP.
func Read(c *imap.Client) (out []Message, err error) {
	for _, folder := range []string{Inbox, Archive, Calendar} {
		if out, err = list(c, folder, out); err != nil {
			return nil, fmt.Errorf("ledger: %s: %w", folder, err)
		}
	}
	return out, nil
}

// readers is the number of people whose mail is read at a time.
const readers = 8

// ReadAll calls read for the numbers below n, several at a time. It returns the messages of each; the error is the
// first one.
func ReadAll(ctx context.Context, e *env.Env, n int, read func(i int) ([]Message, error)) ([][]Message, error) {
	var (
		mu    sync.Mutex
		next  int
		first error
		all   sync.WaitGroup
	)
	out := make([][]Message, n)
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		if first != nil || ctx.Err() != nil {
			return n
		}
		next++
		return next - 1
	}
	for range readers {
		all.Add(1)
		e.Go("bench ledger", func() {
			defer all.Done()
			for i := take(); i < n; i = take() {
				list, err := read(i)
				mu.Lock()
				out[i] = list
				if first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return out, errors.Join(first, ctx.Err())
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

// Bare returns the left part of a Message-ID of the benchmark without brackets, as JMAP has it (RFC 8621 section
// 4.1.2.3), or "" if it is another's.
func Bare(messageID string) string {
	id, ours := strings.CutSuffix(messageID, strings.TrimSuffix(domain, ">"))
	if !ours {
		return ""
	}
	return id
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
