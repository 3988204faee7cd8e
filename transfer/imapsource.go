package transfer

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"doublet/client/imap"
	"doublet/mailbox"
	"doublet/note"
	wire "doublet/wire/imap"
	"doublet/wire/scram"
)

// imapDialer makes connections to the other server.
type imapDialer struct {
	job     *Job
	address string
	host    string
	options imap.Options
}

func (j *Job) imapDialer(a *IMAP) (*imapDialer, error) {
	wait, err := time.ParseDuration(a.Wait)
	if err != nil || wait <= 0 {
		return nil, fmt.Errorf("%w: --wait %q is no time such as 5m", ErrInvalid, a.Wait)
	}
	d := &imapDialer{job: j, options: imap.Options{Timeout: wait, Clock: j.env.Clock}}
	port := "143"
	switch a.TLS {
	case "tls":
		d.options.Security, port = imap.TLS, "993"
	case "starttls":
		d.options.Security = imap.StartTLS
	case "none":
	default:
		return nil, fmt.Errorf("%w: --tls %q is not tls, starttls or none", ErrInvalid, a.TLS)
	}
	host, p, err := net.SplitHostPort(a.Server)
	if err != nil {
		host, p = a.Server, port
	}
	d.host, d.address = host, net.JoinHostPort(host, p)
	d.options.TLS = &tls.Config{ServerName: host, InsecureSkipVerify: a.Insecure, MinVersion: tls.VersionTLS12}
	if a.CA != "" {
		pem, err := j.readSmall(a.CA)
		if err != nil {
			return nil, err
		}
		d.options.TLS.RootCAs = x509.NewCertPool()
		if !d.options.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: %s holds no certificate", ErrInvalid, a.CA)
		}
	}
	limit := j.mailbox.MessageSize()
	d.options.Limits = wire.DefaultResponseLimits()
	d.options.Limits.Literal = max(d.options.Limits.Literal, limit+1<<20)
	d.options.Limits.Total = 2 * d.options.Limits.Literal
	return d, nil
}

func (j *Job) readSmall(path string) ([]byte, error) {
	f, err := j.env.FS.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<20))
}

// open connects and authenticates.
func (d *imapDialer) open(ctx context.Context, a *IMAP, p imapPerson) (*imap.Client, error) {
	client, err := imap.Dial(d.job.env.Dial, d.address, d.options)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = client.Close() })
	if err := d.signIn(client, a, p); err != nil {
		return nil, errors.Join(fmt.Errorf("sign in as %s at %s: %w", p.login, d.address, err), client.Close())
	}
	if _, err := client.Capability(); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

func (d *imapDialer) signIn(client *imap.Client, a *IMAP, p imapPerson) error {
	how := strings.ToLower(a.Auth)
	switch {
	case how != "":
	case a.Token != "":
		how = "xoauth2"
	case a.Master != "":
		how = "plain"
	case client.Has("AUTH=SCRAM-SHA-256"):
		how = "scram"
	case client.Has("AUTH=PLAIN"):
		how = "plain"
	default:
		how = "login"
	}
	switch how {
	case "xoauth2":
		return client.Authenticate(&xoauth2{user: p.login, token: cmp.Or(a.Token, p.password)})
	case "plain":
		if a.Master != "" {
			return client.Authenticate(imap.PlainAuth{Authzid: p.login, User: a.Master, Password: p.password})
		}
		return client.Authenticate(imap.PlainAuth{User: p.login, Password: p.password})
	case "login":
		return client.Login(p.login, p.password)
	case "scram":
		var nonce [18]byte
		d.job.env.Fill(nonce[:])
		return client.Authenticate(&scramAuth{scram.NewClient(p.login, p.password,
			base64.RawStdEncoding.EncodeToString(nonce[:]))})
	}
	return fmt.Errorf("%w: --auth %q is not plain, login, scram or xoauth2", ErrInvalid, a.Auth)
}

type scramAuth struct{ c *scram.Client }

func (s *scramAuth) Mechanism() string { return scram.Mechanism }

func (s *scramAuth) Next(challenge []byte) ([]byte, error) {
	out, _, err := s.c.Next(challenge)
	if out == nil {
		out = []byte{}
	}
	return out, err
}

// xoauth2 sends a token. A challenge after it is an error report, and is answered with an empty response.
type xoauth2 struct {
	user, token string
	sent        bool
}

func (x *xoauth2) Mechanism() string { return "XOAUTH2" }

func (x *xoauth2) Next([]byte) ([]byte, error) {
	if x.sent {
		return []byte{}, nil
	}
	x.sent = true
	return []byte("user=" + x.user + "\x01auth=Bearer " + x.token + "\x01\x01"), nil
}

// remoteFolder is a folder on the other server, with its local name.
type remoteFolder struct {
	name, local string
	use         string // special use, if the folder has to be created
}

// personalPrefix returns the prefix of the person's own folders (RFC 2342).
func (r *imapReader) personalPrefix() string {
	if !r.client.Has("NAMESPACE") {
		return ""
	}
	n, err := r.client.Namespace()
	if err != nil || n == nil || len(n.Personal) == 0 {
		return ""
	}
	return n.Personal[0].Prefix
}

// selects reports whether a remote folder is to be imported.
func (r *imapReader) selects(name string) bool {
	return (len(r.a.Folder) == 0 || slices.Contains(r.a.Folder, name)) && !slices.Contains(r.a.Exclude, name)
}

// remoteFolders lists the remote folders to import.
func (r *imapReader) remoteFolders(ctx context.Context) ([]remoteFolder, error) {
	prefix := r.personalPrefix()
	l := &wire.List{Patterns: []string{"*"}}
	if r.client.Has("SPECIAL-USE") && r.client.Has("LIST-EXTENDED") {
		l.Extended, l.Return = true, wire.ListSpecialUse
	}
	var all []*wire.ListData
	if err := r.client.List(l, func(d *wire.ListData) { all = append(all, d) }, nil); err != nil {
		return nil, err
	}
	ours, err := r.ourFolders(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(x, y *wire.ListData) int { return strings.Compare(x.Mailbox, y.Mailbox) })
	var out []remoteFolder
	renamed := map[string]string{} // prefixes of remote names that a special use changes
	seen := map[string]bool{}
	for _, d := range all {
		if hasAttr(d, `\Noselect`) || hasAttr(d, `\NonExistent`) || seen[d.Mailbox] {
			continue
		}
		seen[d.Mailbox] = true
		if !r.selects(d.Mailbox) {
			continue
		}
		f, why := r.mapFolder(d, prefix, ours, renamed)
		if why != "" {
			r.im.out.Skipped = append(r.im.out.Skipped, d.Mailbox+": "+why)
			continue
		}
		out = append(out, f)
	}
	for _, name := range r.a.Folder {
		if !seen[name] {
			return nil, fmt.Errorf("%w: %q at %s", mailbox.ErrNoFolder, name, r.dial.address)
		}
	}
	return out, nil
}

// ourFolders returns the names of the mail file's folders with a special use, by special use.
func (r *imapReader) ourFolders(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	list, err := r.im.file.Folders(ctx)
	for _, f := range list {
		if f.SpecialUse != "" && out[f.SpecialUse] == "" {
			out[f.SpecialUse] = f.Name
		}
	}
	return out, err
}

func hasAttr(d *wire.ListData, attr string) bool {
	return slices.ContainsFunc(d.Attrs, func(a string) bool { return strings.EqualFold(a, attr) })
}

// knownNames holds folder names that imply a special use if the server does not report one.
var knownNames = map[string]string{
	"sent": "Sent", "sent items": "Sent", "sent messages": "Sent", "sent mail": "Sent", "gesendet": "Sent",
	"gesendete elemente": "Sent", "gesendete objekte": "Sent",
	"drafts": "Drafts", "draft": "Drafts", "entwürfe": "Drafts",
	"trash": "Trash", "deleted items": "Trash", "deleted messages": "Trash", "papierkorb": "Trash",
	"gelöschte elemente": "Trash", "gelöschte objekte": "Trash",
	"junk": "Junk", "spam": "Junk", "junk e-mail": "Junk", "junk email": "Junk", "junk-e-mail": "Junk",
	"bulk mail": "Junk",
	"archive":   "Archive", "archives": "Archive", "archiv": "Archive",
}

// specialUse returns the use of a folder by its attributes, else by its name, or "".
func specialUse(d *wire.ListData, local string) (use string) {
	for _, u := range []string{"Sent", "Drafts", "Trash", "Junk", "Archive"} {
		if hasAttr(d, `\`+u) || u == "Archive" && hasAttr(d, `\All`) {
			use = u
		}
	}
	return cmp.Or(use, knownNames[strings.ToLower(local)])
}

// mapFolder returns the local name of a remote folder, or the reason to skip it.
func (r *imapReader) mapFolder(d *wire.ListData, prefix string, ours,
	renamed map[string]string) (f remoteFolder, why string) {
	f.name = d.Mailbox
	virtual := hasAttr(d, `\All`) || hasAttr(d, `\Flagged`) || hasAttr(d, `\Important`)
	if virtual && !r.a.All && !slices.Contains(r.a.Folder, d.Mailbox) {
		return f, "it shows messages of other folders again (--all brings them)"
	}
	if strings.HasPrefix(d.Mailbox, mailbox.RecoverableName) && !slices.Contains(r.a.Folder, d.Mailbox) {
		return f, "by its name it may hold deleted messages (--folder brings them)"
	}
	name := d.Mailbox
	delimiter := "/"
	if d.Delimiter != 0 {
		delimiter = string(d.Delimiter)
	}
	if !strings.EqualFold(name, mailbox.Inbox) {
		name = strings.TrimPrefix(name, prefix)
	}
	local := localName(name, delimiter)
	if use := specialUse(d, local); use != "" {
		renamed[d.Mailbox+delimiter] = cmp.Or(ours[use], use)
		f.local, f.use = cmp.Or(ours[use], use), use
		return f, ""
	}
	for there, here := range renamed {
		if rest, ok := strings.CutPrefix(d.Mailbox, there); ok {
			local = here + "/" + localName(rest, delimiter)
		}
	}
	var err error
	if f.local, err = mailbox.Normalize(local); err != nil {
		return f, err.Error()
	}
	return f, ""
}

// localName converts a name to our separator, and replaces characters that our names may not contain.
func localName(name, delimiter string) string {
	levels := strings.Split(strings.TrimSuffix(name, delimiter), delimiter)
	for i, l := range levels {
		l = strings.Map(func(c rune) rune {
			if c < 0x20 || c == 0x7f || c == '/' || c == 0xfffd || c >= 0x80 && c < 0xa0 || c == 0x2028 || c == 0x2029 {
				return '_'
			}
			return c
		}, l)
		if l == "" || l == "." || l == ".." {
			l = "_"
		}
		levels[i] = l
	}
	return strings.Join(levels, "/")
}

// lenientFlags returns the remote flags that can be stored here.
func lenientFlags(list []wire.Flag) mailbox.Flags {
	var out mailbox.Flags
	for _, f := range list {
		seen, deleted, keyword, err := mailbox.ParseFlag(f)
		if err != nil || strings.EqualFold(f, `\Recent`) {
			continue
		}
		out.Seen, out.Deleted = out.Seen || seen, out.Deleted || deleted
		if keyword != "" && len(out.Keywords) < 100 && !slices.Contains(out.Keywords, keyword) {
			out.Keywords = append(out.Keywords, keyword)
		}
	}
	slices.Sort(out.Keywords)
	return out
}

// identity returns the UNID of a remote message. It is the same in every run, so that an import can be repeated.
func (r *imapReader) identity(folder string, validity, uid uint32) note.UNID {
	return note.DeriveUNID([]byte("import imap"), []byte(strings.ToLower(r.dial.host)), []byte(r.login), []byte(folder),
		fmt.Appendf(nil, "%d %d", validity, uid))
}
