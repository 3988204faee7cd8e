package contact

import (
	"strings"
)

// readKind reads a resource. kinds maps the names of properties to the member kind.
func readKind(kinds map[string]string) func(x *value) (Card, string) {
	return func(x *value) (Card, string) {
		address := x.address()
		if address == "" {
			return nil, ""
		}
		item := Card{"uri": address}
		item.put("kind", kinds[x.Name])
		item.put("mediaType", x.Param("MEDIATYPE"))
		return item, ""
	}
}

// binary are the values of the parameter ENCODING of a value in base64 (RFC 2426, and vCard 2.1).
func (x *value) binary() bool {
	e := x.Param("ENCODING")
	return strings.EqualFold(e, "b") || strings.EqualFold(e, "base64")
}

// address returns the URI of a resource: a data: URI of a value in base64.
//
// Implements: RFC 9555 §2.4 converting binary values
func (x *value) address() string {
	if strings.EqualFold(x.Param("VALUE"), "text") {
		return ""
	}
	if !x.binary() {
		return x.uri()
	}
	kind := "application/octet-stream"
	for _, t := range params(x.Property, "TYPE") {
		if family := families[x.Name]; family != "" && contexts[strings.ToLower(t)] == "" && t != "" {
			kind = family + "/" + strings.ToLower(strings.TrimPrefix(strings.ToLower(t), family+"/"))
		}
	}
	return "data:" + kind + ";base64," + strings.Map(func(r rune) rune {
		if r == ' ' || r == '\t' {
			return -1
		}
		return r
	}, x.text)
}

var families = map[string]string{"PHOTO": "image", "LOGO": "image", "SOUND": "audio"}

// writeURI writes a resource. In vCard 3.0 a data: URI becomes a value in base64.
func writeURI(x *value, item Card) {
	if x.binary() { // else TYPE would keep the subtype of the value before
		setParam(x.Property, "TYPE", "")
	}
	setParam(x.Property, "ENCODING", "")
	setParam(x.Property, "VALUE", "")
	setParam(x.Property, "MEDIATYPE", item.text("mediaType"))
	address := item.text("uri")
	x.Value = uri(address)
	family := families[x.Name]
	if family == "" {
		return
	}
	rest, ok := strings.CutPrefix(address, "data:"+family+"/")
	kind, data, based := strings.Cut(rest, ";base64,")
	if !x.old || !ok || !based || !plain(kind) {
		if x.old {
			setParam(x.Property, "VALUE", "uri")
		}
		return
	}
	x.Value = uri(data)
	setParam(x.Property, "ENCODING", "b")
	setParam(x.Property, "TYPE", strings.ToUpper(kind))
}

// plain reports whether a text has only letters, digits, and the signs of media types.
func plain(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789.+-") == ""
}
