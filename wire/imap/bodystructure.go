package imap

import "doublet/wire/mime"

// AppendBodyStructure prints BODYSTRUCTURE (RFC 9051 section 7.5.2) of a message.
func AppendBodyStructure(dst []byte, p *mime.Part) []byte { return appendPart(dst, p, true) }

// AppendBody prints BODY, which is BODYSTRUCTURE without extension data.
func AppendBody(dst []byte, p *mime.Part) []byte { return appendPart(dst, p, false) }

func appendPart(dst []byte, p *mime.Part, extended bool) []byte {
	dst = append(dst, '(')
	if p.IsMultipart() {
		return append(appendMultipart(dst, p, extended), ')')
	}
	kind, subtype := p.Type, p.Subtype
	if kind == "message" && (subtype == "rfc822" || subtype == "global") && !p.IsMessage() {
		// Its structure exceeds the depth limit, and the grammar requires a structure for every message.
		kind, subtype = "application", "octet-stream"
	}
	dst = AppendString(dst, kind, false)
	dst = append(dst, ' ')
	dst = AppendString(dst, subtype, false)
	dst = append(dst, ' ')
	dst = appendParams(dst, p.Params)
	dst = append(dst, ' ')
	dst = AppendNString(dst, p.ID, p.ID != "", false)
	dst = append(dst, ' ')
	dst = AppendNString(dst, p.Description, p.Description != "", false)
	dst = append(dst, ' ')
	dst = AppendString(dst, p.Encoding, false)
	dst = append(dst, ' ')
	dst = appendUint(dst, uint64(max(0, p.BodyEnd-p.BodyStart)))
	switch {
	case kind == "text":
		dst = append(dst, ' ')
		dst = appendUint(dst, uint64(max(0, p.Lines)))
	case p.IsMessage():
		child := p.Children[0]
		dst = append(dst, ' ')
		dst = AppendEnvelope(dst, child.Envelope)
		dst = append(dst, ' ')
		dst = appendPart(dst, child, extended)
		dst = append(dst, ' ')
		dst = appendUint(dst, uint64(max(0, p.Lines)))
	}
	if extended {
		dst = append(dst, ' ')
		dst = AppendNString(dst, p.MD5, p.MD5 != "", false)
		dst = appendExtension(dst, p)
	}
	return append(dst, ')')
}

func appendMultipart(dst []byte, p *mime.Part, extended bool) []byte {
	for _, c := range p.Children {
		dst = appendPart(dst, c, extended)
	}
	if len(p.Children) == 0 {
		// The grammar requires a part; clients show this one as an empty text.
		dst = append(dst, `("text" "plain" NIL NIL NIL "7bit" 0 0`...)
		if extended {
			dst = append(dst, " NIL NIL NIL NIL"...)
		}
		dst = append(dst, ')')
	}
	dst = append(dst, ' ')
	dst = AppendString(dst, p.Subtype, false)
	if extended {
		dst = append(dst, ' ')
		dst = appendParams(dst, p.Params)
		dst = appendExtension(dst, p)
	}
	return dst
}

// appendExtension prints disposition, language and location.
func appendExtension(dst []byte, p *mime.Part) []byte {
	dst = append(dst, ' ')
	if p.Disposition == "" {
		dst = append(dst, "NIL "...)
	} else {
		dst = append(dst, '(')
		dst = AppendString(dst, p.Disposition, false)
		dst = append(dst, ' ')
		dst = appendParams(dst, p.DispositionParams)
		dst = append(dst, ") "...)
	}
	switch len(p.Language) {
	case 0:
		dst = append(dst, "NIL"...)
	case 1:
		dst = AppendString(dst, p.Language[0], false)
	default:
		for i, l := range p.Language {
			dst = append(dst, " ("[b2i(i == 0)])
			dst = AppendString(dst, l, false)
		}
		dst = append(dst, ')')
	}
	dst = append(dst, ' ')
	return AppendNString(dst, p.Location, p.Location != "", false)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func appendParams(dst []byte, params []mime.Param) []byte {
	if len(params) == 0 {
		return append(dst, "NIL"...)
	}
	for i := range params {
		dst = append(dst, " ("[b2i(i == 0)])
		dst = AppendString(dst, params[i].Name, false)
		dst = append(dst, ' ')
		dst = AppendString(dst, params[i].Value, false)
	}
	return append(dst, ')')
}
