package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mbox"
)

// PersonExport selects a person to export with all mail, flags and directory fields.
type PersonExport struct {
	User string
	// Path is a folder, which is created if it is missing and must be empty, or NAME.zip for one file.
	Path string
	// Format is maildir or mbox. Only maildir keeps every octet.
	Format string
}

// PersonImport selects an export of a person.
type PersonImport struct {
	// Path is the folder or zip file.
	Path string
	// User is the person here who gets the mail; "" means the person of the export, who is added if nobody has the
	// address or the short name.
	User string
}

// The files of a person's export, in addition to the folders of mail.
const (
	personFile   = "person.json"
	messagesFile = "messages.jsonl"
	exportForm   = "doublet person 1"
)

// exportedPerson is the content of person.json: the person's directory entry without passwords, and the folders of
// their mail file.
type exportedPerson struct {
	Form      string              `json:"form"`
	ID        string              `json:"id"`
	Names     few[string]         `json:"names"`
	Short     string              `json:"short,omitempty"`
	Address   string              `json:"address,omitempty"`
	Aliases   few[string]         `json:"aliases,omitempty"`
	Roles     few[string]         `json:"roles,omitempty"`
	Quota     uint64              `json:"quota,omitempty"`
	Warning   uint64              `json:"warning,omitempty"`
	SizeLimit uint64              `json:"size_limit,omitempty"`
	Disabled  bool                `json:"disabled,omitempty"`
	Mail      string              `json:"mail"` // maildir or mbox
	Folders   few[exportedFolder] `json:"folders"`
}

// few is a list of at most maxFew elements. Reading a longer one fails before the memory for it is allocated.
type few[T any] []T

// UnmarshalJSON reads the list.
func (f *few[T]) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	t, err := d.Token()
	switch {
	case err != nil:
		return err
	case t == nil: // null
		*f = nil
		return nil
	case t != json.Delim('['):
		return errors.New("not a list")
	}
	var out []T
	for d.More() {
		if len(out) == maxFew {
			return fmt.Errorf("list of more than %d elements", maxFew)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		out = append(out, one)
	}
	*f = out
	return nil
}

// exportedFolder is a folder. Path is the path of its messages, a Maildir or an mbox file, relative to the top of the
// export.
type exportedFolder struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	SpecialUse string `json:"special_use,omitempty"`
	Subscribed bool   `json:"subscribed,omitempty"`
	Path       string `json:"path"`
	// Index is a file with one line for each message, in order of UID.
	Index string `json:"index"`
}

// exportedMessage is a line of a folder's index.
type exportedMessage struct {
	UID   uint32    `json:"uid"`
	File  string    `json:"file,omitempty"` // in the Maildir's cur
	Flags []string  `json:"flags,omitempty"`
	Date  time.Time `json:"date"`
}

// indexed is a sink that also writes an index.
type indexed struct {
	sink
	index io.WriteCloser
	out   *bufio.Writer
	named bool
}

func (s *indexed) write(m exported, raw []byte) error {
	line := exportedMessage{UID: m.uid, Flags: strings.Fields(string(m.flags.AppendIMAP(nil))), Date: m.date}
	if s.named {
		line.File = maildirName(&m, len(raw))
	}
	b, err := json.Marshal(line)
	if err == nil {
		_, err = s.out.Write(append(b, '\n'))
	}
	return errors.Join(err, s.sink.write(m, raw))
}

func (s *indexed) close() error {
	return errors.Join(s.sink.close(), s.out.Flush(), s.index.Close())
}

// ExportPerson writes a person: the mail, the flags, and the directory entry without passwords.
func (j *Job) ExportPerson(ctx context.Context, a *PersonExport) (Result, error) {
	p, err := j.directory.Names.PersonOf(ctx, a.User)
	if err != nil {
		return Result{}, err
	}
	out := exportedPerson{
		Form: exportForm, ID: p.ID.String(), Names: p.FullName, Short: p.ShortName, Address: p.InternetAddress,
		Aliases: p.MailAddress, Roles: p.Roles,
		Quota: p.Quota, Warning: p.Warning, SizeLimit: p.SizeLimit, Disabled: p.Disabled, Mail: a.Format,
	}
	indexes := func(tree exportTree, f mailbox.Folder, path string, to sink) (sink, error) {
		e := exportedFolder{Name: f.Name, ID: f.UNID.String(), SpecialUse: f.SpecialUse, Subscribed: f.Subscribed,
			Path: path}
		e.Index = strconv.Itoa(len(out.Folders)+1) + "." + messagesFile
		out.Folders = append(out.Folders, e)
		file, err := tree.index(e.Index)
		if err != nil {
			return nil, errors.Join(err, to.close())
		}
		return &indexed{to, file, bufio.NewWriter(file), a.Format == "maildir"}, nil
	}
	return j.exportTo(ctx, &Export{User: a.User, Path: a.Path, Format: a.Format}, indexes, func(tree exportTree) error {
		b, err := json.MarshalIndent(out, "", "  ")
		if err != nil {
			return err
		}
		// Write it last: an export without it is incomplete.
		f, err := tree.create(personFile)
		if err != nil {
			return err
		}
		_, err = f.Write(append(b, '\n'))
		return errors.Join(err, f.Close())
	})
}

// Limits of an export that is imported.
const (
	// maxPersonFile is enough for the 10,000 folders that a mail file may have, maxFew is their number and that of
	// names.
	maxPersonFile = 4 << 20
	maxFew        = 10_000
	maxIndexLine  = 64 << 10
)

// ImportPerson imports an export of a person. The person gets no password and no roles.
func (j *Job) ImportPerson(ctx context.Context, a *PersonImport) (Result, error) {
	tree, err := j.openExport(a.Path)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = tree.close() }()
	in, err := readPerson(tree, a.Path)
	if err != nil {
		return Result{}, err
	}
	user := a.User
	if user == "" {
		if user, err = j.importedPerson(ctx, in); err != nil {
			return Result{}, err
		}
	}
	out, err := j.importInto(ctx, user, func(ctx context.Context, im *importer) error {
		im.uses = map[string]string{}
		for i := range in.Folders {
			if err := im.exportedFolder(ctx, tree, in, &in.Folders[i]); err != nil {
				return fmt.Errorf("folder %q: %w", in.Folders[i].Name, err)
			}
		}
		return nil
	})
	if a.User == "" && len(in.Roles) > 0 {
		out.Skipped = append(out.Skipped, "roles "+strings.Join(in.Roles,
			", ")+": a file gives nobody a role, see user set --role")
	}
	return out, err
}

// readPerson reads the exported directory entry of the person.
func readPerson(tree importTree, path string) (*exportedPerson, error) {
	f, err := tree.open(personFile)
	if err != nil {
		return nil, fmt.Errorf("%w (is %s a complete file of export person?)", err, path)
	}
	var in exportedPerson
	err = json.NewDecoder(io.LimitReader(f, maxPersonFile)).Decode(&in)
	if err = errors.Join(err, f.Close()); err != nil || in.Form != exportForm {
		return nil, fmt.Errorf("%w: %s is no export of a person (%v)", ErrInvalid, personFile, err)
	}
	return &in, nil
}

// importedPerson finds the person of an export, or adds them without password and roles. Otherwise the author of the
// file could get the role Admin here.
func (j *Job) importedPerson(ctx context.Context, in *exportedPerson) (name string, err error) {
	for _, name := range []string{in.Address, in.Short} {
		if name == "" {
			continue
		}
		if p, err := j.directory.Names.PersonNamed(ctx, name); err == nil {
			return p.ID.String(), nil
		}
	}
	p, err := j.directory.People.Add(ctx, j.who, directory.PersonSpec{PersonFields: directory.PersonFields{
		FullName: in.Names, ShortName: in.Short, InternetAddress: in.Address, MailAddress: in.Aliases,
		Quota: in.Quota, Warning: in.Warning, SizeLimit: in.SizeLimit, Disabled: in.Disabled,
	}})
	if err != nil {
		return "", fmt.Errorf("add %s: %w", first(in.Names), err)
	}
	err = j.store.SetInfo(note.System, p.MailDatabase,
		func(i *layout.Info) { i.Quota, i.Warning = in.Quota, in.Warning })
	if errors.Is(err, store.ErrNotFound) { // the mail file is created when it is first opened
		err = nil
	}
	return p.ID.String(), err
}

// exportedFolder imports one folder.
func (im *importer) exportedFolder(ctx context.Context, tree importTree, in *exportedPerson, f *exportedFolder) error {
	for _, path := range []string{f.Index, f.Path} {
		// "" is the top, which is the Maildir of INBOX.
		if path != "" && !filepath.IsLocal(filepath.FromSlash(path)) {
			return fmt.Errorf("%w: path %q leads out of the export", ErrInvalid, path)
		}
	}
	name, err := mailbox.Normalize(f.Name)
	if err != nil {
		return err
	}
	err = im.emit(ctx, &piece{mark: func(ctx context.Context) error {
		im.uses[name] = f.SpecialUse
		if _, err := im.folder(ctx, name); err != nil {
			return err
		}
		return im.file.Subscribe(ctx, name, f.Subscribed)
	}})
	if err != nil {
		return err
	}
	index, err := tree.open(f.Index)
	if err != nil {
		return err
	}
	defer index.Close()
	read, done, err := im.exportedMessages(ctx, tree, f.Path, in.Mail)
	if err != nil {
		return err
	}
	defer done()
	lines := bufio.NewScanner(index)
	lines.Buffer(make([]byte, 4096), maxIndexLine)
	for lines.Scan() {
		var m exportedMessage
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("%s: %w", f.Index, err)
		}
		p := &piece{folder: name, where: f.Name + " message " + strconv.FormatUint(uint64(m.UID), 10), date: m.Date,
			unid: note.DeriveUNID([]byte("import person"), []byte(in.ID), []byte(f.ID), strconv.AppendUint(nil,
				uint64(m.UID), 10))}
		p.flags = lenientFlags(m.Flags)
		if p.raw, p.err = read(&m); errors.Is(p.err, io.EOF) {
			return fmt.Errorf("%s has fewer messages than %s: %w", f.Path, f.Index, io.ErrUnexpectedEOF)
		}
		if err := im.emit(ctx, p); err != nil {
			return err
		}
	}
	return lines.Err()
}

// exportedMessages returns a function that reads the messages of a Maildir by file name, or those of an mbox file one
// after another.
func (im *importer) exportedMessages(ctx context.Context, tree importTree, path, format string) (
	read func(*exportedMessage) ([]byte, error), done func(), err error,
) {
	if format == "maildir" {
		return func(m *exportedMessage) ([]byte, error) {
			if m.File == "" || strings.ContainsAny(m.File, "/\\") {
				return nil, fmt.Errorf("%w: message without a file", fs.ErrNotExist)
			}
			f, err := tree.open(below(path, "cur/"+m.File))
			if err != nil {
				return nil, err
			}
			defer f.Close()
			return im.reading.read(ctx, f, int64(im.mailbox.MessageSize()))
		}, func() {}, nil
	}
	f, err := tree.open(path)
	if err != nil {
		return nil, nil, err
	}
	// Our writer ends each message with an empty line, also the only one of a file.
	r := mbox.NewReader(f, im.mboxOptions(ctx, mbox.Options{Unquote: true, FinalBlank: mbox.FinalBlankStrip}))
	return func(*exportedMessage) ([]byte, error) {
		_, err := r.Next()
		return r.Take(), err
	}, func() { _ = f.Close() }, nil
}
