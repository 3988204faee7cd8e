package imapd

import (
	"crypto/hmac"
	"crypto/sha256"
	"doublet/serve/listen"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/imap"
	"doublet/wire/mime"
)

// errURL reports a URL that refers to nothing that the person may read.
var errURL = errors.New("imapd: URL names nothing here")

// mechanism is the only URLAUTH mechanism here: this server makes and checks its tokens.
const mechanism = "INTERNAL"

// urlPiece describes the data of a URL: a span of a stored message that is not read yet.
type urlPiece struct {
	body *store.Stored
	span
	// fields selects header fields; nil selects the whole span.
	fields *imap.FetchItem
	// part is set if the span is the content of a message or body part, with encoding.
	part     bool
	encoding mime.Encoding
	// structure is the BODYSTRUCTURE of the message, if requested.
	structure []byte
}

// locate finds the data of a URL in its mailbox, without reading it.
func (s *session) locate(v *mailbox.View, u *imap.URL, structure bool) (urlPiece, error) {
	var p urlPiece
	found := false
	f := fetcher{items: []imap.FetchItem{u.Item}}
	f.findPaths()
	uid := mailbox.Set{{Start: u.UID, Stop: u.UID}}
	err := v.Fetch(s.c.Context(), uid, true, mailbox.FetchOptions{}, func(m *mailbox.Message) (bool, error) {
		var err error
		if p.span, found, err = f.place(m, 0); err != nil || !found {
			return false, err
		}
		if p.body, err = m.Body(); err != nil {
			return false, err
		}
		if p.encoding, err = f.encoding(m, 0); err == nil && structure {
			var text []byte
			text, err = m.BodyStructure()
			p.structure = append([]byte(nil), text...)
		}
		return false, err
	}, func() error { return nil })
	switch text := u.Item.Section.Text; text {
	case imap.TextHeaderFields, imap.TextHeaderFieldsNot:
		p.fields = &u.Item
	case imap.TextAll:
		p.part = true
	}
	if err == nil && !found {
		err = errURL
	}
	return p, err
}

// bytes reads the data, cut to the URL's partial. held is the memory for messages in bytes that it has reserved, even
// after an error.
func (s *session) bytes(p *urlPiece, it *imap.FetchItem) (b []byte, held int64, err error) {
	cut, need := p.span, 2*p.n+4 // the selected fields follow the header in memory, with line breaks
	if p.fields == nil {
		cut = p.span.cut(it)
		need = cut.n
	}
	if !s.memory().Take(need) {
		return nil, 0, listen.ErrMemory
	}
	b, err = p.body.AppendRange(make([]byte, 0, need), cut.off, cut.n)
	if err == nil && int64(len(b)) != cut.n {
		err = store.ErrDamaged
	}
	if err == nil && p.fields != nil {
		b = chosenFields(b, it)
		c := span{0, int64(len(b))}.cut(it)
		b = b[c.off : c.off+c.n]
	}
	hideNUL(b)
	return b, need, err
}

// resolve opens the mailbox of a URL: one of the client's own, or one that was authorized for it.
func (s *session) resolve(u *imap.URL) (*mailbox.View, error) {
	if u.Access != "" {
		return s.authorized(u)
	}
	if u.Host != "" && (!s.ownHost(u.Host) || u.User != "" && !s.is(u.User)) {
		return nil, errURL
	}
	if u.Mailbox == "" {
		if s.view == nil || u.UIDValidity != 0 {
			return nil, errURL
		}
		return s.view, nil
	}
	file, err := s.at(u.Mailbox)
	if err != nil {
		return nil, err
	}
	return s.openURL(file, u)
}

// openURL opens the mailbox of a URL in a mail file, for reading.
func (s *session) openURL(file *mailbox.File, u *imap.URL) (*mailbox.View, error) {
	view, folder, err := file.Open(s.c.Context(), u.Mailbox, true)
	if err != nil || u.UIDValidity != 0 && u.UIDValidity != folder.UIDValidity {
		return nil, errors.Join(errURL, err)
	}
	return view, nil
}

// ownHost reports whether a host, with or without a port, is a name of this server: its own, the server name in the
// client's TLS handshake, or the domain of the person's address.
func (s *session) ownHost(host string) bool {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	_, domain, _ := strings.Cut(s.account.Address, "@")
	names := [...]string{s.srv.cfg.Hostname, domain, ""}
	if state, ok := s.c.TLSState(); ok {
		names[2] = state.ServerName
	}
	for _, n := range names {
		if n != "" && strings.EqualFold(n, host) {
			return true
		}
	}
	return false
}

// is reports whether a name belongs to the signed-in person.
func (s *session) is(user string) bool {
	id, err := s.srv.backend.Identify(s.c.Context(), user)
	return err == nil && id == s.account.Who.Person
}

// authorized opens the mailbox of a URL that someone made for others, if its token, expiry and access allow this person
// to read it. The maker of the URL must still be able to read the mailbox.
//
// Implements: RFC 4467 §3 authorization of URLs
// Implements: RFC 4467 §5 INTERNAL
func (s *session) authorized(u *imap.URL) (*mailbox.View, error) {
	if !s.mayUse(u) || u.User == "" || !s.ownHost(u.Host) || reserved(u.Mailbox) || u.Mailbox == "" || !s.current(u) {
		return nil, errURL
	}
	maker, err := s.srv.backend.SignIn().Account(s.c.Context(), u.User)
	if err != nil {
		return nil, errors.Join(errURL, err)
	}
	file := s.srv.backend.Mail().File(maker.Who, maker.Database)
	folder, number, err := mailbox.URLKeys{File: file}.Get(s.c.Context(), u.Mailbox)
	if err != nil {
		return nil, errors.Join(errURL, err)
	}
	token, err := hex.DecodeString(u.Token)
	if err != nil || number == nil || u.Mechanism != mechanism {
		return nil, errURL
	}
	if !hmac.Equal(token, s.proof(u.Rump, folder, maker.Who.Person, number)) {
		return nil, errURL
	}
	return s.openURL(file, u)
}

// current reports whether a URL has not expired.
func (s *session) current(u *imap.URL) bool { return u.Expire.IsZero() || s.c.Now().Before(u.Expire) }

// mayUse reports whether the person may use a URL. Only the submission server may use one for submission.
//
// Implements: RFC 4467 §2 access identifiers
func (s *session) mayUse(u *imap.URL) bool {
	switch u.Access {
	case "user":
		return s.is(u.AccessUser)
	case "authuser", "anonymous":
		return true
	}
	return false
}

// proof returns the token of a URL: a version byte and a MAC. The MAC's key is derived from the secret of the domain,
// the folder, the maker of the URL and the random number of the folder.
func (s *session) proof(rump string, folder, maker note.UNID, number []byte) []byte {
	key := hmac.New(sha256.New, s.srv.backend.URLSecret())
	key.Write(folder[:])
	key.Write(maker[:])
	key.Write(number)
	m := hmac.New(sha256.New, key.Sum(nil))
	m.Write([]byte(rump))
	return m.Sum([]byte{1})
}

// badURL returns the response code for a URL that cannot be resolved (RFC 4469 section 4).
func badURL(text string) string {
	if len(text) > 1000 {
		return ""
	}
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c >= 0x7f || c == ']' {
			return ""
		}
	}
	return "BADURL " + string(imap.AppendString(nil, text, false))
}

// urlError is an error about a URL.
type urlError struct {
	url string
	err error
}

func (e *urlError) Error() string { return fmt.Sprintf("URL %q: %v", e.url, e.err) }
func (e *urlError) Unwrap() error { return e.err }

// unreadable reports whether an error means that a URL refers to nothing readable, and is not a failure of the server.
func unreadable(err error) bool {
	for _, kind := range [...]error{
		errURL, mailbox.ErrNoFolder, mailbox.ErrBadName, mailbox.ErrFolderGone, store.ErrDenied, store.ErrNotFound,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
