package admin

import (
	"context"
	"fmt"
	"io"
	"io/fs"
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
	Path   string `json:"path" arg:"required" file:"true" help:"folder to write into; it is made, and must be empty"`
	Format string `json:"format" help:"mbox or maildir" default:"mbox"`
	Folder string `json:"folder" help:"only this folder"`
}

// exportPage is how many messages are gathered in one read of the store.
const exportPage = 100

// exported is one message on its way out.
type exported struct {
	body  *store.Stored
	date  time.Time
	flags mailbox.Flags
	uid   uint32
}

// sink takes the messages of one folder.
type sink interface {
	write(m exported, raw []byte) error
	close() error
}

func export(ctx context.Context, c *Call, a *Export) (Transferred, error) {
	var out Transferred
	if a.Format != "mbox" && a.Format != "maildir" {
		return out, fmt.Errorf("%w: format %q is neither mbox nor maildir", ErrUsage, a.Format)
	}
	p, err := c.person(ctx, a.User)
	if err != nil {
		return out, err
	}
	who, err := c.Directory.WhoOf(ctx, p.ID)
	if err != nil { // someone who may not sign in has mail too
		who = note.System
	}
	if names, err := c.Env.FS.List(a.Path); err == nil && len(names) > 0 {
		return out, fmt.Errorf("%s is not empty: %w", a.Path, fs.ErrExist)
	}
	if err := c.Env.FS.MkdirAll(a.Path, 0o700); err != nil {
		return out, err
	}
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
		if err := c.exportFolder(ctx, a, file, f, &out); err != nil {
			return out, fmt.Errorf("folder %q: %w", f.Name, err)
		}
		out.Folders++
	}
	if out.Folders == 0 {
		return out, fmt.Errorf("%w: %s", mailbox.ErrNoFolder, a.Folder)
	}
	took := c.Env.Clock.Now().Sub(start)
	out.Took = took.Round(time.Millisecond).String()
	if s := took.Seconds(); s > 0 {
		out.PerSecond = float64(int64(float64(out.Messages) / s))
	}
	return out, nil
}

func (c *Call) exportFolder(ctx context.Context, a *Export, file *mailbox.File, f mailbox.Folder, out *Transferred) (err error) {
	name := f.Name
	view, _, err := file.Open(ctx, name, true)
	if err != nil {
		return err
	}
	var to sink
	if a.Format == "mbox" {
		to, err = c.newMboxSink(a.Path, name)
	} else {
		to, err = c.newMaildirSink(a.Path, name)
	}
	if err == nil && c.indexes != nil {
		to, err = c.indexes(a.Path, f, to)
	}
	if err != nil {
		return err
	}
	defer func() {
		if e := to.close(); err == nil {
			err = e
		}
	}()
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

// fileName is a level of a folder's name as a file may be called: no way up, nothing hidden.
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

// mboxPath and maildirPath are where the messages of a folder lie, from the top of the export.
func mboxPath(folder string) string {
	levels := strings.Split(folder, "/")
	for i := range levels {
		levels[i] = fileName(levels[i])
	}
	return strings.Join(levels, "/") + ".mbox"
}

func maildirPath(folder string) string { return maildir.FolderName(strings.Split(folder, "/")) }

func (c *Call) newMboxSink(dir, folder string) (sink, error) {
	path := c.Env.FS.PathJoin(append([]string{dir}, strings.Split(mboxPath(folder), "/")...)...)
	if err := c.Env.FS.MkdirAll(c.Env.FS.PathDir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := c.Env.FS.Create(path, "doublet-export")
	if err != nil {
		return nil, err
	}
	return &mboxSink{f, mbox.NewWriter(f)}, nil
}

func (s *mboxSink) write(m exported, raw []byte) error { return s.w.Write("", m.date, raw) }

func (s *mboxSink) close() error {
	err := s.w.Flush()
	if e := s.f.Close(); err == nil {
		err = e
	}
	return err
}

type maildirSink struct {
	c   *Call
	dir string
}

func (c *Call) newMaildirSink(dir, folder string) (sink, error) {
	dir = c.Env.FS.PathJoin(dir, maildirPath(folder))
	for _, sub := range []string{"cur", "new", "tmp"} {
		if err := c.Env.FS.MkdirAll(c.Env.FS.PathJoin(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	return &maildirSink{c, dir}, nil
}

// maildirName is the name of a message's file.
func maildirName(m *exported, size int) string {
	unique := strconv.FormatInt(m.date.Unix(), 10) + ".U" + strconv.FormatUint(uint64(m.uid), 10) + ".doublet,W=" + strconv.Itoa(size)
	return maildir.Name(unique, strings.Fields(string(m.flags.AppendIMAP(nil))), nil)
}

func (s *maildirSink) write(m exported, raw []byte) error {
	f, err := s.c.Env.FS.Create(s.c.Env.FS.PathJoin(s.dir, "cur", maildirName(&m, len(raw))), "doublet-export")
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
