package admin

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"doublet/directory"
	"doublet/directory/session"
	"doublet/note"
	"doublet/store"
	"doublet/store/dump"
)

// DumpDatabase are the arguments of dump database.
type DumpDatabase struct {
	Database string `json:"database" arg:"required" help:"id, title or owner"`
	Rows     bool   `json:"rows" help:"the derived rows too: index, counters, sequences, threads"`
	Lines    bool   `json:"lines" help:"one JSON object a line"`
}

// DumpNote are the arguments of dump note and dump view.
type DumpNote struct {
	Database string `json:"database" arg:"required" help:"id, title or owner"`
	Note     string `json:"note" arg:"required" help:"note id (a number) or UNID"`
	Lines    bool   `json:"lines" help:"one JSON object a line"`
}

// DumpRange are the arguments of dump feed and dump objects.
type DumpRange struct {
	From  int  `json:"from" help:"first sequence"`
	Limit int  `json:"limit" help:"at most so many records"`
	Lines bool `json:"lines" help:"one JSON object a line"`
}

// Dumped is the result of a dump. The text was sent as output before.
type Dumped struct {
	Bytes Size `json:"bytes"`
}

// Text returns "", because the output was already shown.
func (Dumped) Text() string { return "" }

// secretItem reports whether an item of that name holds a secret that nobody may read.
func secretItem(name string) bool { return directory.SecretItem(name) || session.SecretItem(name) }

func dumps() []*Verb {
	return []*Verb{
		define("dump database", "write a database as text: what it is, counters, folders, notes",
			func(_ context.Context, c *Call, a *DumpDatabase) (Dumped, error) {
				i, err := c.database(a.Database)
				if err != nil {
					return Dumped{}, err
				}
				return c.dump(func(w io.Writer) error {
					return dump.Database(w, c.Store, i.ID, dump.Options{Rows: a.Rows, JSON: a.Lines,
						Secret: secretItem})
				})
			}),
		define("dump note", "write one note as text: row, places, state, revisions, items",
			func(ctx context.Context, c *Call, a *DumpNote) (Dumped, error) {
				db, id, err := c.note(ctx, a)
				if err != nil {
					return Dumped{}, err
				}
				return c.dump(func(w io.Writer) error {
					return dump.Note(w, c.Store, db, id, dump.Options{JSON: a.Lines, Secret: secretItem})
				})
			}),
		define("dump view", "write a user-defined view as text, as of its last refresh",
			func(ctx context.Context, c *Call, a *DumpNote) (Dumped, error) {
				db, id, err := c.note(ctx, a)
				if err != nil {
					return Dumped{}, err
				}
				return c.dump(func(w io.Writer) error {
					return dump.View(ctx, w, c.Store, db, id, dump.Options{JSON: a.Lines})
				})
			}),
		define("dump feed", "write the server's feed as text",
			func(_ context.Context, c *Call, a *DumpRange) (Dumped, error) {
				o := dump.Options{From: uint64(max(a.From, 0)), Limit: a.Limit, JSON: a.Lines}
				return c.dump(func(w io.Writer) error { return dump.Feed(w, c.Store, o) })
			}),
		define("dump objects", "write the object index as text",
			func(_ context.Context, c *Call, a *DumpRange) (Dumped, error) {
				o := dump.Options{From: uint64(max(a.From, 0)), Limit: a.Limit, JSON: a.Lines}
				return c.dump(func(w io.Writer) error { return dump.Objects(w, c.Store, o) })
			}),
	}
}

// note finds a note by number or UNID.
func (c *Call) note(ctx context.Context, a *DumpNote) (note.DatabaseID, note.ID, error) {
	i, err := c.database(a.Database)
	if err != nil {
		return 0, 0, err
	}
	if n, err := strconv.ParseUint(a.Note, 10, 64); err == nil {
		return i.ID, note.ID(n), nil
	}
	u, err := note.ParseUNID(a.Note)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %q is neither a note id nor a UNID", ErrUsage, a.Note)
	}
	var id note.ID
	err = c.Store.Read(ctx, note.System, i.ID, func(r *store.Reader) error {
		id, err = r.Find(u)
		return err
	})
	return i.ID, id, err
}

// outputSize is the size of a piece of output, in bytes.
const outputSize = 32 << 10

// dump sends the text that fn writes as output.
func (c *Call) dump(fn func(io.Writer) error) (Dumped, error) {
	w := &output{call: c}
	err := fn(w)
	w.flush()
	return Dumped{w.sent}, err
}

type output struct {
	call *Call
	b    []byte
	sent Size
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.b = append(o.b, p...); len(o.b) >= outputSize {
		o.flush()
	}
	return len(p), nil
}

func (o *output) flush() {
	if len(o.b) > 0 {
		o.call.Progress(Progress{Output: string(o.b)})
		o.sent += Size(len(o.b))
		o.b = o.b[:0]
	}
}
