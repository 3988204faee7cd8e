package jmapd

import (
	gomime "mime"
	"slices"
	"strings"

	"doublet/mail/compose"
	"doublet/wire/jmap"
)

// part reads an EmailBodyPart.
func (r *emailReader) part(v *jmap.Value, property string, depth int) *compose.Part {
	p := &compose.Part{}
	if r.parts++; v.Kind() != jmap.Object || r.parts > maxNewParts || depth > maxNewDepth {
		r.fault(property)
		return p
	}
	partID, blobID, subParts := v.Get("partId"), v.Get("blobId"), v.Get("subParts")
	seen := map[string]bool{}
	for i := range v.Len() {
		if !r.partProperty(p, v.Name(i), v.At(i), seen) {
			r.fault(property + "/" + v.Name(i))
		}
	}
	switch {
	case p.Type == "multipart":
		if subParts.Kind() != jmap.Array || subParts.Len() == 0 || !partID.IsNull() || !blobID.IsNull() {
			r.fault(property)
			return p
		}
		for i := range subParts.Len() {
			p.Children = append(p.Children, r.part(subParts.At(i), property, depth+1))
		}
	case subParts.Len() > 0, partID.IsNull() == blobID.IsNull():
		r.fault(property)
	case !partID.IsNull():
		r.value(p, partID, property, v)
	default:
		r.attach(p, blobID, property)
	}
	return p
}

// partFieldOf maps the properties of a part to the header fields that they stand for.
var partFieldOf = map[string]string{
	"type": "content-type", "charset": "content-type", "disposition": "content-disposition", "cid": "content-id",
	"location": "content-location", "language": "content-language",
}

// partProperty reads one property of a part. It returns false if the value is not valid. seen holds the header fields
// that other properties of the part stand for: two properties must not stand for the same field.
func (r *emailReader) partProperty(p *compose.Part, name string, v *jmap.Value, seen map[string]bool) bool {
	switch name {
	case "partId", "blobId", "subParts", "size":
		return true
	}
	field, known := partFieldOf[name]
	if h, ok := parseHeader(name); ok {
		field = strings.ToLower(h.name)
		known = seen[field]
		seen[field] = true
		return !known && r.partHeader(p, &h, v)
	}
	if known && !v.IsNull() && name != "charset" {
		if seen[field] {
			return false
		}
		seen[field] = true
	}
	return readPartProperty(p, name, v)
}

// readPartProperty reads a property of a part that is not a header: property.
func readPartProperty(p *compose.Part, name string, v *jmap.Value) (ok bool) {
	text, isText := v.Text()
	plain := v.IsNull() || isText && !strings.ContainsAny(text, "\r\n\x00") && len(text) <= 900
	switch name {
	case "type":
		return v.IsNull() || isText && setType(p, strings.ToLower(text))
	case "charset":
		if isText {
			p.Charset = text
		}
		return v.IsNull() || compose.Token(text)
	case "disposition":
		if isText {
			p.Disposition = strings.ToLower(text)
		}
		return v.IsNull() || compose.Token(text)
	case "name":
		if isText {
			p.Name = text
		}
		return plain
	case "cid":
		p.ID = text
		return plain && !strings.ContainsAny(text, "<> ")
	case "location":
		p.Location = text
		return plain && compose.ASCII(text)
	case "language":
		if v.IsNull() {
			return true
		}
		list, ok := texts(v)
		return ok && setLanguage(p, list)
	}
	return false
}

func setType(p *compose.Part, text string) bool {
	kind, subtype, slash := strings.Cut(text, "/")
	p.Type, p.Subtype = kind, subtype
	return slash && compose.Token(kind) && compose.Token(subtype)
}

func setLanguage(p *compose.Part, list []string) bool {
	p.Language = list
	return !slices.ContainsFunc(list, func(l string) bool { return !compose.Token(l) })
}

// partHeader reads a header: property of a part. Content- fields that have a property of their own set that property.
// Content-Transfer-Encoding is rejected, because the server chooses the encoding.
//
// Implements: RFC 8621 §4.6 header fields of body parts
func (r *emailReader) partHeader(p *compose.Part, h *header, v *jmap.Value) bool {
	lower := strings.ToLower(h.name)
	fields, ok := readFields(h, v)
	switch {
	case !ok || lower == "content-transfer-encoding" || len(p.Fields)+len(fields) > maxNewFields:
		return false
	case len(fields) == 0:
		return true
	case !strings.HasPrefix(lower, "content-"):
		p.Fields = append(p.Fields, fields...)
		return true
	}
	text := strings.Join(fields[0].Words, " ")
	if fields[0].Words == nil {
		text = strings.TrimSpace(strings.NewReplacer("\r\n", "", "\n", "").Replace(fields[0].Raw))
	}
	set := contentFields[lower]
	if set == nil {
		p.Fields = append(p.Fields, fields...)
		return true
	}
	return len(fields) == 1 && set(p, text)
}

// contentFields maps the Content- fields that have a property of their own to the functions that set it.
var contentFields = map[string]func(p *compose.Part, text string) bool{
	"content-type":        setContentType,
	"content-disposition": setDisposition,
	"content-id": func(p *compose.Part, text string) bool {
		p.ID = strings.TrimSuffix(strings.TrimPrefix(text, "<"), ">")
		return p.ID != "" && !strings.ContainsAny(p.ID, "<> \t")
	},
	"content-location": func(p *compose.Part, text string) bool {
		p.Location = text
		return compose.ASCII(text) && len(text) <= 900
	},
	"content-language": func(p *compose.Part, text string) bool {
		list := strings.Split(text, ",")
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		return setLanguage(p, list)
	},
}

// setContentType parses a Content-Type field. It ignores the boundary, which the server chooses.
func setContentType(p *compose.Part, text string) bool {
	kind, params, err := gomime.ParseMediaType(text)
	if err != nil || !setType(p, kind) {
		return false
	}
	if p.Charset == "" && compose.Token(params["charset"]) {
		p.Charset = params["charset"]
	}
	delete(params, "boundary")
	delete(params, "charset")
	p.Params = params
	return true
}

// setDisposition parses a Content-Disposition field. It accepts no parameter but filename.
func setDisposition(p *compose.Part, text string) bool {
	kind, params, err := gomime.ParseMediaType(text)
	if name, ok := params["filename"]; ok && p.Name == "" {
		p.Name = name
	}
	delete(params, "filename")
	p.Disposition = kind
	return err == nil && compose.Token(kind) && len(params) == 0
}

// raise moves the header fields of the root part into the message's header, except Content- fields. No field may be
// given twice.
func (r *emailReader) raise(root *compose.Part) {
	var own []compose.Field
	mine := map[string]bool{}
	for _, f := range root.Fields {
		lower := strings.ToLower(f.Name)
		switch {
		case strings.HasPrefix(lower, "content-"):
			own = append(own, f)
		case r.seen[lower] && !mine[lower]:
			r.fault("header:" + f.Name)
		default:
			r.seen[lower], mine[lower] = true, true
			r.fields = append(r.fields, f)
		}
	}
	root.Fields = own
}

// value sets the content of a part from bodyValues: text, or for any other type the octets of the string.
func (r *emailReader) value(p *compose.Part, partID *jmap.Value, property string, v *jmap.Value) {
	id, _ := partID.Text()
	value := r.values.Get(id)
	text, ok := value.Get("value").Text()
	for _, flag := range []string{"isEncodingProblem", "isTruncated"} {
		on, isBool := value.Get(flag).Bool()
		ok = ok && !on && (isBool || value.Get(flag).IsNull())
	}
	if p.Type == "" {
		p.Type, p.Subtype = "text", "plain"
		if property == "htmlBody" {
			p.Subtype = "html"
		}
	}
	for _, name := range []string{"charset", "size"} {
		if !v.Get(name).IsNull() {
			r.fault(property + "/" + name)
		}
	}
	if !ok {
		r.fault("bodyValues")
	}
	r.size += int64(len(text))
	r.texts += int64(len(text))
	p.Charset = "" // texts are written as UTF-8, whatever a header field said
	if p.IsText = p.Type == "text"; p.IsText {
		p.Text = text
		return
	}
	p.Size, p.Content = int64(len(text)), func() ([]byte, error) { return []byte(text), nil }
}
