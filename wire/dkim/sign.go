package dkim

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ErrNoFrom means that a message cannot be signed: it has no author, or its header is too large.
var ErrNoFrom = errors.New("dkim: message has no From field that can be signed")

// Signer is a key to sign with: *rsa.PrivateKey or ed25519.PrivateKey.
type Signer struct {
	Domain, Selector string
	Key              crypto.Signer
}

// oversigned fields are signed once more than they occur, so that nobody can add another one for a reader to see. The
// fields of signedFields are signed as often as they occur.
//
// Implements: RFC 6376 §5.4.1 Recommended signature content, §8.15 Attacks involving extra header fields
var oversigned = [...]string{"From", "To", "Cc", "Subject", "Date", "Message-ID", "Reply-To", "MIME-Version",
	"Content-Type"}

var signedFields = [...]string{
	"Sender", "In-Reply-To", "References", "Content-Transfer-Encoding", "Content-Disposition", "Content-ID",
	"Content-Description",
	"Resent-From", "Resent-To", "Resent-Cc", "Resent-Date", "Resent-Message-ID", "Auto-Submitted",
	"List-Id", "List-Help", "List-Unsubscribe", "List-Unsubscribe-Post", "List-Subscribe", "List-Post", "List-Owner",
	"List-Archive",
}

// AppendSignatures appends a DKIM-Signature field for each signer, which the caller must put before the message. It
// uses "relaxed" canonicalization for header and body.
//
// Implements: RFC 6376 §5 Signer actions
// Implements: RFC 8301 §3 Cryptographic algorithms
func (m *Message) AppendSignatures(dst []byte, signers []Signer, now time.Time) ([]byte, error) {
	names, err := m.toSign()
	if err != nil {
		return dst, err
	}
	data := m.appendCovered(make([]byte, 0, 4096), names)
	body := m.bodyHash(true)
	for i := range signers {
		f, err := signers[i].appendTags([]byte("DKIM-Signature: v=1; "), names, body.sum[:], now)
		if err == nil {
			f, err = signers[i].complete(f, data)
		}
		if err != nil {
			return dst, err
		}
		dst = append(dst, f...)
	}
	return dst, nil
}

// appendCovered appends the fields that an h= tag with these names covers.
func (m *Message) appendCovered(dst []byte, names []string) []byte {
	p := picker{m: m, names: make([]string, 0, len(names)), at: make([]int, 0, len(names))}
	for _, name := range names {
		if f := p.next(name); f != nil {
			dst = appendField(dst, f.raw, true)
		}
	}
	return dst
}

// toSign returns the names for the h= tag.
func (m *Message) toSign() ([]string, error) {
	if m.bad {
		return nil, ErrNoFrom
	}
	names := make([]string, 0, 32)
	count := func(name string) (n int) {
		for i := range m.fields {
			if m.fields[i].is(name) {
				n++
				names = append(names, name)
			}
		}
		return n
	}
	for i, name := range oversigned {
		if n := count(name); n == 0 && i == 0 {
			return nil, ErrNoFrom
		}
		names = append(names, name)
	}
	for _, name := range signedFields {
		count(name)
	}
	if len(names) > maxSignedFields {
		return nil, ErrNoFrom
	}
	return names, nil
}

// maxLine is the maximum length of the lines of a signature (RFC 5322 section 2.1.1).
const maxLine = 76

// appendTags appends a signature's tags from a= up to "b=".
func (s *Signer) appendTags(dst []byte, names []string, body []byte, now time.Time) ([]byte, error) {
	algorithm := "rsa-sha256"
	switch k := s.Key.(type) {
	case ed25519.PrivateKey:
		algorithm = "ed25519-sha256"
	case *rsa.PrivateKey:
	default:
		return dst, fmt.Errorf("dkim: cannot sign with a %T", k)
	}
	dst = append(dst, "a="...)
	dst = append(append(dst, algorithm...), "; c=relaxed/relaxed; d="...)
	dst = append(append(dst, s.Domain...), ";\r\n\ts="...)
	dst = append(append(dst, s.Selector...), "; t="...)
	dst = append(strconv.AppendInt(dst, now.Unix(), 10), ";\r\n\th="...)
	column := 3
	for i, name := range names {
		if column+len(name) > maxLine {
			dst, column = append(dst, "\r\n\t "...), 2
		}
		if dst = append(dst, name...); i < len(names)-1 {
			dst = append(dst, ':')
		}
		column += len(name) + 1
	}
	dst = append(dst, ";\r\n\tbh="...)
	dst = base64.StdEncoding.AppendEncode(dst, body)
	return append(dst, ";\r\n\tb="...), nil
}

func (s *Signer) sign(sum []byte) ([]byte, error) {
	switch k := s.Key.(type) {
	case ed25519.PrivateKey:
		return ed25519.Sign(k, sum), nil
	case *rsa.PrivateKey:
		return rsa.SignPKCS1v15(nil, k, crypto.SHA256, sum)
	}
	return nil, fmt.Errorf("cannot sign with a %T", s.Key)
}
