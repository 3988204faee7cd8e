package jmapd

import (
	"slices"
	"strings"

	"doublet/wire/jmap"
	"doublet/wire/mime"
)

// form is a form in which a header field is parsed.
type form uint8

// The forms (RFC 8621 section 4.1.2).
const (
	asRaw form = iota
	asText
	asAddresses
	asGroupedAddresses
	asMessageIDs
	asDate
	asURLs
)

var forms = map[string]form{
	"asRaw": asRaw, "asText": asText, "asAddresses": asAddresses, "asGroupedAddresses": asGroupedAddresses,
	"asMessageIds": asMessageIDs, "asDate": asDate, "asURLs": asURLs,
}

// The fields of RFC 5322 and RFC 2369 have only the forms that match their syntax.
var (
	addressFields = []string{"from", "sender", "reply-to", "to", "cc", "bcc", "resent-from", "resent-sender",
		"resent-reply-to", "resent-to", "resent-cc", "resent-bcc"}
	idFields   = []string{"message-id", "in-reply-to", "references", "resent-message-id"}
	dateFields = []string{"date", "resent-date"}
	urlFields  = []string{"list-help", "list-unsubscribe", "list-subscribe", "list-post", "list-owner",
		"list-archive"}
	textFields  = []string{"subject", "comments", "keywords"}
	otherFields = []string{"return-path", "received"}
)

// formsOf returns the forms that a field may have besides asRaw. nil means all.
func formsOf(field string) []form {
	switch {
	case slices.Contains(addressFields, field):
		return []form{asAddresses, asGroupedAddresses}
	case slices.Contains(idFields, field):
		return []form{asMessageIDs}
	case slices.Contains(dateFields, field):
		return []form{asDate}
	case slices.Contains(urlFields, field):
		return []form{asURLs}
	case slices.Contains(textFields, field):
		return []form{asText}
	case slices.Contains(otherFields, field):
		return []form{}
	}
	return nil
}

// header is a property that stands for a header field: header:Name:asForm:all.
type header struct {
	property string // as requested
	name     string
	form     form
	all      bool
}

// parseHeader parses the name of a header: property.
//
// Implements: RFC 8621 §4.1.3 header:{header-field-name}
func parseHeader(property string) (h header, ok bool) {
	rest, ok := strings.CutPrefix(property, "header:")
	if !ok {
		return h, false
	}
	h.property = property
	h.name, rest, _ = strings.Cut(rest, ":")
	if !fieldName(h.name) {
		return h, false
	}
	if f, more, _ := strings.Cut(rest, ":"); strings.HasPrefix(f, "as") {
		if h.form, ok = forms[f]; !ok {
			return h, false
		}
		rest = more
	}
	if rest == "all" {
		h.all, rest = true, ""
	}
	if rest != "" || strings.HasSuffix(property, ":") {
		return h, false
	}
	if may := formsOf(strings.ToLower(h.name)); h.form != asRaw && may != nil && !slices.Contains(may, h.form) {
		return h, false
	}
	return h, true
}

// fieldName reports whether a string is a valid header field name (RFC 5322 section 3.6.8).
func fieldName(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == ':' {
			return false
		}
	}
	return s != "" && len(s) < 256
}

// resent reports whether summaries contain the field. They do so that lists can show who resent a message.
func (h *header) resent() bool {
	return strings.EqualFold(h.name, "Resent-From") || strings.EqualFold(h.name, "Resent-Sender")
}

// append appends the property's value: the last field of that name, or all of them.
func (h *header) append(dst []byte, block []byte) []byte {
	if h.all {
		dst = append(dst, '[')
		first := true
		for f := range mime.Fields(block) {
			if f.Is(h.name) {
				if !first {
					dst = append(dst, ',')
				}
				first = false
				dst = h.form.append(dst, f.Value)
			}
		}
		return append(dst, ']')
	}
	var last []byte
	found := false
	for f := range mime.Fields(block) {
		if f.Is(h.name) {
			last, found = f.Value, true
		}
	}
	if !found {
		return append(dst, "null"...)
	}
	return h.form.append(dst, last)
}

// append appends a field's value in this form.
func (f form) append(dst, value []byte) []byte {
	switch f {
	case asText:
		return appendWords(dst, []byte(mime.Unfold(value)))
	case asAddresses:
		return appendAddressList(dst, mime.ParseAddressList(value))
	case asGroupedAddresses:
		return appendGroups(dst, mime.ParseAddressList(value))
	case asMessageIDs:
		return appendMessageIDs(dst, mime.Unfold(value))
	case asDate:
		return appendMailDate(dst, mime.Unfold(value))
	case asURLs:
		return appendURLs(dst, mime.Unfold(value))
	}
	return appendRaw(dst, value)
}

// appendRaw appends the octets of a value with its folding, but without NULs.
//
// Implements: RFC 8621 §4.1.2.1 Raw
func appendRaw(dst, value []byte) []byte {
	s := string(value)
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return jmap.AppendString(dst, s)
}

func appendAddress(dst []byte, a *mime.Address) []byte {
	dst = append(dst, `{"name":`...)
	if a.Name != "" {
		dst = appendWords(dst, []byte(a.Name))
	} else {
		dst = append(dst, "null"...)
	}
	email := a.Mailbox
	if a.Host != "" {
		email += "@" + a.Host
	}
	return append(jmap.AppendString(append(dst, `,"email":`...), email), '}')
}

func appendAddressList(dst []byte, list []mime.Address) []byte {
	dst = append(dst, '[')
	first := true
	for i := range list {
		if list[i].Group {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendAddress(dst, &list[i])
	}
	return append(dst, ']')
}

// appendGroups appends EmailAddressGroup objects. Consecutive addresses outside any group form one group without a
// name.
//
// Implements: RFC 8621 §4.1.2.4 GroupedAddresses
func appendGroups(dst []byte, list []mime.Address) []byte {
	dst = append(dst, '[')
	groups, open, members := 0, false, 0
	begin := func(name string) {
		if groups > 0 {
			dst = append(dst, ',')
		}
		groups++
		dst = append(dst, `{"name":`...)
		if name == "" {
			dst = append(dst, "null"...)
		} else {
			dst = appendWords(dst, []byte(name))
		}
		dst = append(dst, `,"addresses":[`...)
		open, members = true, 0
	}
	end := func() {
		if open {
			dst = append(dst, "]}"...)
		}
		open = false
	}
	for i := range list {
		a := &list[i]
		switch {
		case a.Group && a.Mailbox != "":
			end()
			begin(a.Mailbox)
			continue
		case a.Group:
			end()
			continue
		case !open:
			begin("")
		}
		if members > 0 {
			dst = append(dst, ',')
		}
		members++
		dst = appendAddress(dst, a)
	}
	end()
	return append(dst, ']')
}

// appendURLs appends the URLs of a List- field, or null if there is none.
//
// Implements: RFC 8621 §4.1.2.7 asURLs
func appendURLs(dst []byte, s string) []byte {
	var urls []string
	for i := 0; len(urls) < maxIDs; {
		i = skipBlanks(s, i)
		if i < len(s) && s[i] == ',' {
			i++
			continue
		}
		if i >= len(s) || s[i] != '<' {
			break
		}
		n := strings.IndexByte(s[i:], '>')
		if n < 0 {
			break
		}
		urls = append(urls, strings.TrimSpace(s[i+1:i+n]))
		i += n + 1
	}
	if urls == nil {
		return append(dst, "null"...)
	}
	return jmap.AppendStrings(dst, urls)
}

// appendHeaders appends all fields of a header block in order, as EmailHeader objects.
func appendHeaders(dst, block []byte) []byte {
	dst = append(dst, '[')
	first := true
	for f := range mime.Fields(block) {
		if len(f.Name) == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = jmap.AppendBytes(append(dst, `{"name":`...), f.Name)
		dst = append(appendRaw(append(dst, `,"value":`...), f.Value), '}')
	}
	return append(dst, ']')
}
