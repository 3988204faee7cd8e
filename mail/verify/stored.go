package verify

import (
	"strings"

	"doublet/wire/mime"
)

// Stored reads the Authentication-Results fields with the authserv-id host from a stored message's header, and joins
// them to one value. The caller must know that forged fields were removed when the message came in. arc is the result
// for the ARC chain, "" if there is none. ok is false if there is no such field.
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

// chainResult returns the arc= result of an Authentication-Results value.
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
