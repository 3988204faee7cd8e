package mailrule

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"doublet/wire/mime"
)

// Message is a message for rules. What conditions need of its content is read once, and only if a rule asks.
type Message struct {
	// From is the sender of the envelope, empty for none. To holds the recipients. Outside is set if one of them is in
	// another domain.
	From    string
	To      []string
	Outside bool
	// Arrives is set if no rule may refuse the message: it is only for postmaster or abuse here.
	Arrives bool
	// SignedIn is set if the client signed in.
	SignedIn bool
	// Junk and Held are verdicts of filters. Authenticated is set if the author was verified, Unauthenticated if that
	// was tried and failed. Forged is set if the sender is probably forged.
	Junk, Held, Authenticated, Unauthenticated, Forged bool
	// Member reports whether the submitter or a recipient is in a group. Nil means no.
	Member func(group string) bool
	// Raw is the message with CRLF lines.
	Raw []byte

	header      *header
	root        *mime.Part
	attachments *[]attachment
	body        string
	hasBody     bool
}

// header holds what conditions need of the header: senders and the values of fields, folded, by name in lower case.
type header struct {
	senders []string
	subject string
	fields  map[string]string
}

// attachment is a part that is no multipart. listed is set if readers see it as an attachment.
type attachment struct {
	name, media string
	listed      bool
}

// The limits of what conditions look at. They bound the time of a message, because each condition of each rule may read
// all of it: bytes of text over all parts, bytes of the header, authors, parts, and bytes of a file name.
const (
	maxBody    = 128 << 10
	maxHeader  = 64 << 10
	maxSenders = 100
	maxParts   = 1000
	maxName    = 255
)

func (m *Message) direction() string {
	switch {
	case m.Outside:
		return "out"
	case !m.SignedIn:
		return "in"
	}
	return "internal"
}

func (m *Message) verdict(word string) bool {
	switch word {
	case "junk":
		return m.Junk
	case "held":
		return m.Held
	case "authenticated":
		return m.Authenticated || m.SignedIn
	case "unauthenticated":
		return m.Unauthenticated
	}
	return m.Forged
}

func (m *Message) head() *header {
	if m.header != nil {
		return m.header
	}
	h := &header{senders: []string{m.From}, fields: map[string]string{}}
	for f := range mime.Fields(m.Raw[:min(mime.HeaderEnd(m.Raw), maxHeader)]) {
		name, value := strings.ToLower(string(f.Name)), normal(mime.DecodeWords(f.Text()))
		was, again := h.fields[name]
		if again {
			value = was + "\n" + value // no phrase reaches from one field to the next
		}
		if h.fields[name] = value; f.Is("From") {
			h.addSenders(f.Value)
		}
	}
	h.subject, _, _ = strings.Cut(h.fields["subject"], "\n")
	m.header = h
	return h
}

func (h *header) addSenders(value []byte) {
	for _, a := range mime.ParseAuthors(value) {
		if !a.Group && len(h.senders) < maxSenders {
			h.senders = append(h.senders, a.Mailbox+"@"+a.Host)
		}
	}
}

func (m *Message) senders() []string   { return m.head().senders }
func (m *Message) subjectText() string { return m.head().subject }

// field tests "name: TEXT" or "name", of which the name is in lower case and the text folded.
func (m *Message) field(want string) bool {
	name, text, _ := strings.Cut(want, ":")
	value, ok := m.head().fields[name]
	return ok && strings.Contains(value, text)
}

// foldField prepares a value of Conditions.Header for field.
func foldField(v string) string {
	name, text, _ := strings.Cut(v, ":")
	return strings.ToLower(name) + ":" + normal(text)
}

func (m *Message) parts() *mime.Part {
	if m.root == nil {
		m.root = mime.Parse(m.Raw, mime.DefaultLimits)
	}
	return m.root
}

// attached tests a pattern of attachments, in lower case.
func (m *Message) attached(pattern string) bool {
	if m.attachments == nil {
		var list []attachment
		leaves(m.parts(), func(p *mime.Part) bool {
			list = append(list, attachmentOf(p))
			return len(list) < maxParts
		})
		m.attachments = &list
	}
	return slices.ContainsFunc(*m.attachments, func(a attachment) bool { return a.fits(pattern) })
}

func attachmentOf(p *mime.Part) attachment {
	name := strings.ToLower(mime.DecodeWords(p.Filename()))
	name = name[max(0, len(name)-maxName):] // the end, which has the extension
	a := attachment{media: p.Type + "/" + p.Subtype}
	a.listed = name != "" || p.Disposition == "attachment" || p.IsMessage()
	a.name = strings.NewReplacer("/", "_", `\`, "_").Replace(name) // a pattern's * matches no slash
	return a
}

func (a *attachment) fits(pattern string) bool {
	switch {
	case pattern == "*":
		return a.listed
	case strings.Contains(pattern, "/"):
		ok, _ := path.Match(pattern, a.media) // checked by Parse
		return ok && (a.listed || !strings.HasPrefix(a.media, "text/"))
	}
	ok, _ := path.Match(pattern, a.name)
	return ok && a.name != ""
}

// leaves calls fn for the parts that are no multiparts, also within attached messages, until it returns false.
func leaves(p *mime.Part, fn func(*mime.Part) bool) bool {
	if !p.IsMultipart() && !fn(p) {
		return false
	}
	for _, c := range p.Children {
		if !leaves(c, fn) {
			return false
		}
	}
	return true
}

// text returns the text that readers see, folded, at most maxBody bytes.
func (m *Message) text() string {
	if m.hasBody {
		return m.body
	}
	m.hasBody = true
	var b strings.Builder
	leaves(m.parts(), func(p *mime.Part) bool {
		if p.Type != "text" && p.Type != "" || p.Disposition == "attachment" {
			return true
		}
		room := maxBody - b.Len()
		text, _ := mime.DecodeText(p, m.Raw, room)
		if p.Subtype == "html" {
			text = mime.HTMLText(text)
		}
		b.WriteString(normal(text[:min(len(text), room)]))
		b.WriteByte(' ')
		return b.Len() < maxBody
	})
	m.body = b.String()
	return m.body
}

// hasPhrase reports whether a folded text contains a phrase that no letter or digit continues on either side.
func hasPhrase(text, phrase string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], phrase)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(phrase)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[end:])
		first, _ := utf8.DecodeRuneInString(phrase)
		last, _ := utf8.DecodeLastRuneInString(phrase)
		if !(wordly(before) && wordly(first)) && !(wordly(last) && wordly(after)) {
			return true
		}
		_, n := utf8.DecodeRuneInString(text[start:])
		from = start + n
	}
}

func wordly(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
