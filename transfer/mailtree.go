package transfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"doublet/env"
	"doublet/mailbox"
	"doublet/wire/maildir"
	"doublet/wire/mbox"
)

// Mbox selects mbox files to import.
type Mbox struct {
	// Path is a file, or a folder of files.
	Path string
	// User is the person who gets the mail.
	User string
	// Folder gets everything; "" means INBOX for a file, and for a tree a folder named after each file.
	Folder string
	// Rd removes one > from quoted From lines (mboxrd).
	Rd bool
	// Bare reads any file without a From line as one message, even if it does not begin with a header field.
	Bare bool
}

// Maildir selects a Maildir to import, with its Maildir++ folders.
type Maildir struct {
	Path string
	// User is the person who gets the mail. Folder gets everything; "" keeps the folders.
	User, Folder string
}

// Mbox imports an mbox file or a tree of them.
func (j *Job) Mbox(ctx context.Context, a *Mbox) (Result, error) {
	info, err := j.env.FS.Stat(a.Path)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: a.Path, Err: env.ErrNotRegular}
	}
	if err != nil {
		return Result{}, err
	}
	return j.importInto(ctx, a.User, func(ctx context.Context, im *importer) error { return im.mbox(ctx, a) })
}

// Maildir imports a Maildir.
func (j *Job) Maildir(ctx context.Context, a *Maildir) (Result, error) {
	if _, err := j.env.FS.Stat(a.Path); err != nil {
		return Result{}, err
	}
	return j.importInto(ctx, a.User, func(ctx context.Context, im *importer) error {
		return im.importTree(a.Path, func(t *mailTree) error { return t.maildirs(ctx, a, ".", nil) })
	})
}

// maxDepth is the maximum depth of a tree of folders.
const maxDepth = 20

// mailTree is a folder of mail that is being imported. Another user may have created it, so files outside it and
// targets of symbolic links are not read: the server may have access to files that the creator does not.
type mailTree struct {
	*importer
	tree *env.Tree
	dir  string // for error messages
}

// importTree imports the mail that read finds in a folder.
func (im *importer) importTree(dir string, read func(*mailTree) error) error {
	tree, err := env.OpenTree(im.env.FS, dir)
	if err != nil {
		return err
	}
	return errors.Join(read(&mailTree{im, tree, dir}), tree.Close())
}

// where returns the path of a file in the folder, for error messages.
func (t *mailTree) where(path string) string { return t.env.FS.PathJoin(t.dir, path) }

// mbox imports a file or a tree of files.
func (im *importer) mbox(ctx context.Context, a *Mbox) error {
	info, err := im.env.FS.Stat(a.Path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return im.importTree(a.Path, func(t *mailTree) error { return t.mboxes(ctx, a, ".", nil) })
	}
	f, _, err := env.OpenRegular(im.env.FS, a.Path)
	if err != nil {
		return im.failed(ctx, a.Path, err)
	}
	defer f.Close()
	return im.mboxFile(ctx, a, f, a.Path, nil)
}

// mboxes imports the files of a folder and its subfolders, in order of name.
func (t *mailTree) mboxes(ctx context.Context, a *Mbox, path string, level []string) error {
	if len(level) > maxDepth {
		return t.failed(ctx, t.where(path), errors.New("folders are nested too deep"))
	}
	names, err := t.tree.List(path)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		if err := t.mboxEntry(ctx, a, inner(path, name), append(slices.Clone(level), name)); err != nil {
			return err
		}
	}
	return nil
}

func (t *mailTree) mboxEntry(ctx context.Context, a *Mbox, path string, level []string) error {
	info, err := t.tree.Stat(path)
	if err == nil && info.IsDir() {
		return t.mboxes(ctx, a, path, level)
	}
	var f io.ReadCloser
	if err == nil {
		f, err = t.tree.Open(path)
	}
	if err != nil {
		return t.failed(ctx, t.where(path), err)
	}
	defer f.Close()
	return t.mboxFile(ctx, a, f, t.where(path), level)
}

// inner returns the path of a name in a folder of a tree.
func inner(path, name string) string {
	if path == "." {
		return name
	}
	return path + "/" + name
}

func (im *importer) mboxFile(ctx context.Context, a *Mbox, f io.Reader, path string, level []string) error {
	folder := a.Folder
	if folder == "" {
		folder = folderOf(level)
	}
	br := bufio.NewReaderSize(f, 64<<10)
	first, _ := br.Peek(200) // a shorter file is checked as it is
	r := mbox.NewReader(br, im.mboxOptions(ctx, mbox.Options{Unquote: a.Rd, Bare: a.Bare || headerField(first)}))
	for {
		m, err := r.Next()
		where := path
		if m.Number > 1 {
			where += " message " + strconv.Itoa(m.Number)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, mbox.ErrTooLarge):
			if err := im.failed(ctx, where, err); err != nil {
				return err
			}
			continue
		case err != nil:
			return im.failed(ctx, where, err)
		}
		p := &piece{folder: folder, where: where, raw: r.Take(), flags: statusFlags(m.Raw), date: m.Date}
		if err := im.emit(ctx, p); err != nil {
			return err
		}
	}
}

// mboxOptions adds the limits of messages to options.
func (im *importer) mboxOptions(ctx context.Context, o mbox.Options) mbox.Options {
	o.MaxSize, o.Large = im.mailbox.MessageSize(), unreserved
	o.Reserve = func() error { return im.reading.need(ctx, int64(o.MaxSize)) }
	return o
}

// headerField reports whether a text begins with a header field (RFC 5322 section 2.2). The file is then one message,
// not an mbox file without From lines.
func headerField(text []byte) bool {
	name, _, ok := bytes.Cut(text, []byte(":"))
	return ok && len(name) > 0 && !bytes.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// failed passes an error to the committing goroutine, which alone updates the counts.
func (im *importer) failed(ctx context.Context, where string, err error) error {
	return im.emit(ctx, &piece{where: where, err: err})
}

// folderOf returns the folder name for a file in a tree.
func folderOf(level []string) string {
	if len(level) == 0 {
		return mailbox.Inbox
	}
	parts := make([]string, 0, len(level))
	for _, l := range level {
		parts = append(parts, strings.TrimSuffix(strings.TrimSuffix(l, ".mbox"), ".sbd"))
	}
	name, err := mailbox.Normalize(strings.Join(parts, "/"))
	if err != nil {
		return mailbox.Inbox
	}
	return name
}

// statusFlags returns the flags in the header of mbox messages: Status (R read, O old) and X-Status (A answered, F
// flagged, T draft, D deleted).
func statusFlags(raw []byte) mailbox.Flags {
	var f mailbox.Flags
	for rest := raw; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\r\n"))
		if len(line) == 0 {
			break
		}
		rest = after
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		switch {
		case len(name) == 6 && bytes.EqualFold(name, []byte("Status")):
			f.Seen = f.Seen || bytes.ContainsRune(value, 'R')
		case len(name) == 8 && bytes.EqualFold(name, []byte("X-Status")):
			f.Deleted = f.Deleted || bytes.ContainsRune(value, 'D')
			for _, k := range []struct {
				letter  rune
				keyword string
			}{{'A', mailbox.Answered}, {'T', mailbox.Draft}, {'F', mailbox.Flagged}} {
				if bytes.ContainsRune(value, k.letter) && !slices.Contains(f.Keywords, k.keyword) {
					f.Keywords = append(f.Keywords, k.keyword)
				}
			}
		}
	}
	slices.Sort(f.Keywords)
	return f
}

// maildirs imports a Maildir and the folders in it: those of Maildir++, and plain ones.
func (t *mailTree) maildirs(ctx context.Context, a *Maildir, dir string, level []string) error {
	if len(level) > maxDepth {
		return t.failed(ctx, t.where(dir), errors.New("folders are nested too deep"))
	}
	names, err := t.tree.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	if slices.Contains(names, "cur") {
		if err := t.maildir(ctx, a, dir, level); err != nil {
			return err
		}
	}
	for _, name := range names {
		if name == "cur" || name == "new" || name == "tmp" {
			continue
		}
		if err := t.maildirEntry(ctx, a, inner(dir, name), name, level); err != nil {
			return err
		}
	}
	return nil
}

// maildirEntry imports a folder in a Maildir. It skips other files, and reports links, because a link may stand for a
// folder.
func (t *mailTree) maildirEntry(ctx context.Context, a *Maildir, path, name string, level []string) error {
	info, err := t.tree.Stat(path)
	switch {
	case err != nil:
		return t.failed(ctx, t.where(path), err)
	case info.Mode()&fs.ModeSymlink != 0:
		return t.failed(ctx, t.where(path), errors.New("symbolic links are not followed"))
	case !info.IsDir():
		return nil
	}
	below := append(slices.Clone(level), name)
	if parts, ok := maildir.Folder(name); ok && name != "." {
		below = append(slices.Clone(level), parts...)
	}
	return t.maildirs(ctx, a, path, below)
}

func (t *mailTree) maildir(ctx context.Context, a *Maildir, dir string, level []string) error {
	folder := a.Folder
	if folder == "" {
		folder = folderOf(level)
	}
	keywords := t.keywords(inner(dir, "dovecot-keywords"))
	type found struct {
		path  string
		entry maildir.Entry
	}
	var all []found
	for _, sub := range []string{"cur", "new"} {
		names, err := t.tree.List(inner(dir, sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a Maildir may lack new
		}
		if err != nil {
			if err := t.failed(ctx, t.where(inner(dir, sub)), err); err != nil {
				return err
			}
			continue
		}
		for _, name := range names {
			if e, ok := maildir.ParseName(name, keywords); ok {
				all = append(all, found{inner(dir, sub+"/"+name), e})
			}
		}
	}
	slices.SortFunc(all, func(x, y found) int {
		if c := x.entry.Time.Compare(y.entry.Time); c != 0 {
			return c
		}
		return strings.Compare(x.entry.Unique, y.entry.Unique)
	})
	for _, m := range all {
		raw, err := t.readMessage(ctx, m.path)
		p := &piece{folder: folder, where: filepath.Base(m.path), raw: raw, date: m.entry.Time, err: err}
		if err == nil {
			p.flags, p.err = mailbox.ParseFlags(m.entry.Flags)
		}
		if err := t.emit(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// keywords reads Dovecot's meanings of the letters a to z: lines of number and keyword.
func (t *mailTree) keywords(path string) []string {
	f, err := t.tree.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	words := make([]string, 26)
	for s := bufio.NewScanner(io.LimitReader(f, 64<<10)); s.Scan(); {
		number, word, _ := strings.Cut(s.Text(), " ")
		if n, err := strconv.Atoi(number); err == nil && n >= 0 && n < len(words) {
			words[n] = word
		}
	}
	return words
}

// readMessage reads a message file and converts its line ends to CRLF.
func (t *mailTree) readMessage(ctx context.Context, path string) ([]byte, error) {
	f, err := t.tree.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := t.reading.read(ctx, f, int64(t.mailbox.MessageSize()))
	if err != nil {
		return nil, err
	}
	return crlf(raw), nil
}

// crlf converts line ends to CRLF.
func crlf(raw []byte) []byte {
	bare := 0
	for i, b := range raw {
		if b == '\n' && (i == 0 || raw[i-1] != '\r') {
			bare++
		}
	}
	if bare == 0 {
		return raw
	}
	out := make([]byte, 0, len(raw)+bare)
	for i, b := range raw {
		if b == '\n' && (i == 0 || raw[i-1] != '\r') {
			out = append(out, '\r')
		}
		out = append(out, b)
	}
	return out
}
