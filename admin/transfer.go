package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"doublet/transfer"
)

// ImportMbox are the arguments of import mbox.
type ImportMbox struct {
	Path   string `json:"path" arg:"required" file:"true" help:"mbox file, or a folder of them"`
	User   string `json:"user" required:"true" help:"person whose mail it becomes"`
	Folder string `json:"folder" help:"target folder (default: INBOX; for a tree, folders of the same names)"`
	Rd     bool   `json:"rd" help:"take one > from quoted From lines (mboxrd)"`
	Bare   bool   `json:"bare" help:"treat a file without a From line as one message"`
}

// ImportMaildir are the arguments of import maildir.
type ImportMaildir struct {
	Path   string `json:"path" arg:"required" file:"true" help:"Maildir, with its Maildir++ folders"`
	User   string `json:"user" required:"true" help:"person whose mail it becomes"`
	Folder string `json:"folder" help:"folder that everything goes into, in place of the folders there"`
}

// ImportIMAP are the arguments of import imap.
type ImportIMAP struct {
	Server         string   `json:"server" arg:"required" help:"the other server, host or host:port"`
	User           string   `json:"user" help:"person whose mail it becomes"`
	Login          string   `json:"login" help:"name to sign in with there; without one the person's address"`
	Password       string   `json:"password" secret:"unasked" help:"password there"`
	PasswordFile   string   `json:"password_file" file:"true" help:"file whose first line is the password or token"`
	Token          string   `json:"token" secret:"unasked" help:"token of OAuth in place of a password (XOAUTH2)"`
	Master         string   `json:"master" help:"master user (SASL PLAIN with authorization identity)"`
	People         string   `json:"people" file:"true" help:"CSV file with the columns user, login, password"`
	TLS            string   `json:"tls" default:"tls" help:"tls (port 993), starttls (port 143) or none"`
	CA             string   `json:"ca" file:"true" help:"PEM file of the certificate authority"`
	Insecure       bool     `json:"insecure" help:"take any certificate"`
	Auth           string   `json:"auth" help:"plain, login, scram or xoauth2 (default: best offered)"`
	Folder         []string `json:"folder" help:"only this folder there, by its name there; may be repeated"`
	Exclude        []string `json:"exclude" help:"not this folder there; may be repeated"`
	All            bool     `json:"all" help:"also \\All (as Archive), \\Flagged and \\Important"`
	Check          bool     `json:"check" help:"sign in, show what would come, and import nothing"`
	Wait           string   `json:"wait" help:"how long one answer may take (5m)" default:"5m"`
	MasterPassword string   `json:"master_password" secret:"unasked" help:"password of the master user"`
}

// ImportPeople are the arguments of import people.
type ImportPeople struct {
	File   string   `json:"file" arg:"required" file:"true" help:"file with the people, groups or aliases"`
	Format string   `json:"format" required:"true" help:"csv, ldif, postfix-aliases or passwd"`
	Shadow string   `json:"shadow" file:"true" help:"with passwd: shadow(5) file with the passwords"`
	MinUID int      `json:"min_uid" help:"with passwd: accounts below are left out (1000)"`
	Map    []string `json:"map" help:"for ldif: FIELD=ATTRIBUTE,...; repeatable (fields: see below)"`
	SCRAM  *bool    `json:"scram" help:"SCRAM credentials for clear passwords (default: directory.scram)"`
	Check  bool     `json:"check" help:"show what would come, and import nothing"`
}

// ImportLDAP are the arguments of import ldap.
type ImportLDAP struct {
	URL          string   `json:"url" arg:"required" help:"ldap://host/base, or ldap://host/base??sub?(filter)"`
	User         string   `json:"user" help:"DN to sign in as"`
	Password     string   `json:"password" secret:"unasked" help:"its password"`
	PasswordFile string   `json:"password_file" file:"true" help:"file whose first line is the password"`
	StartTLS     bool     `json:"starttls" help:"protect an ldap:// connection"`
	Insecure     bool     `json:"insecure" help:"take any certificate"`
	Map          []string `json:"map" help:"field=attribute,attribute, as with import people"`
	SCRAM        *bool    `json:"scram" help:"SCRAM credentials for clear passwords (default: directory.scram)"`
	Check        bool     `json:"check" help:"show what would come, and import nothing"`
}

// Export are the arguments of export.
type Export struct {
	User   string `json:"user" arg:"required" help:"person whose mail is written"`
	Path   string `json:"path" arg:"required" file:"true" help:"new or empty folder; or NAME.zip for one file"`
	Format string `json:"format" help:"mbox or maildir" default:"mbox"`
	Folder string `json:"folder" help:"only this folder"`
}

// ExportPerson are the arguments of export person.
type ExportPerson struct {
	User   string `json:"user" arg:"required" help:"the person"`
	Path   string `json:"path" arg:"required" file:"true" help:"new or empty folder; or NAME.zip for one file"`
	Format string `json:"format" default:"maildir" help:"maildir or mbox; maildir keeps every octet"`
}

// ImportPerson are the arguments of import person.
type ImportPerson struct {
	Path string `json:"path" arg:"required" file:"true" help:"folder or zip file that export person wrote"`
	User string `json:"user" help:"receiving person (default: the exported person, created if missing)"`
}

const (
	importMboxLong = `Flags are taken from Status and X-Status fields, the date of arrival from the From line.
The same file imported twice is there twice.`
	importIMAPLong = `Imports every folder with its messages, flags and dates of arrival. Folders with a special use
keep that use. An interrupted import continues where it stopped. A repeated import adds new messages and updates changed
flags; messages deleted there meanwhile stay here. The other server is not changed.
The file of --people begins with a row of column names: user (here), login (there), password.`
	importPeopleLong = `People who already exist stay unchanged, so that an import can be repeated. Passwords are
imported as hashes (crypt(3) with $1$, $2y$, $5$, $6$, {SSHA} and similar, {PBKDF2}, {ARGON2ID}, Dovecot's schemes) and
hashed again at the first sign-in. A person whose hash has another scheme is imported without a password, and named.
For CSV see user import. LDIF provides people (inetOrgPerson, posixAccount, user), groups (groupOfNames,
groupOfUniqueNames, posixGroup, group, nisMailAlias) and their members; fields for --map are fullname, shortname,
address, aliases, password, groupname, groupaddress and members. From aliases(5), virtual(5), passwd(5) or Dovecot's
passwd-file, an alias of one person becomes an address of that person, any other alias a mail group.`
	exportLong = "As mbox each folder becomes a file in the mboxrd form, without flags; as maildir flags go " +
		"into the names."
	exportPersonLong = `The folder contains person.json (no passwords), a Maildir or an mbox file for each mail folder,
and a file with flags and dates for each. A Maildir keeps every octet; in mbox files, line ends become CRLF.
A PATH that ends in .zip writes the same into one file.`
	importPersonLong = "Whoever is added gets no password and no roles: see user password and user set. The same " +
		"export imported twice is there once."
)

func transfers() []*Verb {
	return []*Verb{
		define("import mbox", "import mail from an mbox file or a tree of them",
			func(ctx context.Context, c *Call, a *ImportMbox) (Transferred, error) {
				return transferred(c.transfer().Mbox(ctx, (*transfer.Mbox)(a)))
			}, changes, long(importMboxLong)),
		define("import maildir", "import mail from a Maildir",
			func(ctx context.Context, c *Call, a *ImportMaildir) (Transferred, error) {
				return transferred(c.transfer().Maildir(ctx, (*transfer.Maildir)(a)))
			}, changes),
		define("import imap", "import a person's mail, or everyone's, from another server", importIMAP, changes,
			long(importIMAPLong)),
		define("import people", "add people, groups and aliases from a file of another system", importPeople,
			changes, long(importPeopleLong)),
		define("import ldap", "add people and groups from a directory server", importLDAP, changes,
			long(importPeopleLong)),
		define("export", "write a person's mail into a folder, or a .zip",
			func(ctx context.Context, c *Call, a *Export) (Transferred, error) {
				return transferred(c.transfer().Export(ctx, (*transfer.Export)(a)))
			}, long(exportLong)),
		define("export person", "write a person whole: mail, flags, and what the directory says of them",
			func(ctx context.Context, c *Call, a *ExportPerson) (Transferred, error) {
				return transferred(c.transfer().ExportPerson(ctx, (*transfer.PersonExport)(a)))
			}, long(exportPersonLong)),
		define("import person", "bring a person back whom export person wrote",
			func(ctx context.Context, c *Call, a *ImportPerson) (Transferred, error) {
				return transferred(c.transfer().ImportPerson(ctx, (*transfer.PersonImport)(a)))
			}, changes, long(importPersonLong)),
	}
}

// transfer returns a job for the caller.
func (c *Call) transfer() *transfer.Job {
	return c.Transfer.Job(c.Who, func(p transfer.Progress) {
		out := Progress{Stage: p.Stage, Done: p.Done, Bytes: p.Bytes, Text: p.Text}
		if p.Line != "" {
			out.Output = oneLine(p.Line) + "\n"
		}
		c.Progress(out)
	})
}

// Transferred is the result of an import or export.
type Transferred struct {
	Messages uint64 `json:"messages"`
	Bytes    Size   `json:"bytes"`
	Folders  int    `json:"folders"`
	// Present counts messages from an earlier run. Flags counts those of them with changed flags.
	Present uint64 `json:"present,omitempty"`
	Flags   uint64 `json:"flags_changed,omitempty"`
	// Skipped lists the folders and roles that were skipped, with the reason.
	Skipped   []string `json:"skipped,omitempty"`
	Failed    int      `json:"failed,omitempty"`
	Errors    []string `json:"errors,omitempty"`
	Took      string   `json:"took"`
	PerSecond float64  `json:"messages_per_second"`
}

func transferred(r transfer.Result, err error) (Transferred, error) {
	return Transferred{
		Messages: r.Messages, Bytes: Size(r.Bytes), Folders: r.Folders, Present: r.Present, Flags: r.Flags,
		Skipped: r.Skipped,
		Failed:  r.Failed, Errors: r.Errors, Took: r.Took.Round(time.Millisecond).String(), PerSecond: r.PerSecond(),
	}, err
}

// IMAPImported is the result of import imap.
type IMAPImported struct {
	People []IMAPPerson `json:"people"`
}

// IMAPPerson is the result of importing one person.
type IMAPPerson struct {
	User string `json:"user"`
	Transferred
	Error string `json:"error,omitempty"`
}

// Text returns the result as text for people.
func (r IMAPImported) Text() string {
	var b strings.Builder
	for _, p := range r.People {
		fmt.Fprintf(&b, "%s: %d messages (%s) in %d folders, %d there already, flags of %d changed, %d failed, %s\n",
			p.User, p.Messages, p.Bytes, p.Folders, p.Present, p.Flags, p.Failed, p.Took)
		for _, s := range p.Skipped {
			fmt.Fprintf(&b, "  left out: %s\n", oneLine(s))
		}
		for _, e := range p.Errors {
			fmt.Fprintf(&b, "  failed: %s\n", oneLine(e))
		}
		if p.Error != "" {
			fmt.Fprintf(&b, "  ended early: %s\n", oneLine(p.Error))
		}
	}
	return b.String()
}

// oneLine replaces control characters, which could move the terminal's cursor or begin another line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

// Bad reports whether something was not imported, for the exit code.
func (r IMAPImported) Bad() bool {
	for _, p := range r.People {
		if p.Failed > 0 || p.Error != "" {
			return true
		}
	}
	return false
}

func importIMAP(ctx context.Context, c *Call, a *ImportIMAP) (out IMAPImported, err error) {
	list, err := c.transfer().IMAP(ctx, (*transfer.IMAP)(a))
	for _, p := range list {
		r, _ := transferred(p.Result, nil)
		out.People = append(out.People, IMAPPerson{p.User, r, p.Error})
	}
	return out, err
}

// ImportedPeople is the result of an import of people, groups and aliases.
type ImportedPeople struct {
	People  int `json:"people"`
	Groups  int `json:"groups"`
	Aliases int `json:"aliases"`
	// Present counts entries that exist already. They are not changed.
	Present int `json:"present,omitempty"`
	Failed  int `json:"failed"`
	// Notes lists entries that were imported with changes. Errors lists entries that were not imported.
	Notes  []string `json:"notes,omitempty"`
	Errors []string `json:"errors,omitempty"`
}

// Bad reports whether something was not imported, for the exit code.
func (i ImportedPeople) Bad() bool { return i.Failed > 0 }

func importPeople(ctx context.Context, c *Call, a *ImportPeople) (ImportedPeople, error) {
	out, err := c.transfer().People(ctx, &transfer.Table{
		File: a.File, Format: a.Format, Shadow: a.Shadow, MinUID: a.MinUID, Map: a.Map, SCRAM: c.scram(a.SCRAM),
		Check: a.Check,
	})
	return ImportedPeople(out), err
}

func importLDAP(ctx context.Context, c *Call, a *ImportLDAP) (ImportedPeople, error) {
	out, err := c.transfer().LDAP(ctx, &transfer.LDAP{
		URL: a.URL, User: a.User, Password: a.Password, PasswordFile: a.PasswordFile, StartTLS: a.StartTLS,
		Insecure: a.Insecure,
		Map:      a.Map, SCRAM: c.scram(a.SCRAM), Check: a.Check,
	})
	return ImportedPeople(out), err
}

func userImport(ctx context.Context, c *Call, a *UserImport) (Imported, error) {
	out, err := c.transfer().Rows(ctx, &transfer.Rows{File: a.File, SCRAM: c.scram(a.SCRAM)})
	return Imported(out), err
}

// RestoreDatabase are the arguments of db restore.
type RestoreDatabase struct {
	Name string `json:"name" arg:"required" help:"id or title in the backup, or its owner's name"`
	Dir  string `json:"dir" arg:"optional" file:"true" help:"backup folder; without it the setting data.backup_dir"`
	At   int    `json:"at" help:"generation; without it the latest"`
	To   string `json:"to" help:"moment of the archive in DIR to restore: 14:03:07, or 2026-11-26 14:03:07"`
	// Identity is read by the server.
	Identity string `json:"identity" file:"true" help:"file with the private key of an encrypted backup"`
	// Folder is restored into the mail file that is there.
	Folder string `json:"folder" help:"restore only this folder, with the folders in it, into the present mail file"`
	As     string `json:"as" help:"title of a separate copy (default: replace the database or the folder)"`
}

// RestoredDatabase is the result of db restore.
type RestoredDatabase struct {
	Database
	Generation uint64    `json:"generation"`
	Time       time.Time `json:"time"`
	Notes      uint64    `json:"notes"`
	Bytes      Size      `json:"bytes"`
	// Replaced is the database that was replaced. db undo restores it beside the new one.
	Replaced string `json:"replaced,omitempty"`
	Took     string `json:"took"`
}

const restoreDatabaseLong = `Copies one database from a generation of a backup folder into the store; the server may be
running. Folders, messages, flags, annotations and access lists are restored; the database has a new id, and its folders
new UIDVALIDITYs, so that mail programs fetch it again. The latest version of each document is restored, older ones are
not.

Without --as, the copy becomes the mail file of the person, or the mail-in database, to which the original belongs. The
current one is removed as by db remove: for 30 days, db undo brings it back with the mail that arrived since the
backup.

With --to, the database is restored as of any moment that the archive of the backup folder has (backup moments lists
them). With --folder, one folder and the folders in it come back as new messages in the present mail file: beside what
is there with --as, else under its own name, and a present folder of that name is renamed.`

func restoreDatabase(ctx context.Context, c *Call, a *RestoreDatabase) (out RestoredDatabase, err error) {
	dir, err := c.backupDir(a.Dir)
	if err != nil {
		return out, err
	}
	to, err := ParseMoment(a.To, c.Env.Clock.Now())
	if err == nil && a.To != "" && a.At != 0 {
		err = fmt.Errorf("%w: --at or --to, not both", ErrUsage)
	}
	if err != nil {
		return out, err
	}
	keys, err := ReadKeys(c.Env, "", a.Identity)
	if err != nil {
		return out, err
	}
	r, err := c.transfer().Restore(ctx, &transfer.Backup{Name: a.Name, Dir: dir, At: uint64(max(a.At, 0)), To: to,
		Keys: keys, Folder: a.Folder, As: a.As})
	if err != nil {
		return out, err
	}
	made, err := c.Store.Info(r.Database)
	out = RestoredDatabase{
		Database: c.databaseOf(ctx,
			made), Generation: r.Generation.Number, Time: r.Time, Notes: r.Notes, Bytes: Size(r.Bytes),
		Took: r.Took.Round(time.Millisecond).String(),
	}
	if r.Replaced != 0 {
		out.Replaced = r.Replaced.String()
	}
	return out, err
}
