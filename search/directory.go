package search

import (
	"strings"

	"doublet/note"
	"doublet/search/text"
)

// Directory makes the texts of the directory's documents: names and addresses of people, groups, mail-in databases and
// servers. Names are in field Subject, addresses in From, descriptions in Body. Removed entries have no text, and
// secrets are never included.
func Directory(c *note.Content) []text.Stretch {
	if c.Items.Get("Removed") != nil {
		return nil
	}
	var out []text.Stretch
	for _, x := range []struct {
		item string
		f    text.Field
	}{
		{"FullName", text.Subject}, {"ShortName", text.Subject}, {"ListName", text.Subject},
		{"ServerName", text.Subject},
		{"InternetAddress", text.From}, {"MailAddress", text.From}, {"NetAddress", text.From},
		{"ListDescription", text.Body},
	} {
		for _, s := range c.Items.Get(x.item).AsTextList() {
			if s = strings.TrimSpace(s); s != "" {
				out = append(out, text.Make(x.f, s))
			}
		}
	}
	return out
}
