package directory

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"doublet/note"
	"doublet/store"
)

// Kind is the kind of the directory's database.
const Kind = "directory"

// The directory's indexes. Numbers 1 to 12 are reserved for them and must not change.
const (
	// indexNames finds documents by 'n' name, 'a' address key or 's' server name.
	indexNames uint64 = 1
	// indexMembers finds the groups of a member by memberAccess or memberMail, and UNID in hex.
	indexMembers uint64 = 2
	// indexList lists documents by the form's letter and the canonical name.
	indexList uint64 = 3
	// indexRemoved lists removed documents by 't' time in hex, and by 'n' canonical name.
	indexRemoved uint64 = 4
	// indexRoles finds people by 'r' and the role in its normal form.
	indexRoles uint64 = 5
	// indexTokens finds people by the hex hash of an app password.
	indexTokens uint64 = 6
)

// The prefixes of indexMembers.
const (
	memberAccess = 'A' // groups of kind multi or access
	memberMail   = 'M' // groups for mail only
)

// Indexes returns the directory's indexes, for store.Options.
func Indexes() []store.Index {
	of := func(number uint64, keys func(form string, items note.Items) [][]byte) store.Index {
		return store.Index{Number: number, Kind: Kind, Keys: func(c note.Class, content *note.Content) [][]byte {
			if c != note.Document {
				return nil
			}
			return keys(content.Items.Get(itemForm).AsText(), content.Items)
		}}
	}
	present := func(keys func(form string, items note.Items) [][]byte) func(string, note.Items) [][]byte {
		return func(form string, items note.Items) [][]byte {
			if items.Get(itemRemoved) != nil {
				return nil
			}
			return keys(form, items)
		}
	}
	return []store.Index{
		of(indexNames, present(nameKeys)),
		of(indexMembers, present(memberKeys)),
		of(indexList, present(listKeys)),
		of(indexRemoved, removedKeys),
		of(indexRoles, present(roleKeys)),
		of(indexTokens, present(tokenKeys)),
		of(indexDKIM, dkimKeys),
		of(indexRoutes, routeKeys),
		of(indexConnections, connectionKeys),
		of(indexMailRules, mailRuleKeys),
		of(indexRetention, retentionKeys),
		of(indexAssistance, assistanceKeys),
	}
}

// nameKeys returns the keys that must be unique to one document.
func nameKeys(form string, items note.Items) [][]byte {
	var out [][]byte
	add := func(k []byte) {
		if k != nil && !slices.ContainsFunc(out, func(o []byte) bool { return string(o) == string(k) }) {
			out = append(out, k)
		}
	}
	switch form {
	case formPerson, formMailIn:
		for _, n := range items.Get(itemFullName).AsTextList() {
			add(nameKey('n', n))
		}
		add(nameKey('n', items.Get(itemShortName).AsText()))
		for _, a := range items.Get(itemMailAddress).AsTextList() {
			add(addressKey(a))
		}
		add(addressKey(items.Get(itemInternetAddress).AsText()))
	case formGroup:
		add(nameKey('n', items.Get(itemListName).AsText()))
		add(addressKey(items.Get(itemInternetAddress).AsText()))
	case formServer:
		add(nameKey('s', items.Get(itemServerName).AsText()))
	}
	return out
}

// nameKey returns nil if name is not a valid name.
func nameKey(prefix byte, name string) []byte {
	n, err := NormalName(name)
	if err != nil {
		return nil
	}
	return append([]byte{prefix}, n...)
}

// addressKey returns nil if address is not a valid address.
func addressKey(address string) []byte {
	if address == "" {
		return nil
	}
	a, err := parseAddress(address)
	if err != nil {
		return nil
	}
	return append([]byte{'a'}, a.Key()...)
}

func memberKeys(form string, items note.Items) [][]byte {
	if form != formGroup {
		return nil
	}
	prefix := byte(memberAccess)
	if GroupKind(items.Get(itemGroupKind).AsText()) == GroupMail {
		prefix = memberMail
	}
	list := items.Get(itemMembers).AsTextList()
	out := make([][]byte, 0, len(list))
	for _, m := range list {
		if len(m) == 32 && strings.IndexByte(m, '@') < 0 {
			out = append(out, append([]byte{prefix}, m...))
		}
	}
	return out
}

func memberKey(prefix byte, u note.UNID) []byte {
	return hex.AppendEncode([]byte{prefix}, u[:])
}

// listLetter returns the letter of a form in indexList, or 0 for a form that is not listed.
func listLetter(form string) byte {
	switch form {
	case formPerson:
		return 'p'
	case formGroup:
		return 'g'
	case formMailIn:
		return 'm'
	case formServer:
		return 's'
	}
	return 0
}

func listKeys(form string, items note.Items) [][]byte {
	letter := listLetter(form)
	if letter == 0 {
		return nil
	}
	if k := nameKey(letter, canonical(items)); k != nil {
		return [][]byte{k}
	}
	return nil
}

func removedKeys(_ string, items note.Items) [][]byte {
	v := items.Get(itemRemoved)
	if v == nil {
		return nil
	}
	out := [][]byte{removedKey(v.AsInt())}
	if k := nameKey('n', canonical(items)); k != nil {
		out = append(out, k)
	}
	return out
}

// removedKey returns a key that sorts by time.
func removedKey(unix int64) []byte { return fmt.Appendf(nil, "t%016x", uint64(unix)) }

func roleKeys(form string, items note.Items) [][]byte {
	if form != formPerson {
		return nil
	}
	var out [][]byte
	for _, r := range items.Get(itemRoles).AsTextList() {
		if k := nameKey('r', r); k != nil {
			out = append(out, k)
		}
	}
	return out
}

func tokenKeys(form string, items note.Items) [][]byte {
	if form != formPerson {
		return nil
	}
	var out [][]byte
	for _, v := range items.Entries(itemToken) {
		if list := v.AsTextList(); len(list) >= 4 {
			out = append(out, []byte(list[1]))
		}
	}
	return out
}
