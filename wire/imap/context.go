package imap

// CancelUpdate holds the arguments of CANCELUPDATE (RFC 5267): the tags of searches to stop updating.
type CancelUpdate struct{ Tags []string }

// ContextChange is one change of the result of an updated search: messages added or removed at a position. Position
// counts from 1; 0 means mailbox order.
type ContextChange struct {
	Position uint32
	Messages Set
}

func (p *parser) cancelUpdate() any {
	c := &CancelUpdate{}
	for p.err == nil {
		if p.peek() != '"' {
			p.fail("Expected a tag in quotes")
			return c
		}
		if c.Tags = append(c.Tags, p.quoted()); len(c.Tags) > p.limits.Items {
			p.fail("Too many tags")
		}
		if !p.try(' ') || p.end() {
			break
		}
	}
	return c
}

func appendCancelUpdate(dst []byte, c *CancelUpdate) []byte {
	for i, tag := range c.Tags {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = AppendString(dst, tag, true)
	}
	return dst
}

// AppendContextChange prints an ESEARCH response with ADDTO or REMOVEFROM for the search with a tag.
func AppendContextChange(dst []byte, tag string, uid bool, verb string, changes []ContextChange) []byte {
	dst = append(AppendString(append(dst, "* ESEARCH (TAG "...), tag, false), ')')
	if uid {
		dst = append(dst, " UID"...)
	}
	dst = append(append(dst, ' '), verb...)
	for i := range changes {
		if i == 0 {
			dst = append(dst, " ("...)
		} else {
			dst = append(dst, ' ')
		}
		dst = appendUint(dst, uint64(changes[i].Position))
		dst = AppendSet(append(dst, ' '), changes[i].Messages)
	}
	return append(dst, ")\r\n"...)
}
