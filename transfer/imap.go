package transfer

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

	"doublet/env"
)

// IMAP selects mail to import from another server.
type IMAP struct {
	// Server is host or host:port.
	Server string
	// User is the person here who gets the mail. Login is the name there; "" means the person's address.
	User, Login  string
	Password     string
	PasswordFile string // its first line is the password or the token
	Token        string // OAuth, in place of a password
	Master       string // name of a master user, to whom the password belongs
	People       string // CSV file with the columns user, login and password
	TLS          string // tls, starttls or none
	CA           string // PEM file
	Insecure     bool   // accept any certificate
	Auth         string // plain, login, scram or xoauth2; "" is the best that the server offers
	// Folder lists the only remote folders to import; empty means all. Exclude lists folders to leave out.
	Folder, Exclude []string
	// All also imports folders that show messages of others again.
	All bool
	// Check signs in and reports what would be imported, and imports nothing.
	Check bool
	// Wait is the maximum time of one answer, such as 5m.
	Wait           string
	MasterPassword string
}

// IMAPPerson is the result of importing one person.
type IMAPPerson struct {
	User string
	Result
	Error string
}

// imapPerson is one person to import.
type imapPerson struct{ user, login, password string }

// maxImapPeople is the maximum number of people in the file of --people.
const maxImapPeople = 100_000

// IMAP imports the mail of one person, or of everyone in a file, from another server. It continues an interrupted
// import, and changes nothing on the other server.
func (j *Job) IMAP(ctx context.Context, a *IMAP) (out []IMAPPerson, err error) {
	dial, err := j.imapDialer(a)
	if err != nil {
		return out, err
	}
	people, err := j.imapPeople(a)
	if err != nil {
		return out, err
	}
	for i, p := range people {
		if len(people) > 1 {
			j.progress(Progress{Stage: "person", Done: uint64(i + 1), Text: p.user})
		}
		one, err := j.importPerson(ctx, a, dial, p)
		if len(people) == 1 && err != nil && one.Messages == 0 {
			return out, err
		}
		if err != nil {
			one.Error = err.Error()
		}
		out = append(out, one)
		if err := ctx.Err(); err != nil {
			return out, err
		}
	}
	return out, nil
}

// imapPeople returns the people to import.
func (j *Job) imapPeople(a *IMAP) ([]imapPerson, error) {
	if a.PasswordFile != "" {
		secret, err := j.firstLine(a.PasswordFile)
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
			return nil, fmt.Errorf("%w: give a person with --user, or many with --people", ErrInvalid)
		}
		if a.Password == "" && a.Token == "" && a.MasterPassword == "" {
			return nil, fmt.Errorf("%w: give the password there with --password-file or --password, or a token",
				ErrInvalid)
		}
		return []imapPerson{{a.User, a.Login, cmp.Or(a.MasterPassword, a.Password)}}, nil
	}
	if a.User != "" || a.Login != "" {
		return nil, fmt.Errorf("%w: --people names the people; --user and --login are for one", ErrInvalid)
	}
	f, _, err := env.OpenRegular(j.env.FS, a.People)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readImapPeople(f, cmp.Or(a.MasterPassword, a.Password, a.Token))
}

func (j *Job) firstLine(path string) (string, error) {
	f, err := j.env.FS.Open(path) // a pipe may be meant, as in a shell's <(command)
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
		return nil, fmt.Errorf("%w: the file of people: %w", ErrInvalid, err)
	}
	at := map[string]int{}
	for i, h := range header {
		switch name := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(h, "\ufeff"))); name {
		case "user", "login", "password":
			at[name] = i + 1
		default:
			return nil, fmt.Errorf("%w: the file of people has a column %.40q; it may have user, login and password",
				ErrInvalid, h)
		}
	}
	if at["user"] == 0 {
		return nil, fmt.Errorf("%w: the file of people has no column user", ErrInvalid)
	}
	var out []imapPerson
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the file of people: %w", ErrInvalid, err)
		}
		if len(out) == maxImapPeople {
			return nil, fmt.Errorf("%w: more than %d people in one file", ErrInvalid, maxImapPeople)
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
