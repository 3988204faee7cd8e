package journal

import (
	"strings"

	"doublet/wire/mime"
)

// maxText is the number of bytes of one text part in which Contains looks.
const maxText = 4 << 20

// Contains reports whether a message has a text in its subject, in the display names and addresses of its header, or in
// its text parts, in any case. It does not look into attachments of other types.
func Contains(raw []byte, text string) bool {
	text = strings.ToLower(text)
	return partContains(mime.Parse(raw, mime.DefaultLimits), raw, text)
}

func partContains(p *mime.Part, raw []byte, text string) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	if e := p.Envelope; e != nil {
		if has(mime.DecodeWords(e.Subject)) {
			return true
		}
		for _, list := range [][]mime.Address{e.From, e.To, e.Cc} {
			for _, a := range list {
				if has(mime.DecodeWords(a.Name)) || has(a.Mailbox+"@"+a.Host) {
					return true
				}
			}
		}
	}
	for _, c := range p.Children {
		if partContains(c, raw, text) {
			return true
		}
	}
	if len(p.Children) > 0 || p.Type != "text" && p.Type != "" {
		return false
	}
	body, _ := mime.DecodeText(p, raw, maxText)
	if p.Subtype == "html" {
		body = mime.HTMLText(body)
	}
	return has(strings.Join(strings.Fields(body), " ")) || has(body)
}
