package admin

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// ImportIMAP are the arguments of import imap.
type ImportIMAP struct {
	Server         string   `json:"server" arg:"required" help:"the other server, host or host:port"`
	User           string   `json:"user" help:"person whose mail it becomes"`
	Login          string   `json:"login" help:"name to sign in with there; without one the person's address"`
	Password       string   `json:"password" secret:"unasked" help:"password there"`
	PasswordFile   string   `json:"password_file" file:"true" help:"file whose first line is the password (or the token), so that it stands on no command line"`
	Token          string   `json:"token" secret:"unasked" help:"token of OAuth in place of a password (XOAUTH2)"`
	Master         string   `json:"master" help:"name of a master user, whose password it is (SASL PLAIN with an authorization identity)"`
	People         string   `json:"people" file:"true" help:"CSV file with the columns user, login and password: everyone in it, one after another"`
	TLS            string   `json:"tls" default:"tls" help:"tls (from the first byte, port 993), starttls (port 143) or none"`
	CA             string   `json:"ca" file:"true" help:"PEM file of the authority that the other server's certificate is from"`
	Insecure       bool     `json:"insecure" help:"take any certificate"`
	Auth           string   `json:"auth" help:"plain, login, scram or xoauth2; without it the best that the server offers"`
	Folder         []string `json:"folder" help:"only this folder there, by its name there; may be repeated"`
	Exclude        []string `json:"exclude" help:"not this folder there; may be repeated"`
	All            bool     `json:"all" help:"also the folders that show messages of others again (\\All, \\Flagged, \\Important); \\All goes into Archive"`
	Check          bool     `json:"check" help:"sign in, show what would come, and import nothing"`
	Wait           string   `json:"wait" help:"how long one answer may take (5m)" default:"5m"`
	MasterPassword string   `json:"master_password" secret:"unasked" help:"password of the master user, where the file of --people has none"`
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
			fmt.Fprintf(&b, "  left out: %s\n", printable(s))
		}
		for _, e := range p.Errors {
			fmt.Fprintf(&b, "  failed: %s\n", printable(e))
		}
		if p.Error != "" {
			fmt.Fprintf(&b, "  ended early: %s\n", printable(p.Error))
		}
	}
	return b.String()
}

// printable replaces control characters, which could move the terminal's cursor.
func printable(s string) string {
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

// imapPerson is one person to import.
type imapPerson struct{ user, login, password string }

// maxImapPeople is the maximum number of people in the file of --people.
const maxImapPeople = 100_000

const importIMAPLong = `Every folder comes with its messages, flags and dates of arrival; folders with a special use become ours of that use.
An import that was broken off goes on where it stopped, and one that is repeated brings what is new and, for what came before,
the flags that changed. What was deleted there meanwhile stays here. Nothing is changed on the other server.
The file of --people has a first row that names its columns: user (ours), login (there), password.`

func importIMAP(ctx context.Context, c *Call, a *ImportIMAP) (IMAPImported, error) {
	var out IMAPImported
	dial, err := c.imapDialer(a)
	if err != nil {
		return out, err
	}
	people, err := c.imapPeople(a)
	if err != nil {
		return out, err
	}
	for i, p := range people {
		if len(people) > 1 {
			c.Progress(Progress{Stage: "person", Done: uint64(i + 1), Text: p.user})
		}
		one, err := c.importPerson(ctx, a, dial, p)
		if len(people) == 1 && err != nil && one.Messages == 0 {
			return out, err
		}
		if err != nil {
			one.Error = err.Error()
		}
		out.People = append(out.People, one)
		if err := ctx.Err(); err != nil {
			return out, err
		}
	}
	return out, nil
}

// imapPeople returns the people to import.
func (c *Call) imapPeople(a *ImportIMAP) ([]imapPerson, error) {
	if a.PasswordFile != "" {
		secret, err := c.firstLine(a.PasswordFile)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(a.Auth, "xoauth2") {
			a.Token = secret
		} else {
			a.Password = secret
		}
	}
	if a.People == "" {
		if a.User == "" {
			return nil, fmt.Errorf("%w: give a person with --user, or many with --people", ErrUsage)
		}
		if a.Password == "" && a.Token == "" && a.MasterPassword == "" {
			return nil, fmt.Errorf("%w: give the password there with --password-file or --password, or a token", ErrUsage)
		}
		return []imapPerson{{a.User, a.Login, cmp.Or(a.MasterPassword, a.Password)}}, nil
	}
	if a.User != "" || a.Login != "" {
		return nil, fmt.Errorf("%w: --people names the people; --user and --login are for one", ErrUsage)
	}
	f, err := c.Env.FS.Open(a.People)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readImapPeople(f, cmp.Or(a.MasterPassword, a.Password, a.Token))
}

func (c *Call) firstLine(path string) (string, error) {
	f, err := c.Env.FS.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 16<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", fmt.Errorf("%w: the first line of %s is empty", fs.ErrNotExist, path)
	}
	return line, nil
}

// readImapPeople reads CSV with the columns user, login and password. common is the password of rows without one.
func readImapPeople(r io.Reader, common string) ([]imapPerson, error) {
	in := csv.NewReader(io.LimitReader(r, 64<<20))
	in.TrimLeadingSpace = true
	header, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: the file of people: %w", ErrUsage, err)
	}
	at := map[string]int{}
	for i, h := range header {
		switch name := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(h, "\ufeff"))); name {
		case "user", "login", "password":
			at[name] = i + 1
		default:
			return nil, fmt.Errorf("%w: the file of people has a column %.40q; it may have user, login and password", ErrUsage, h)
		}
	}
	if at["user"] == 0 {
		return nil, fmt.Errorf("%w: the file of people has no column user", ErrUsage)
	}
	var out []imapPerson
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the file of people: %w", ErrUsage, err)
		}
		if len(out) == maxImapPeople {
			return nil, fmt.Errorf("%w: more than %d people in one file", ErrUsage, maxImapPeople)
		}
		field := func(name string) string {
			if i := at[name]; i > 0 {
				return row[i-1]
			}
			return ""
		}
		out = append(out, imapPerson{field("user"), field("login"), cmp.Or(field("password"), common)})
	}
}
