package imap

// GenURLAuth holds the arguments of GENURLAUTH (RFC 4467): URLs to authorize, with mechanisms in upper case.
type GenURLAuth struct{ URLs []Rump }

// Rump is a URL to authorize, with the mechanism.
type Rump struct{ URL, Mechanism string }

// URLFetch holds the arguments of URLFETCH (RFC 4467).
type URLFetch struct{ URLs []URLFetchItem }

// URLFetchItem is one URL of URLFETCH. Extended is set if the URL was in parentheses, with the requested data (RFC
// 5524).
type URLFetchItem struct {
	URL                             string
	Extended                        bool
	Body, Binary, BodyPartStructure bool
}

// ResetKey holds the arguments of RESETKEY (RFC 4467). Mailbox "" means all mailboxes. Mechanisms are in upper case.
type ResetKey struct {
	Mailbox    string
	Mechanisms []string
}

func (p *parser) genURLAuth() any {
	g := &GenURLAuth{}
	for p.err == nil {
		r := Rump{URL: p.astring()}
		p.space()
		r.Mechanism = p.word()
		if g.URLs = append(g.URLs, r); len(g.URLs) > p.limits.Items {
			p.fail("Too many URLs")
		}
		if !p.try(' ') || p.end() {
			break
		}
	}
	return g
}

func (p *parser) urlFetch() any {
	f := &URLFetch{}
	for p.err == nil {
		if f.URLs = append(f.URLs, p.urlFetchItem()); len(f.URLs) > p.limits.Items {
			p.fail("Too many URLs")
		}
		if !p.try(' ') || p.end() {
			break
		}
	}
	return f
}

// urlFetchItem parses a URL, or one in parentheses with the requested data.
//
// Implements: RFC 5524 §5 extended URLFETCH
func (p *parser) urlFetchItem() (it URLFetchItem) {
	if p.peek() != '(' {
		it.URL = p.astring()
		return it
	}
	it.Extended = true
	first := true
	p.list(false, func() {
		if first {
			it.URL, first = p.astring(), false
			return
		}
		switch p.word() {
		case "BODY":
			it.Body = true
		case "BINARY":
			it.Binary = true
		case "BODYPARTSTRUCTURE":
			it.BodyPartStructure = true
		default:
			p.fail("Unknown URLFETCH item")
		}
	})
	if it.Body && it.Binary {
		p.fail("BODY and BINARY exclude each other")
	}
	return it
}

// resetKey parses the optional arguments of RESETKEY.
func (p *parser) resetKey() *ResetKey {
	r := &ResetKey{}
	if !p.try(' ') || p.end() {
		return r
	}
	if r.Mailbox = p.mailbox(); r.Mailbox == "" {
		p.fail("Expected a mailbox")
	}
	for p.err == nil && p.try(' ') && !p.end() {
		if r.Mechanisms = append(r.Mechanisms, p.word()); len(r.Mechanisms) > p.limits.Items {
			p.fail("Too many mechanisms")
		}
	}
	return r
}

// appendURLArgs prints the arguments of the commands of RFC 4467. done is false for others.
func appendURLArgs(dst []byte, args any, u bool) (out []byte, done bool) {
	switch a := args.(type) {
	case *GenURLAuth:
		for i := range a.URLs {
			dst = append(AppendAString(dst, a.URLs[i].URL, u), ' ')
			dst = append(append(dst, a.URLs[i].Mechanism...), ' ')
		}
		return dst[:len(dst)-1], true
	case *URLFetch:
		for i := range a.URLs {
			dst = append(appendURLFetchItem(dst, &a.URLs[i], u), ' ')
		}
		return dst[:len(dst)-1], true
	case *ResetKey:
		if a.Mailbox == "" {
			return dst[:len(dst)-1], true
		}
		dst = AppendMailbox(dst, a.Mailbox, u)
		for _, m := range a.Mechanisms {
			dst = append(append(dst, ' '), m...)
		}
		return dst, true
	}
	return dst, false
}

func appendURLFetchItem(dst []byte, it *URLFetchItem, u bool) []byte {
	if !it.Extended {
		return AppendAString(dst, it.URL, u)
	}
	dst = AppendAString(append(dst, '('), it.URL, u)
	for _, w := range [...]struct {
		on   bool
		name string
	}{{it.Body, " BODY"}, {it.Binary, " BINARY"}, {it.BodyPartStructure, " BODYPARTSTRUCTURE"}} {
		if w.on {
			dst = append(dst, w.name...)
		}
	}
	return append(dst, ')')
}
