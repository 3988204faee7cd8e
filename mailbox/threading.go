package mailbox

import (
	"crypto/sha256"
	"encoding/binary"

	"doublet/wire/mime"
)

// maxReferences bounds how many references of a message threads go by: the first, and the last ones.
const maxReferences = 100

// appendThreading appends what THREAD goes by: ids in eight bytes each of their hash, the own one first (zeros
// where there is none), then the references, the oldest first.
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

// hashID is 0 for no id alone.
func hashID(id string) uint64 {
	if id == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(id))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// threading is what appendThreading stored for the message at hand. Messages of the first release have none:
// their header is read.
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
