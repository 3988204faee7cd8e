package jmapd

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"doublet/mailbox"
	"doublet/wire/jmap"
	"doublet/wire/mime"
)

// maxSnippet is the longest preview of a snippet in octets (RFC 8621 section 5).
const maxSnippet = 255

// snippetGet answers SearchSnippet/get.
//
// Implements: RFC 8621 §5.1 SearchSnippet/get
func snippetGet(c *call) error {
	if err := c.allow("accountId", "filter", "emailIds"); err != nil {
		return err
	}
	if err := c.needAccount(false); err != nil {
		return err
	}
	f, err := c.emailFilter()
	if err != nil {
		return err
	}
	ids, some, err := c.list("emailIds")
	if err != nil {
		return err
	}
	if !some {
		return invalid("emailIds is missing")
	}
	if len(ids) > c.s.opt.Limits.ObjectsInGet {
		return &jmap.Error{Type: "requestTooLarge", Description: "There are more ids than maxObjectsInGet."}
	}
	words := snippetWords{}
	words.collect(&f, false)
	var notFound []string
	c.out = append(append(append(c.out, `{"accountId":"`...), c.account.ID...), `","list":[`...)
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		first := true
		for _, id := range c.once(ids) {
			m, err := c.email(d, id)
			if err == mailbox.ErrNoMessage {
				notFound = append(notFound, id)
				continue
			}
			if err != nil {
				return err
			}
			if !first {
				c.out = append(c.out, ',')
			}
			first = false
			if err := c.appendSnippet(m, &words); err != nil {
				return err
			}
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.out = append(c.out, `],"notFound":`...)
	if notFound == nil {
		c.out = append(c.out, "null}"...)
	} else {
		c.out = append(jmap.AppendStrings(c.out, notFound), '}')
	}
	return nil
}

// snippetWords are the words that a filter looks for in subjects and in bodies.
type snippetWords struct{ subject, body []word }

// word is a word to be found and marked, without regard to case.
type word struct {
	mime.Needle
	folded []rune
}

func newWord(s string) word {
	w := word{Needle: mime.NewNeedle(s)}
	for _, r := range nfc(s) {
		w.folded = append(w.folded, fold(r))
	}
	return w
}

// fold is one rune for all that differ only in case.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		return unicode.ToLower(r)
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return unicode.ToLower(least)
}

// index is where the word first stands in a text, and how many octets it has there; below 0 where it does not.
func (w *word) index(text string) (at, n int) {
	if len(w.folded) == 0 {
		return -1, 0
	}
	for i, r := range text {
		if fold(r) != w.folded[0] {
			continue
		}
		k, end := 0, i
		for k < len(w.folded) && end < len(text) {
			r, size := utf8.DecodeRuneInString(text[end:])
			if fold(r) != w.folded[k] {
				break
			}
			k++
			end += size
		}
		if k == len(w.folded) {
			return i, end - i
		}
	}
	return -1, 0
}

func (w *snippetWords) collect(f *mailbox.Filter, not bool) {
	if f.Kind == mailbox.FilterNot {
		not = !not
	}
	for i := range f.Of {
		w.collect(&f.Of[i], not)
	}
	if f.Kind != mailbox.FilterText || not {
		return
	}
	for i := range f.Text.All {
		t := &f.Text.All[i]
		n := newWord(t.Text)
		if t.Test == mailbox.TestSubject || t.Test == mailbox.TestText {
			w.subject = append(w.subject, n)
		}
		if t.Test == mailbox.TestBody || t.Test == mailbox.TestText {
			w.body = append(w.body, n)
		}
	}
}

func (c *call) appendSnippet(m *mailbox.Email, w *snippetWords) error {
	c.out = appendID(append(c.out, `{"emailId":`...), letterEmail, m.UNID())
	text, err := m.Envelope()
	if err != nil {
		return err
	}
	e, _ := cutEnvelope(text)
	raw, _ := e.text(envSubject)
	c.out = appendMarked(append(c.out, `,"subject":`...), nfc(mime.DecodeWords(raw)), w.subject, 4*maxSnippet)
	c.out = append(c.out, `,"preview":`...)
	if len(w.body) == 0 {
		c.out = append(c.out, "null}"...)
		return nil
	}
	found, err := snippetText(m, w.body)
	if err != nil {
		return err
	}
	c.out = append(appendMarked(c.out, found, w.body, maxSnippet), '}')
	return nil
}

// snippetText is the first text of a message that has one of the words.
func snippetText(m *mailbox.Email, words []word) (string, error) {
	texts, err := m.Texts()
	if err != nil {
		return "", err
	}
	for _, t := range texts {
		for i := range words {
			if words[i].In(t) {
				return nfc(t), nil
			}
		}
	}
	return "", nil
}

// appendMarked prints a text as HTML with the words in mark elements, from a little before the first of them, at most most
// octets; null where none is found.
//
// Implements: RFC 8621 §5 SearchSnippet
func appendMarked(dst []byte, text string, words []word, most int) []byte {
	at, _ := firstMatch(text, words)
	if at < 0 {
		return append(dst, "null"...)
	}
	if from := at - most/4; from > 0 && len(text) > most/2 {
		if i := strings.IndexAny(text[from:at], " \n\t"); i >= 0 {
			text = text[from+i+1:]
		} else {
			text = text[at:]
		}
	}
	text = cutRunes(text, 4*most) // more than that is never printed
	var b strings.Builder
	put := func(s string, mark bool) bool {
		piece := escapeHTML(strings.Join(strings.Fields(" "+s+" "), " "))
		if s != "" && isBlank(s[0]) && b.Len() > 0 {
			piece = " " + piece
		}
		if s != "" && isBlank(s[len(s)-1]) && piece != "" && piece != " " {
			piece += " "
		}
		if mark {
			piece = "<mark>" + piece + "</mark>"
		}
		if room := most - b.Len(); len(piece) > room {
			if !mark {
				b.WriteString(cutHTML(piece, room))
			}
			return false
		}
		b.WriteString(piece)
		return true
	}
	for text != "" {
		at, n := firstMatch(text, words)
		if at < 0 {
			put(text, false)
			break
		}
		if !put(text[:at], false) || !put(text[at:at+n], true) {
			break
		}
		text = text[at+n:]
	}
	return jmap.AppendString(dst, strings.TrimSpace(b.String()))
}

func cutRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// firstMatch finds the first of the words in a text, and how long it is there.
func firstMatch(text string, words []word) (at, n int) {
	at = -1
	for i := range words {
		if i, k := words[i].index(text); i >= 0 && (at < 0 || i < at) {
			at, n = i, k
		}
	}
	return at, n
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

func escapeHTML(s string) string { return htmlEscapes.Replace(s) }

// cutHTML cuts escaped text to at most n octets, between characters and outside of an escape.
func cutHTML(s string, n int) string {
	if n <= 0 {
		return ""
	}
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	s = s[:n]
	if i := strings.LastIndexByte(s, '&'); i >= 0 && strings.IndexByte(s[i:], ';') < 0 {
		s = s[:i]
	}
	return s
}
