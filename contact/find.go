package contact

import (
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// SearchPaths are the members of a card in which people look for words: see Card.Texts.
var SearchPaths = []string{"name/full", "name/components/*/value", "nicknames/*/name", "organizations/*/name",
	"organizations/*/units/*/name", "titles/*/name", "emails/*/address", "emails/*/label", "phones/*/number",
	"phones/*/label", "onlineServices/*/service", "onlineServices/*/uri", "onlineServices/*/user",
	"addresses/*/components/*/value", "addresses/*/full", "notes/*/note", "links/*/uri", "links/*/label",
	"personalInfo/*/value", "keywords/*/"}

// Texts returns the strings at paths in the card. In a path * stands for all members or elements, and a path that ends
// with "*/" returns the names of the members.
func (c Card) Texts(paths ...string) (out []string) {
	for _, path := range paths {
		out = collect(out, c, strings.Split(path, "/"))
	}
	return out
}

// collect appends the texts at a path.
func collect(out []string, v any, path []string) []string {
	if len(path) == 0 {
		if text, ok := v.(string); ok {
			out = append(out, text)
		}
		return out
	}
	switch in := v.(type) {
	case Card:
		for name, x := range in {
			switch {
			case path[0] == "*" && len(path) == 2 && path[1] == "":
				out = append(out, name)
			case path[0] == "*" || path[0] == name:
				out = collect(out, x, path[1:])
			}
		}
	case []any:
		for _, x := range in {
			out = collect(out, x, path[1:])
		}
	}
	return out
}

// Fold returns a text in the form in which texts are compared: without differences of case, in normalization form C.
func Fold(s string) string { return cases.Fold().String(norm.NFC.String(s)) }

// HasWords reports whether each word, which is folded, is a part of one of the texts.
func HasWords(texts, words []string) bool {
	folded := make([]string, len(texts))
	for i, t := range texts {
		folded[i] = Fold(t)
	}
	for _, w := range words {
		found := false
		for _, t := range folded {
			found = found || strings.Contains(t, w)
		}
		if !found {
			return false
		}
	}
	return true
}
