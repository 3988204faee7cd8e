package mailbox

import (
	"crypto/sha256"
	"encoding/binary"

	"doublet/wire/mime"
)

// maxReferences bounds the references of a message that threading uses: the first one and the last ones.
const maxReferences = 100

// appendThreading appends the ids that THREAD uses, as hashes of eight bytes each: the message's own id (zeros if there
// is none), then its references, oldest first.
func appendThreading(dst []byte, e *mime.Envelope) []byte {
	if e == nil {
		e = &mime.Envelope{}
	}
	own, references := mime.ThreadIDs(e)
	dst = binary.BigEndian.AppendUint64(dst, hashID(own))
	for i, id := range references {
		if i == 0 || i > len(references)-maxReferences {
			dst = binary.BigEndian.AppendUint64(dst, hashID(id))
		}
	}
	return dst
}

// hashID returns a hash of an id that is 0 only if the id is empty.
func hashID(id string) uint64 {
	if id == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(id))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// threading returns the result of appendThreading that is stored with the current message. Messages of the first
// release lack it, so threading reads their header.
func (s *search) threading() ([]byte, error) {
	b, err := s.m.field(fieldThreading)
	if err != nil || len(b) > 0 {
		return b, err
	}
	h, err := s.head()
	if err != nil {
		return nil, err
	}
	return appendThreading(nil, mime.ParseHeader(h, true).Envelope), nil
}
