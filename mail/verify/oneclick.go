package verify

import (
	"errors"
	"net/url"
	"strings"

	"doublet/wire/dkim"
	"doublet/wire/mime"
)

// ErrNoOneClick means that a message does not offer one-click unsubscription. ErrUnsigned means that it does, and that
// no valid DKIM signature proves that the offer is its sender's.
var (
	ErrNoOneClick = errors.New("message does not offer one-click unsubscription")
	ErrUnsigned   = errors.New("no valid DKIM signature covers the List-Unsubscribe fields")
)

// offer returns the fields of an offer to leave a list, and the first Authentication-Results field. That one is of the
// last server, which is this one.
func offer(header []byte) (post, list []string, results string) {
	found := false
	for f := range mime.Fields(header) {
		switch {
		case f.Is("List-Unsubscribe-Post"):
			post = append(post, strings.TrimSpace(f.Text()))
		case f.Is("List-Unsubscribe"):
			list = append(list, f.Text())
		case f.Is("Authentication-Results") && !found:
			results, found = strings.TrimSpace(string(f.Value)), true
		}
	}
	return post, list, results
}

// OneClick returns the URL to which a request leaves the mailing list of a stored message with this header. The
// message's Authentication-Results field must be of a host for which ours returns true, and must report a valid
// signature that covers the fields of the offer. The caller must know that forged fields were removed when the message
// came in. The error is ErrNoOneClick or ErrUnsigned.
//
// Implements: RFC 8058 §4 Mail Receiver Requirements
func OneClick(header []byte, ours func(host string) bool) (string, error) {
	post, list, results := offer(header)
	if id, ok := AuthservID(results); !ok || !ours(strings.TrimSuffix(id, ".")) {
		results = ""
	}
	// A second field could be one that the signature does not cover.
	if len(post) != 1 || len(list) != 1 || !strings.EqualFold(post[0], "List-Unsubscribe=One-Click") {
		return "", ErrNoOneClick
	}
	to := httpsURL(list[0])
	if to == "" {
		return "", ErrNoOneClick
	}
	passed := passedSignatures(results)
	for _, s := range dkim.New(header).Signatures(maxSignatures) {
		if s.Err == nil && s.Signs("List-Unsubscribe") && s.Signs("List-Unsubscribe-Post") &&
			passed[signatureKey(s.Domain, s.Selector)] {
			return to, nil
		}
	}
	return "", ErrUnsigned
}

// httpsURL returns the first https URL of a List-Unsubscribe field (RFC 2369 section 2), or "".
func httpsURL(field string) string {
	for {
		_, rest, ok := strings.Cut(field, "<")
		if !ok {
			return ""
		}
		text, rest, ok := strings.Cut(rest, ">")
		if !ok {
			return ""
		}
		text = strings.Join(strings.Fields(text), "")
		if u, err := url.Parse(text); err == nil && strings.EqualFold(u.Scheme, "https") && u.Host != "" {
			return text
		}
		field = rest
	}
}

func signatureKey(domain, selector string) string { return strings.ToLower(domain + " " + selector) }

// passedSignatures returns the domains and selectors of the valid signatures in an Authentication-Results value. A
// domain and selector of which any signature failed is not among them, because only header.b would tell them apart.
func passedSignatures(value string) map[string]bool {
	passed := make(map[string]bool)
	for info := range strings.SplitSeq(bare(value), ";") {
		words := strings.Fields(info)
		if len(words) == 0 {
			continue
		}
		result, ok := strings.CutPrefix(strings.ToLower(words[0]), "dkim=")
		if !ok {
			continue
		}
		var domain, selector string
		for _, w := range words[1:] {
			if d, ok := strings.CutPrefix(w, "header.d="); ok {
				domain = d
			} else if x, ok := strings.CutPrefix(w, "header.s="); ok {
				selector = x
			}
		}
		if domain == "" || selector == "" {
			continue
		}
		key := signatureKey(domain, selector)
		before, seen := passed[key]
		passed[key] = result == string(Pass) && (before || !seen)
	}
	return passed
}
