package admin

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/maildir"
	"doublet/wire/mbox"
)

// Export are the arguments of export.
type Export struct {
	User   string `json:"user" arg:"required" help:"person whose mail is written"`
	Path   string `json:"path" arg:"required" file:"true" help:"folder to write into; it is made, and must be empty; or NAME.zip: one file"`
	Format string `json:"format" help:"mbox or maildir" default:"mbox"`
	Folder string `json:"folder" help:"only this folder"`
}

// exportPage is the number of messages collected in one read of the store.
const exportPage = 100

// exported is one message to export.
type exported struct {
	body  *store.Stored
	date  time.Time
	flags mailbox.Flags
	uid   uint32
}

// sink writes the messages of one folder.
type sink interface {
	write(m exported, raw []byte) error
	close() error
}

func export(ctx context.Context, c *Call, a *Export) (Transferred, error) {
	return c.exportTo(ctx, a, func(_ exportTree, _ mailbox.Folder, to sink) (sink, error) { return to, nil }, func(exportTree) error { return nil })
}

// exportTo writes folders of mail into a new tree. beside may replace the sink of a folder. last writes what follows
// all folders.
func (c *Call) exportTo(ctx context.Context, a *Export, beside func(exportTree, mailbox.Folder, sink) (sink, error), last func(exportTree) error) (out Transferred, err error) {
	if a.Format != "mbox" && a.Format != "maildir" {
		return out, fmt.Errorf("%w: format %q is neither mbox nor maildir", ErrUsage, a.Format)
	}
	p, err := c.person(ctx, a.User)
	if err != nil {
		return out, err
	}
	who, err := c.Directory.Names.WhoOf(ctx, p.ID)
	if err != nil { // a person who may not sign in has mail too
		who = note.System
	}
	tree, err := c.newExportTree(a.Path)
	if err != nil {
		return out, err
	}
	defer func() { err = tree.close(err) }()
	start := c.Env.Clock.Now()
	file := c.Mailbox.File(who, p.MailDatabase)
	folders, err := file.Folders(ctx)
	if err != nil {
		return out, err
	}
	for _, f := range folders {
		if a.Folder != "" && f.Name != a.Folder {
			continue
		}
		to, err := newSink(tree, a.Format, f.Name)
		if err == nil {
			to, err = beside(tree, f, to)
		}
		if err == nil {
			err = c.exportFolder(ctx, file, f.Name, to, &out)
		}
		if err != nil {
			return out, fmt.Errorf("folder %q: %w", f.Name, err)
		}
		out.Folders++
	}
	if out.Folders == 0 {
		return out, fmt.Errorf("%w: %s", mailbox.ErrNoFolder, a.Folder)
	}
	if err := last(tree); err != nil {
		return out, err
	}
	took := c.Env.Clock.Now().Sub(start)
	out.Took = took.Round(time.Millisecond).String()
	if s := took.Seconds(); s > 0 {
		out.PerSecond = float64(int64(float64(out.Messages) / s))
	}
	return out, nil
}

// newSink creates the sink for the messages of a folder.
func newSink(tree exportTree, format, folder string) (sink, error) {
	if format == "mbox" {
		f, err := tree.create(mboxPath(folder))
		if err != nil {
			return nil, err
		}
		return &mboxSink{f, mbox.NewWriter(f)}, nil
	}
	dir := maildirPath(folder)
	for _, sub := range []string{"cur", "new", "tmp"} {
		if err := tree.mkdir(below(dir, sub)); err != nil {
			return nil, err
		}
	}
	return &maildirSink{tree, dir}, nil
}

// exportFolder writes the messages of a folder, and closes the sink.
func (c *Call) exportFolder(ctx context.Context, file *mailbox.File, name string, to sink, out *Transferred) (err error) {
	defer func() {
		if e := to.close(); err == nil {
			err = e
		}
	}()
	view, _, err := file.Open(ctx, name, true)
	if err != nil {
		return err
	}
	var page []exported
	var raw []byte
	return view.Fetch(ctx, mailbox.Set{{Start: 1, Stop: 0}}, true, mailbox.FetchOptions{}, func(m *mailbox.Message) (bool, error) {
		body, err := m.Body()
		page = append(page, exported{body, m.Date(), m.Flags(), m.UID})
		return len(page) >= exportPage, err
	}, func() error {
		for _, m := range page {
			var err error
			if raw, err = m.body.AppendRange(raw[:0], 0, m.body.Size()); err != nil {
				return err
			}
			if err := to.write(m, raw); err != nil {
				return err
			}
			out.Messages++
			out.Bytes += Size(len(raw))
		}
		if len(page) > 0 {
			c.Progress(Progress{Stage: "export " + name, Done: out.Messages, Bytes: uint64(out.Bytes)})
		}
		page = page[:0]
		return nil
	})
}

type mboxSink struct {
	f io.WriteCloser
	w *mbox.Writer
}

// fileName returns one level of a folder's name as a safe file name: without path separators, and not hidden.
func fileName(level string) string {
	level = strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r < ' ' {
			return '_'
		}
		return r
	}, level)
	if strings.HasPrefix(level, ".") {
		level = "_" + level[1:]
	}
	return level
}

// mboxPath and maildirPath return the path of a folder's messages, relative to the top of the export.
func mboxPath(folder string) string {
	levels := strings.Split(folder, "/")
	for i := range levels {
		levels[i] = fileName(levels[i])
	}
	return strings.Join(levels, "/") + ".mbox"
}

func maildirPath(folder string) string { return maildir.FolderName(strings.Split(folder, "/")) }

func (s *mboxSink) write(m exported, raw []byte) error { return s.w.Write("", m.date, raw) }

func (s *mboxSink) close() error {
	err := s.w.Flush()
	if e := s.f.Close(); err == nil {
		err = e
	}
	return err
}

type maildirSink struct {
	tree exportTree
	dir  string
}

// maildirName returns the file name of a message.
func maildirName(m *exported, size int) string {
	unique := strconv.FormatInt(m.date.Unix(), 10) + ".U" + strconv.FormatUint(uint64(m.uid), 10) + ".doublet,W=" + strconv.Itoa(size)
	return maildir.Name(unique, strings.Fields(string(m.flags.AppendIMAP(nil))), nil)
}

func (s *maildirSink) write(m exported, raw []byte) error {
	f, err := s.tree.create(below(s.dir, "cur/"+maildirName(&m, len(raw))))
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func (s *maildirSink) close() error { return nil }
