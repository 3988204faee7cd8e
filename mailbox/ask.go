package mailbox

import (
	"slices"
	"strings"

	"doublet/note"
	"doublet/search/query"
	"doublet/search/text"
)

// SearchBox parses the text of a search box and returns its filter over these folders. It excludes Junk, Trash
// and the folders below Trash unless the text names a folder. The error is a query.ErrQuery.
func SearchBox(s string, c query.Context, folders []Folder) (*query.Parsed, Filter, error) {
	p, err := query.Parse(s, c)
	if err != nil {
		return nil, Filter{}, err
	}
	names := false
	p.Leaves(func(t *query.Term, _ bool) {
		switch t.Kind {
		case query.KindFolder:
			if foldersNamed(folders, t.Value) == nil {
				p.Unknown = append(p.Unknown, query.Unknown{Reason: query.ReasonFolder, Text: p.Text[t.Start:t.End],
					Start: t.Start, End: t.End})
			}
			names = true
		case query.KindLabel:
			names = names || foldersNamed(folders, t.Value) != nil
		case query.KindAnywhere:
			names = true
		}
	})
	f := Filter{Kind: FilterAnd, Of: []Filter{FilterOf(p.Node(), folders)}, Fleeting: true}
	if hidden := hiddenOf(folders); !names && hidden != nil {
		f.Of = append(f.Of, Filter{Kind: FilterElsewhere, Folders: hidden})
	}
	return p, f, nil
}

// hiddenOf returns Junk, Trash and the folders below Trash.
func hiddenOf(folders []Folder) (out []note.UNID) {
	for i := range folders {
		if folders[i].Is(UseTrash, UseJunk) || InTrash(folders, &folders[i]) {
			out = append(out, folders[i].UNID)
		}
	}
	return out
}

// textTests maps fields to the tests that search them. TestText searches other fields.
var textTests = []struct {
	fields text.Field
	test   Test
}{
	{text.From, TestFrom}, {text.To, TestTo}, {text.Cc, TestCc}, {text.Bcc, TestBcc}, {text.Subject, TestSubject},
	{text.Content, TestBody},
}

func textCriteria(q *query.Text) Criteria {
	c := Criteria{Test: TestText, Fields: q.Fields, Text: q.Source, Words: true}
	if strings.ContainsAny(c.Text, " \t'\"") {
		c.Text = `"` + strings.ReplaceAll(c.Text, `"`, " ") + `"` // a phrase
	}
	for _, t := range textTests {
		if q.Fields == t.fields {
			c.Test, c.Fields = t.test, 0
		}
	}
	return c
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
		return Filter{Kind: FilterText, Text: textCriteria(n.Text)}
	case query.OpHeader:
		return Filter{Kind: FilterText, Text: Criteria{Test: TestHeader, Name: n.Name, Text: n.Word}}
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
