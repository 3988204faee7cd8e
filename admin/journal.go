package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"doublet/env"
	"doublet/mail/journal"
	"doublet/note"
	"doublet/store"
)

// JournalDatabase is a database of the mail journal.
type JournalDatabase struct {
	ID      string    `json:"id"`
	Title   string    `json:"title"`
	State   string    `json:"state"` // current, closed, or the state of service
	Entries uint64    `json:"entries" show:"always"`
	Size    Size      `json:"size" show:"always"`
	Opened  time.Time `json:"opened,omitzero"`
	Closed  time.Time `json:"closed,omitzero"`
	// Keys are the public keys that it is encrypted to. Last is the hash of the last entry.
	Keys []string `json:"keys,omitempty"`
	Last string   `json:"last_hash,omitempty"`
}

// auditor holds the arguments of all verbs that read a journal: the person who signs in, and the reason.
type auditor struct {
	as, password, reason string
}

// JournalSearch are the arguments of journal search.
type JournalSearch struct {
	Database  string `json:"database" arg:"optional" help:"id or title of a journal (default: all)"`
	Reason    string `json:"reason" required:"true" help:"why it is searched, for the audit log"`
	From      string `json:"from" help:"sender of the envelope"`
	To        string `json:"to" help:"recipient of the envelope"`
	Address   string `json:"address" help:"sender or recipient"`
	ID        string `json:"id" help:"queue id"`
	MessageID string `json:"message_id" help:"Message-ID, with its angle brackets"`
	After     string `json:"after" help:"not before 2026-03-01, 2026-03-01T14:00:00Z, or so long ago, 7d"`
	Before    string `json:"before" help:"before this time"`
	Text      string `json:"text" help:"text of the message: what the server's key opens is decrypted, one by one"`
	Most      int    `json:"most" help:"with --text: open at most so many messages (1,000 where none is given)"`
	Limit     int    `json:"limit" help:"at most so many entries (100 where none is given)"`
	As        string `json:"as" help:"person who searches, on the machine of the server; asks for the password"`
	Password  string `json:"password" secret:"unasked" help:"password of that person"`
}

// JournalShow are the arguments of journal show.
type JournalShow struct {
	Database string `json:"database" arg:"required" help:"id or title of a journal"`
	Number   string `json:"number" arg:"required" help:"number of the entry"`
	Reason   string `json:"reason" required:"true" help:"why it is opened, for the audit log"`
	Sealed   bool   `json:"sealed" help:"the encrypted part instead of the message"`
	As       string `json:"as" help:"person who reads, on the machine of the server; asks for the password"`
	Password string `json:"password" secret:"unasked" help:"password of that person"`
}

// JournalExport are the arguments of journal export.
type JournalExport struct {
	Database string `json:"database" arg:"required" help:"id or title of a journal"`
	Path     string `json:"path" arg:"required" file:"true" help:"file to write; it must not exist"`
	Reason   string `json:"reason" required:"true" help:"why it is exported, for the archive and the audit log"`
	First    int    `json:"first" help:"number of the first entry"`
	Last     int    `json:"last" help:"number of the last entry"`
	As       string `json:"as" required:"true" help:"person who exports; asks for the password"`
	Password string `json:"password" secret:"unasked" help:"password of that person"`
}

// JournalNamed are the arguments of journal remove.
type JournalNamed struct {
	Database string `json:"database" arg:"required" help:"id or title of a journal"`
	Reason   string `json:"reason" required:"true" help:"why, for the audit log"`
}

// JournalRoll are the arguments of journal roll.
type JournalRoll struct {
	Reason string `json:"reason" required:"true" help:"why, for the audit log"`
}

// JournalEntry is an entry in the results of verbs. journal show also sets what is encrypted.
type JournalEntry struct {
	Database string `json:"database"`
	journal.Entry
	Details *journal.Details `json:"details,omitempty"`
	Message string           `json:"message,omitempty"`
	// Sealed is the encrypted part.
	Sealed []byte `json:"sealed,omitempty"`
}

// Text returns the entry for people: what is readable, the details, and the message.
func (e JournalEntry) Text() string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", name, value)
		}
	}
	line("entry", fmt.Sprintf("%d of journal %s", e.Number, e.Database))
	line("time", e.Time.Format(time.RFC3339))
	line("queue id", e.ID.String())
	line("message id", e.MessageID)
	line("direction", string(e.Direction))
	line("from", cmp.Or(e.From, "<>"))
	line("recipients", strings.Join(e.Recipients, " "))
	line("size", Size(e.Size).String())
	line("hash", e.Hash.String())
	if d := e.Details; d != nil {
		line("envelope", strings.Join(d.Envelope, " "))
		line("hidden", strings.Join(d.Hidden, " "))
		line("signed in", d.SignIn)
		line("client", strings.TrimSpace(d.Client+" "+d.Helo+" "+d.Protocol+" "+d.TLS))
	}
	if e.Message != "" {
		b.WriteString("\n" + strings.ReplaceAll(e.Message, "\r\n", "\n"))
	}
	if e.Sealed != nil {
		line("sealed", Size(len(e.Sealed)).String()+"; --json has it")
	}
	return b.String()
}

// JournalFound is the result of journal search.
type JournalFound struct {
	Entries []JournalEntry `json:"entries"`
	// More reports that a limit ended the search. Opened counts the messages that were decrypted, Locked those that the
	// server's key does not open.
	More   bool `json:"more,omitempty"`
	Opened int  `json:"opened,omitempty"`
	Locked int  `json:"locked,omitempty"`
}

// Text returns a line for each entry.
func (f JournalFound) Text() string {
	var b strings.Builder
	for _, e := range f.Entries {
		fmt.Fprintf(&b, "%s %6d  %s  %-8s %s > %s  %s\n", e.Database, e.Number, e.Time.Format("2006-01-02 15:04:05"),
			e.Direction, cmp.Or(e.From, "<>"), strings.Join(e.Recipients, " "), Size(e.Size))
	}
	if f.More {
		b.WriteString("there are more: narrow the search, or raise --limit or --most\n")
	}
	if f.Locked > 0 {
		fmt.Fprintf(&b, "%d messages are encrypted to other keys: --identity names a file with one\n", f.Locked)
	}
	return b.String()
}

// JournalReport is the result of verifying a journal.
type JournalReport struct {
	Database string   `json:"database"`
	First    uint64   `json:"first"`
	Last     uint64   `json:"last" show:"always"`
	Entries  uint64   `json:"entries" show:"always"`
	LastHash string   `json:"last_hash"`
	Findings []string `json:"findings"`
	// Signer, Server, By and Reason are from the manifest of an archive.
	Signer string `json:"signer,omitempty"`
	Server string `json:"server,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Bad reports that something was found, which makes the command fail.
func (r JournalReport) Bad() bool { return len(r.Findings) > 0 }

// Text returns the report for people.
func (r JournalReport) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "journal %s: %d entries read, %d to %d expected, last hash %s\n", r.Database, r.Entries, r.First,
		r.Last, r.LastHash)
	if r.Signer != "" {
		fmt.Fprintf(&b, "exported from %s by %s (%s), signed by %s\n", r.Server, r.By, r.Reason, r.Signer)
	}
	for _, f := range r.Findings {
		b.WriteString(f + "\n")
	}
	if len(r.Findings) == 0 {
		b.WriteString("complete and unchanged\n")
	}
	return b.String()
}

// JournalReportOf returns the result for a report, and for the manifest of an archive if m is not nil.
func JournalReportOf(database string, r *journal.Report, m *journal.Manifest) JournalReport {
	out := JournalReport{Database: database, First: r.First, Last: r.Last, Entries: r.Entries,
		LastHash: r.LastHash.String(), Findings: []string{}}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, f.String())
	}
	if m != nil {
		out.Signer, out.Server, out.By, out.Reason = m.Signer, m.Server, m.By, m.Reason
	}
	return out
}

func journals() []*Verb {
	return []*Verb{
		define("journal list", "the databases of the mail journal", journalList),
		define("journal keys", "the public keys of the mail journal: for encryption, and for signatures of archives",
			func(_ context.Context, c *Call, _ *struct{}) (journal.Keys, error) { return c.Journal.Keys(), nil }),
		define("journal search", "find messages in the mail journal", journalSearch, changes, yields,
			long("Only people in the access list of a journal may search it; the audit log names them and their "+
				"reason. By what is readable:\ntime, addresses, ids. By --text messages are decrypted one by one, up "+
				"to --most.\nWith --identity FILE the command line decrypts; the key does not leave it.")),
		define("journal show", "show a message of the mail journal", journalShow, changes,
			long("Only people in the access list of the journal may open it. With --identity FILE the command line "+
				"decrypts; the key\ndoes not leave it.")),
		define("journal export", "write messages of the mail journal as a sealed archive", journalExport, changes,
			machine, yields, long("The archive proves that nothing is missing between its first and its last entry: "+
				"journal verify FILE. It stays\nencrypted.")),
		define("journal verify", "check that a journal is complete and unchanged", journalVerify, changes, yields,
			long("Names each entry that is missing, changed, inserted or reordered. On the command line, also an "+
				"archive that journal\nexport wrote: journal verify FILE --signer KEY, with the key that journal keys "+
				"shows.")),
		define("journal roll", "begin a new database of the mail journal; the present one becomes read-only",
			journalRoll, changes),
		define("journal remove", "remove a closed database of the mail journal for good", journalRemove, changes),
	}
}

// journalCall is a run of a verb that reads journals.
type journalCall struct {
	*Call
	// reader is the person who reads, name that person's name.
	reader note.Who
	name   string
}

// reading returns the call of a verb that reads journals. The role Admin, or the server's own account, is not enough:
// the access list of the database decides. On the machine itself the person signs in.
func reading(ctx context.Context, c *Call, a auditor) (*journalCall, error) {
	who, name, err := readerOf(ctx, c, a)
	return &journalCall{c, who, name}, err
}

func readerOf(ctx context.Context, c *Call, a auditor) (who note.Who, name string, err error) {
	if strings.TrimSpace(a.reason) == "" {
		return who, "", fmt.Errorf("%w: the reason is empty", ErrUsage)
	}
	if !c.Who.System {
		if a.as != "" {
			return who, "", fmt.Errorf("%w: --as is for the machine of the server", ErrUsage)
		}
		return c.Who, c.nameOf(ctx, c.Who.Person), nil
	}
	if a.as == "" {
		return who, "", fmt.Errorf("%w: the server's account reads no journal: name a person with --as",
			store.ErrDenied)
	}
	who, p, err := c.Directory.SignIns.Authenticate(ctx, a.as, a.password, "journal")
	if err != nil {
		return who, "", fmt.Errorf("%w: %w", store.ErrDenied, err)
	}
	return who, p.Name(), nil
}

// journalNamed finds a journal by id or title.
func journalNamed(ctx context.Context, c *Call, name string) (journal.Database, error) {
	list, err := c.Journal.Databases(ctx)
	if err != nil {
		return journal.Database{}, err
	}
	var found []journal.Database
	for _, d := range list {
		if strings.EqualFold(d.ID.String(), name) || strings.EqualFold(d.Title, name) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		return journal.Database{}, fmt.Errorf("journal %q: %w", name, store.ErrNotFound)
	case 1:
		return found[0], nil
	}
	return journal.Database{}, fmt.Errorf("%w: %d journals have the title %q: give an id", ErrUsage, len(found), name)
}

func journalList(ctx context.Context, c *Call, _ *struct{}) ([]JournalDatabase, error) {
	list, err := c.Journal.Databases(ctx)
	out := make([]JournalDatabase, 0, len(list))
	for _, d := range list {
		x := JournalDatabase{ID: d.ID.String(), Title: d.Title, State: "closed", Entries: d.Entries,
			Size: Size(d.Bytes), Opened: d.Opened, Closed: d.Closed, Keys: d.Keys, Last: d.Last.String()}
		switch {
		case d.Err != nil:
			x.State, x.Last = d.State+": "+d.Err.Error(), ""
		case d.Current:
			x.State = "current"
		}
		out = append(out, x)
	}
	return out, err
}

// timeOf parses a time in the arguments of a search.
func timeOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	return since(text, now)
}

func (a *JournalSearch) query(now time.Time) (q journal.Query, err error) {
	q = journal.Query{From: a.From, To: a.To, Address: a.Address, MessageID: a.MessageID}
	if a.ID != "" {
		if q.ID, err = note.ParseUNID(a.ID); err != nil {
			return q, fmt.Errorf("%w: --id: %w", ErrUsage, err)
		}
	}
	if q.After, err = timeOf(a.After, now); err == nil {
		q.Before, err = timeOf(a.Before, now)
	}
	return q, err
}

// mostFound and mostOpened bound a search.
const mostFound, mostOpened = 10_000, 100_000

func journalSearch(ctx context.Context, c *Call, a *JournalSearch) (JournalFound, error) {
	out := JournalFound{Entries: []JournalEntry{}}
	j, err := reading(ctx, c, auditor{a.As, a.Password, a.Reason})
	if err != nil {
		return out, err
	}
	q, err := a.query(c.Env.Clock.Now())
	if err != nil {
		return out, err
	}
	list, err := journalsNamed(ctx, c, a.Database)
	if err != nil {
		return out, err
	}
	readable := 0
	for _, d := range list {
		err := c.Journal.Search(ctx, j.reader, d.ID, &q, func(e *journal.Entry) (bool, error) {
			return j.found(ctx, d.ID, e, a, &out)
		})
		if errors.Is(err, store.ErrDenied) && a.Database == "" {
			continue // of all journals, those that the person may read
		}
		if err != nil || out.More {
			return out, err
		}
		readable++
	}
	if readable == 0 && len(list) > 0 {
		return out, fmt.Errorf("%w: no journal has you in its access list: db set DATABASE --access 'NAME=Reader' "+
			"adds people", store.ErrDenied)
	}
	return out, nil
}

// journalsNamed returns the journal with a name, or all for "".
func journalsNamed(ctx context.Context, c *Call, name string) ([]journal.Database, error) {
	if name == "" {
		return c.Journal.Databases(ctx)
	}
	one, err := journalNamed(ctx, c, name)
	return []journal.Database{one}, err
}

// found adds an entry to the result of a search, if its message has the text. It returns false at a bound.
func (c *journalCall) found(ctx context.Context, db note.DatabaseID, e *journal.Entry, a *JournalSearch,
	out *JournalFound) (bool, error) {
	limit, most := min(atMost(a.Limit, 100), mostFound), min(atMost(a.Most, 1000), mostOpened)
	if len(out.Entries) == limit || a.Text != "" && out.Opened+out.Locked == most {
		out.More = true
		return false, nil
	}
	if a.Text != "" {
		fits, err := c.contains(ctx, db, e, a.Text, out)
		if err != nil || !fits {
			return err == nil, err
		}
	}
	out.Entries = append(out.Entries, JournalEntry{Database: db.String(), Entry: *e})
	return true, nil
}

// contains decrypts a message with the server's key and looks for a text in it.
func (c *journalCall) contains(ctx context.Context, db note.DatabaseID, e *journal.Entry, text string,
	out *JournalFound) (bool, error) {
	_, content, err := c.Journal.Entry(ctx, c.reader, db, e.Number)
	if err != nil {
		return false, err
	}
	_, raw, err := c.unseal(content)
	switch {
	case errors.Is(err, journal.ErrKey):
		out.Locked++
		return false, nil
	case err != nil:
		return false, err
	}
	out.Opened++
	c.Progress(Progress{Stage: "opened", Done: uint64(out.Opened), Text: fmt.Sprintf("%d found", len(out.Entries))})
	return journal.Contains(raw, text), nil
}

// unseal decrypts an entry with the server's key.
func (c *journalCall) unseal(content io.WriterTo) (*journal.Details, []byte, error) {
	var sealed bytes.Buffer
	if _, err := content.WriteTo(&sealed); err != nil {
		return nil, nil, err
	}
	return journal.Unseal(sealed.Bytes(), c.Journal.Identity())
}

func journalShow(ctx context.Context, c *Call, a *JournalShow) (JournalEntry, error) {
	var out JournalEntry
	j, err := reading(ctx, c, auditor{a.As, a.Password, a.Reason})
	if err != nil {
		return out, err
	}
	d, err := journalNamed(ctx, c, a.Database)
	if err != nil {
		return out, err
	}
	number, err := strconv.ParseUint(a.Number, 10, 64)
	if err != nil {
		return out, fmt.Errorf("%w: %q is no number of an entry", ErrUsage, a.Number)
	}
	e, content, err := c.Journal.Entry(ctx, j.reader, d.ID, number)
	if err != nil {
		return out, err
	}
	out = JournalEntry{Database: d.ID.String(), Entry: *e}
	if a.Sealed {
		var sealed bytes.Buffer
		_, err = content.WriteTo(&sealed)
		out.Sealed = sealed.Bytes()
		return out, err
	}
	details, raw, err := j.unseal(content)
	if errors.Is(err, journal.ErrKey) {
		return out, fmt.Errorf("%w: --identity names a file with one of %s", err, strings.Join(d.Keys, " "))
	}
	out.Details, out.Message = details, string(raw)
	return out, err
}

func journalExport(ctx context.Context, c *Call, a *JournalExport) (Done, error) {
	j, err := reading(ctx, c, auditor{a.As, a.Password, a.Reason})
	if err != nil {
		return Done{}, err
	}
	d, err := journalNamed(ctx, c, a.Database)
	if err != nil {
		return Done{}, err
	}
	if _, err := c.Env.FS.Stat(a.Path); err == nil {
		return Done{}, fmt.Errorf("%s: %w", a.Path, store.ErrExists)
	}
	x := &journal.Export{Database: d.ID, First: uint64(max(0, a.First)), Last: uint64(max(0, a.Last)), Server: c.Name,
		By: j.name, Reason: a.Reason}
	f, err := c.Env.FS.Create(a.Path, "journal")
	if err != nil {
		return Done{}, fmt.Errorf("create archive: %w", err)
	}
	m, err := c.Journal.Export(ctx, j.reader, x, f, func(done uint64) {
		c.Progress(Progress{Stage: "entry", Done: done})
	})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = env.SyncDir(c.Env.FS, c.Env.FS.PathDir(a.Path))
	}
	if err != nil {
		return Done{}, errors.Join(err, c.Env.FS.Remove(a.Path)) // half an archive proves nothing
	}
	return Done{fmt.Sprintf("wrote entries %d to %d of journal %s to %s, last hash %s, signed by %s", m.First, m.Last,
		m.Database, a.Path, m.Hash, m.Signer)}, nil
}

func journalVerify(ctx context.Context, c *Call, a *Named) (JournalReport, error) {
	d, err := journalNamed(ctx, c, a.Name)
	if err != nil {
		return JournalReport{}, err
	}
	r, err := c.Journal.Verify(ctx, d.ID, func(done uint64) {
		c.Progress(Progress{Stage: "entry", Done: done, Text: fmt.Sprintf("of %d", d.Entries)})
	})
	return JournalReportOf(d.ID.String(), &r, nil), err
}

// errNoJournal reports that the mail journal is off.
var errNoJournal = fmt.Errorf("%w: the mail journal is off (journal.enabled)", ErrUsage)

func journalRoll(ctx context.Context, c *Call, a *JournalRoll) (Done, error) {
	switch {
	case strings.TrimSpace(a.Reason) == "":
		return Done{}, fmt.Errorf("%w: the reason is empty", ErrUsage)
	case !c.Journal.On():
		return Done{}, errNoJournal
	}
	id, err := c.Journal.RollOver(ctx)
	return Done{"began journal " + id.String()}, err
}

func journalRemove(ctx context.Context, c *Call, a *JournalNamed) (Done, error) {
	if strings.TrimSpace(a.Reason) == "" {
		return Done{}, fmt.Errorf("%w: the reason is empty", ErrUsage)
	}
	d, err := journalNamed(ctx, c, a.Database)
	if err != nil {
		return Done{}, err
	}
	err = c.Journal.Remove(ctx, d.ID)
	if errors.Is(err, journal.ErrOpen) {
		err = fmt.Errorf("%w: %w: journal roll begins another one", ErrUsage, err)
	}
	return Done{fmt.Sprintf("removed journal %s with %d entries, last hash %s", d.ID, d.Entries, d.Last)}, err
}

// expireJournals removes the journals that are older than journal.keep, each with an audit line.
func (s *System) expireJournals(ctx context.Context) (int, error) {
	gone, err := s.Journal.Expire(ctx)
	for _, d := range gone {
		s.writeAudit(&entry{verb: "journal remove", by: "system", args: fmt.Sprintf(
			"database=%s reason=\"older than journal.keep\" entries=%d last_hash=%s", d.ID, d.Entries, d.Last)})
	}
	return len(gone), err
}
