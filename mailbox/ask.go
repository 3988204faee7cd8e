package mailbox

import (
	"slices"
	"strings"

	"doublet/note"
	"doublet/search/query"
	"doublet/search/text"
)

// textTests maps fields to the tests that search them. Other fields are searched with TestText.
var textTests = []struct {
	fields text.Field
	test   Test
}{
	{text.From, TestFrom}, {text.To, TestTo}, {text.Cc, TestCc}, {text.Bcc, TestBcc}, {text.Subject, TestSubject},
	{text.Content, TestBody},
}

// FilterOf converts a query from a search box (query.Parse) into a Filter over these folders. It finds a folder by name
// or special use; a folder that does not exist matches no message.
func FilterOf(n *query.Node, folders []Folder) Filter {
	combined := func(k FilterKind) Filter {
		f := Filter{Kind: k}
		for _, kid := range n.Kids {
			f.Of = append(f.Of, FilterOf(kid, folders))
		}
		return f
	}
	switch n.Op {
	case query.OpAny:
		return combined(FilterOr)
	case query.OpNot:
		return combined(FilterNot)
	case query.OpText:
		c := Criteria{Test: TestText, Text: n.Text.Source, Words: true}
		if strings.ContainsAny(c.Text, " \t'\"") {
			c.Text = `"` + strings.ReplaceAll(c.Text, `"`, " ") + `"` // a phrase
		}
		for _, t := range textTests {
			if n.Text.Fields == t.fields {
				c.Test = t.test
			}
		}
		return Filter{Kind: FilterText, Text: c}
	case query.OpUnread:
		return Filter{Kind: FilterNot, Of: []Filter{{Kind: FilterKeyword, Keyword: Seen}}}
	case query.OpKeyword:
		return Filter{Kind: FilterKeyword, Keyword: strings.ToLower(n.Word)}
	case query.OpAttachment:
		return Filter{Kind: FilterAttached}
	case query.OpLarger:
		return Filter{Kind: FilterMin, Size: n.Number + 1}
	case query.OpSmaller:
		return Filter{Kind: FilterMax, Size: n.Number}
	case query.OpBefore:
		return Filter{Kind: FilterBefore, Time: n.Time}
	case query.OpAfter:
		return Filter{Kind: FilterAfter, Time: n.Time}
	case query.OpFolder:
		return Filter{Kind: FilterIn, Folders: foldersNamed(folders, n.Word)}
	}
	return combined(FilterAnd)
}

// foldersNamed returns the folders with the given full name, last level of the name, or special use.
func foldersNamed(folders []Folder, name string) (out []note.UNID) {
	for i := range folders {
		f := &folders[i]
		last := f.Name[strings.LastIndexByte(f.Name, '/')+1:]
		if slices.ContainsFunc([]string{f.Name, last, f.SpecialUse},
			func(s string) bool { return strings.EqualFold(s, name) }) {
			out = append(out, f.UNID)
		}
	}
	return out
}
