package sieve

import "strings"

// Reference is a part of a string with variables: text, or the name of a variable or the number of a match.
type Reference struct {
	Text     string
	Variable string // lower case; "" for text. A decimal number names a part of the last match
}

// References splits a string at its variables. It returns nil if there are none. What is not the name of a variable
// remains text.
//
// Implements: RFC 5229 §3 interpretation of strings
func References(s string) []Reference {
	var out []Reference
	from := 0
	for at := 0; ; {
		i := strings.Index(s[at:], "${")
		if i < 0 {
			break
		}
		i += at
		j := strings.IndexAny(s[i+2:], "}$") // "${${a}" is "${" and the variable a
		if j < 0 {
			break
		}
		j += i + 2
		if s[j] == '$' || !reference(s[i+2:j]) {
			at = j
			continue
		}
		if from < i {
			out = append(out, Reference{Text: s[from:i]})
		}
		out = append(out, Reference{Variable: strings.ToLower(s[i+2 : j])})
		from, at = j+1, j+1
	}
	if out != nil && from < len(s) {
		out = append(out, Reference{Text: s[from:]})
	}
	return out
}

func reference(name string) bool {
	if name == "" || len(name) > maxVariable {
		return false
	}
	if strings.Trim(name, "0123456789") == "" {
		return len(name) <= 9
	}
	return variableName(strings.TrimPrefix(name, "global."))
}

// maxVariable is the maximum length of the name of a variable in bytes.
const maxVariable = 128

func variableName(s string) bool {
	if s == "" || len(s) > maxVariable || !letter(s[0]) {
		return false
	}
	for i := range len(s) {
		if !letter(s[i]) && !('0' <= s[i] && s[i] <= '9') {
			return false
		}
	}
	return true
}
