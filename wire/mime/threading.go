package mime

import "strings"

// ThreadIDs returns the IDs for threading (RFC 5256 section 3, REFERENCES): the message's own ID, "" if it has none,
// and its references, the oldest first. The references come from References or, without it, from the first ID of
// In-Reply-To. Quotes are removed, so that both spellings of an ID are equal.
func ThreadIDs(e *Envelope) (own string, references []string) {
	own = plainID(firstID(e.MessageID))
	references = e.References
	if len(references) == 0 {
		references = messageIDs(e.InReplyTo, 1)
	}
	for i, id := range references {
		if p := plainID(id); p != id {
			references = append([]string(nil), references...) // do not change the envelope
			for k := i; k < len(references); k++ {
				references[k] = plainID(references[k])
			}
			break
		}
	}
	return own, references
}

// plainID removes the quotes from a message ID.
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
