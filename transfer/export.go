package transfer

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

// Export selects the mail of a person to write to files.
type Export struct {
	User string
	// Path is a folder, which is created if it is missing and must be empty, or NAME.zip for one file.
	Path string
	// Format is mbox or maildir.
	Format string
	// Folder is the only folder to export; "" means all.
	Folder string
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

// Export writes the mail of a person to files.
func (j *Job) Export(ctx context.Context, a *Export) (Result, error) {
	return j.exportTo(ctx, a, func(_ exportTree, _ mailbox.Folder, _ string, to sink) (sink, error) { return to, nil },
		func(exportTree) error { return nil })
}

// besideFolder may replace the sink of a folder, whose messages are at path in the tree.
type besideFolder func(tree exportTree, f mailbox.Folder, path string, to sink) (sink, error)

// reader returns the identity under which a person's mail is read. A person who may not sign in has mail too.
func (j *Job) reader(ctx context.Context, person note.UNID) note.Who {
	who, err := j.directory.Names.WhoOf(ctx, person)
	if err != nil {
		return note.System
	}
	return who
}

// exportTo writes folders of mail into a new tree. last writes the files that follow all folders.
func (j *Job) exportTo(ctx context.Context, a *Export, beside besideFolder,
	last func(exportTree) error) (out Result, err error) {
	if a.Format != "mbox" && a.Format != "maildir" {
		return out, fmt.Errorf("%w: format %q is neither mbox nor maildir", ErrInvalid, a.Format)
	}
	p, err := j.directory.Names.PersonOf(ctx, a.User)
	if err != nil {
		return out, err
	}
	tree, err := j.newExportTree(a.Path)
	if err != nil {
		return out, err
	}
	defer func() { err = tree.close(err) }()
	start := j.env.Clock.Now()
	file := j.mailbox.File(j.reader(ctx, p.ID), p.MailDatabase)
	folders, err := file.Folders(ctx)
	if err != nil {
		return out, err
	}
	paths := newFolderPaths(a.Format)
	for _, f := range folders {
		if a.Folder != "" && f.Name != a.Folder {
			continue
		}
		path := paths.give(f.Name)
		to, err := newSink(tree, a.Format, path)
		if err == nil {
			to, err = beside(tree, f, path, to)
		}
		if err == nil {
			err = j.exportFolder(ctx, file, f.Name, to, &out)
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
	out.Took = j.env.Clock.Now().Sub(start)
	return out, nil
}

// newSink creates the sink for the messages of a folder at a path.
func newSink(tree exportTree, format, path string) (sink, error) {
	if format == "mbox" {
		f, err := tree.create(path)
		if err != nil {
			return nil, err
		}
		return &mboxSink{f, mbox.NewWriter(f)}, nil
	}
	for _, sub := range []string{"cur", "new", "tmp"} {
		if err := tree.mkdir(below(path, sub)); err != nil {
			return nil, err
		}
	}
	return &maildirSink{tree, path}, nil
}

// exportFolder writes the messages of a folder, and closes the sink.
func (j *Job) exportFolder(ctx context.Context, file *mailbox.File, name string, to sink, out *Result) (err error) {
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
	memory := j.memory.reader()
	defer memory.release()
	var raw []byte
	return view.Fetch(ctx, mailbox.Set{{Start: 1, Stop: 0}}, true, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			body, err := m.Body()
			page = append(page, exported{body, m.Date(), m.Flags(), m.UID})
			return len(page) >= exportPage, err
		}, func() error {
			for _, m := range page {
				if m.body.Size() > unreserved {
					if err := memory.need(ctx, int64(m.body.Size())); err != nil {
						return err
					}
				}
				var err error
				if raw, err = m.body.AppendRange(raw[:0], 0, m.body.Size()); err != nil {
					return err
				}
				if err := to.write(m, raw); err != nil {
					return err
				}
				out.Messages++
				out.Bytes += uint64(len(raw))
				if cap(raw) > unreserved {
					raw = nil
				}
				memory.release()
			}
			if len(page) > 0 {
				j.progress(Progress{Stage: "export " + name, Done: out.Messages, Bytes: out.Bytes})
			}
			page = page[:0]
			return nil
		})
}

type mboxSink struct {
	f io.WriteCloser
	w *mbox.Writer
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
	tree exportTree
	dir  string
}

// maildirName returns the file name of a message.
func maildirName(m *exported, size int) string {
	unique := strconv.FormatInt(m.date.Unix(), 10) + ".U" + strconv.FormatUint(uint64(m.uid),
		10) + ".doublet,W=" + strconv.Itoa(size)
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
