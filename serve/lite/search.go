package lite

import (
	"errors"
	"strconv"
	"strings"

	"doublet/mailbox"
	"doublet/search/query"
)

// search parses the text of the search box. It shows on the page how the text was understood.
func (v *visit) search(p *listPage, words string, folders []mailbox.Folder) (mailbox.Filter, error) {
	who, err := v.s.dir.Names.Person(v.ctx, v.id.Who.Person)
	if err != nil {
		return mailbox.Filter{}, err
	}
	now := query.Context{Now: v.Now.In(v.Location), Me: who.Addresses()}
	parsed, f, err := mailbox.SearchBox(words, now, folders)
	if errors.Is(err, query.ErrQuery) {
		p.Unknown = []string{v.T("unusable")}
		_, f, err = mailbox.SearchBox("-", now, folders) // matches nothing
		return f, err
	}
	if err != nil {
		return f, err
	}
	for i := range parsed.Terms {
		p.Terms = append(p.Terms, fit(v.termText(&parsed.Terms[i]), 100, 200))
	}
	for _, u := range parsed.Unknown {
		p.Unknown = append(p.Unknown, v.T("unknown"+capital(string(u.Reason)), clip(u.Text, 100)))
	}
	return f, nil
}

// termText returns a term of a search in the person's language.
func (v *visit) termText(t *query.Term) string {
	if t.Not {
		positive := *t
		positive.Not = false
		return v.T("termNot", v.termText(&positive))
	}
	switch t.Kind {
	case query.KindAny, query.KindAll:
		key := "termAnd"
		if t.Kind == query.KindAny {
			key = "termOr"
		}
		s := v.termText(&t.Of[0])
		for i := range t.Of[1:] {
			s = v.T(key, s, v.termText(&t.Of[1+i]))
		}
		return s
	case query.KindLarger, query.KindSmaller:
		n, _ := strconv.ParseFloat(t.Value, 64)
		return v.T("term"+capital(string(t.Kind)), size(n))
	case query.KindKeyword:
		if key := keywordTexts[t.Value]; key != "" {
			return v.T(key)
		}
		return v.T("termKeyword", t.Value)
	}
	value := t.Value
	if strings.ContainsAny(value, " \t") {
		value = "“" + value + "”"
	}
	return v.T("term"+capital(string(t.Kind)), value)
}

// keywordTexts maps system keywords to texts.
var keywordTexts = map[string]string{
	"$flagged": "termFlagged", "$answered": "termAnswered", "$draft": "termDraft", "$forwarded": "termForwarded",
	"$important": "termImportant",
}

// capital returns s with its first letter, which is ASCII, in upper case.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
