package imap

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ErrURL reports a text that is not an IMAP URL of a message or message part.
var ErrURL = errors.New("imap: invalid URL")

// maxURL is the maximum length of a URL in bytes.
const maxURL = 8 << 10

// URL is an IMAP URL of a message or message part (RFC 5092), with the fields of URLAUTH (RFC 4467).
type URL struct {
	// User and Host are "" in a relative URL. Host is in lower case and includes the port.
	User, Host string
	// Mailbox is decoded; "" means the selected mailbox. UIDValidity is 0 if absent.
	Mailbox          string
	UIDValidity, UID uint32
	// Item is BODY.PEEK[section]<partial>. Without section and partial in the URL it is the whole message.
	Item FetchItem
	// Expire is the zero time if absent.
	Expire time.Time
	// Access specifies who may use the URL: "submit", "user", "authuser", "anonymous", or "" for a URL without URLAUTH.
	// AccessUser is valid with the first two.
	Access, AccessUser string
	// Mechanism, in upper case, and Token authorize the URL. Rump is the text before them, which the token covers.
	Mechanism, Token, Rump string
}

// ParseURL parses a URL: an absolute one (imap://…), one with an absolute path (/INBOX/;UID=1), or one that is
// relative to the selected mailbox (/;UID=1 or ;UID=1).
//
// Implements: RFC 5092 §11 IMAP URLs of messages
// Implements: RFC 4467 §9 URLAUTH in URLs
func ParseURL(s string) (*URL, error) {
	if len(s) > maxURL || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return nil, ErrURL
	}
	u := &URL{Rump: s, Item: FetchItem{Kind: ItemBodySection, Peek: true}}
	path := s
	if len(s) > 7 && strings.EqualFold(s[:7], "imap://") {
		server, rest, ok := strings.Cut(s[7:], "/")
		if !ok || !u.server(server) {
			return nil, ErrURL
		}
		path = "/" + rest
	}
	path, auth, ok := cutFold(path, ";URLAUTH=")
	if ok && !u.auth(auth) {
		return nil, ErrURL
	}
	if !u.path(path) || (u.Access != "" || !u.Expire.IsZero()) && u.Host == "" {
		return nil, ErrURL
	}
	return u, nil
}

// cutFold is strings.Cut with ASCII case ignored; sep must be in upper case.
func cutFold(s, sep string) (before, after string, found bool) {
	if i := strings.Index(upper(s), sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// server parses user;AUTH=mechanism@host:port.
func (u *URL) server(s string) (ok bool) {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		user, _, _ := strings.Cut(s[:i], ";")
		if u.User, ok = unescapeURL(user); !ok || u.User == "" {
			return false
		}
		s = s[i+1:]
	}
	u.Host = lower(s)
	return s != "" && strings.IndexByte(s, '%') < 0
}

func unescapeURL(s string) (string, bool) {
	d, err := url.PathUnescape(s)
	return d, err == nil && strings.IndexByte(d, 0) < 0
}

// path parses /mailbox;UIDVALIDITY=n/;UID=n/;SECTION=s/;PARTIAL=n.n;EXPIRE=date.
func (u *URL) path(s string) (ok bool) {
	name, fields, found := strings.Cut(s, ";")
	if name != "" && name[0] != '/' || !found {
		return false
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "/"), "/")
	if name, ok = unescapeURL(name); !ok {
		return false
	}
	if u.Mailbox, ok = decodedName(name); !ok {
		return false
	}
	last := -1
	for field := range strings.SplitSeq(fields, ";") {
		key, value, _ := strings.Cut(strings.TrimSuffix(field, "/"), "=")
		at := urlField(key)
		if at <= last || !u.field(at, value) {
			return false
		}
		last = at
	}
	return u.UID != 0
}

func decodedName(name string) (string, bool) {
	d, err := DecodeMailbox(name, true)
	return d, err == nil
}

// The fields of a URL, in order.
const (
	urlUIDValidity = iota
	urlUID
	urlSection
	urlPartial
	urlExpire
)

var urlFields = [...]string{
	urlUIDValidity: "UIDVALIDITY", urlUID: "UID", urlSection: "SECTION", urlPartial: "PARTIAL", urlExpire: "EXPIRE",
}

func urlField(key string) int {
	for i, name := range urlFields {
		if strings.EqualFold(key, name) {
			return i
		}
	}
	return -1
}

func (u *URL) field(at int, value string) bool {
	var err error
	switch at {
	case urlUIDValidity:
		u.UIDValidity, err = nzNumber(value)
	case urlUID:
		u.UID, err = nzNumber(value)
	case urlSection:
		text, ok := unescapeURL(value)
		p := parser{s: "[" + text + "]", limits: &textLimits}
		u.Item.Section = p.section()
		return ok && p.finish() == nil
	case urlPartial:
		return u.partial(value)
	case urlExpire:
		u.Expire, err = time.Parse(time.RFC3339, value)
	}
	return err == nil
}

func nzNumber(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if n == 0 && err == nil {
		err = ErrURL
	}
	return uint32(n), err
}

// partial parses an offset with an optional .size; without it the range extends to the end.
func (u *URL) partial(s string) bool {
	offset, size, has := strings.Cut(s, ".")
	n, err := strconv.ParseUint(offset, 10, 32)
	if err != nil {
		return false
	}
	u.Item.HasPartial, u.Item.Offset, u.Item.Size = true, uint32(n), 1<<32-1
	if has {
		u.Item.Size, err = nzNumber(size)
	}
	return err == nil
}

// auth parses the access and the optional :mechanism:token.
func (u *URL) auth(s string) (ok bool) {
	access, proof, proved := strings.Cut(s, ":")
	name, user, has := strings.Cut(access, "+")
	u.Access = lower(name)
	switch u.Access {
	case "submit", "user":
		if u.AccessUser, ok = unescapeURL(user); !ok || u.AccessUser == "" {
			return false
		}
	case "authuser", "anonymous":
		if has {
			return false
		}
	default:
		return false
	}
	if !proved {
		return true
	}
	u.Rump = strings.TrimSuffix(u.Rump, ":"+proof)
	mechanism, token, ok := strings.Cut(proof, ":")
	u.Mechanism, u.Token = upper(mechanism), token
	return ok && u.Mechanism != "" && u.Token != ""
}
