package mime

import "strings"

// ThreadIDs are the ids that threads are made of (RFC 5256 section 3, REFERENCES): the message's own, "" where
// it has none, and its references, the oldest first: those of References, else the first of In-Reply-To. Quotes
// are taken away, so that both ways to write an id are the same.
func ThreadIDs(e *Envelope) (own string, references []string) {
	own = plainID(firstID(e.MessageID))
	references = e.References
	if len(references) == 0 {
		references = messageIDs(e.InReplyTo, 1)
	}
	for i, id := range references {
		if p := plainID(id); p != id {
			references = append([]string(nil), references...) // the envelope's own stay as they are
			for k := i; k < len(references); k++ {
				references[k] = plainID(references[k])
			}
			break
		}
	}
	return own, references
}

// plainID takes the quotes out of a message id.
func plainID(id string) string {
	if strings.IndexByte(id, '"') < 0 {
		return id
	}
	var b strings.Builder
	for i := 0; i < len(id); i++ {
		switch id[i] {
		case '"':
		case '\\':
			if i++; i < len(id) {
				b.WriteByte(id[i])
			}
		default:
			b.WriteByte(id[i])
		}
	}
	return b.String()
}
