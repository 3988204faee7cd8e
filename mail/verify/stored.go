package verify

import (
	"strings"

	"doublet/wire/mime"
)

// Stored reads the Authentication-Results fields of a stored message's header that bear a server's authserv-id, as one
// value from the authserv-id on. The caller must know that strangers' fields of that name were removed when the message
// came. arc is the result for its chain, empty where none is named. ok is false where there is no such field.
//
// Implements: RFC 8617 §4.1.1 The results of an ARC-Authentication-Results field
func Stored(header []byte, host string) (value string, arc Result, ok bool) {
	for f := range mime.Fields(header) {
		if !f.Is("Authentication-Results") {
			continue
		}
		text := strings.TrimSpace(string(f.Value))
		id, valid := AuthservID(text)
		if !valid || !equalFold(strings.TrimSuffix(id, "."), strings.TrimSuffix(host, ".")) {
			continue
		}
		if r := chainResult(text); arc == "" || r == Fail {
			arc = r
		}
		_, results, some := strings.Cut(text, ";")
		switch {
		case !ok:
			value, ok = text, true
		case some:
			value += ";" + results
		}
	}
	return value, arc, ok
}

// chainResult reads the arc= result of an Authentication-Results value.
func chainResult(value string) Result {
	for info := range strings.SplitSeq(bare(value), ";") {
		words := strings.Fields(info)
		if len(words) == 0 {
			continue
		}
		if name, r, found := strings.Cut(strings.ToLower(words[0]), "="); found && name == "arc" {
			return Result(r)
		}
	}
	return ""
}
