package natsbus

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"doublet/bus"
	"doublet/bus/direct"
)

// A message over NATS is sealed from server to server (AES-256-GCM) under the keys of the link that the
// asker made, so that whoever else is on that NATS can neither read nor make one. It is
//
//	version (1) · kind (1) · link (8) · number (8) · what is sealed
//
// The number counts what goes over the link and is the nonce; an answer has the number of its question and
// the key of the other direction. The head is authenticated with the rest.
const (
	messageVersion = 1
	headBytes      = 18
	sealBytes      = 16

	kindAsk    = 1 // time left in ms (4, 0: no end) · verb with its length (1) · body
	kindTell   = 2 // the same, and nobody waits
	kindAnswer = 3 // status (1) · body, or code with its length (1) and text, or nothing

	statusDone    = 0
	statusRefused = 1
	statusLate    = 2 // the handler stopped when the asker's time was over
	statusClosing = 3 // it stopped because its server stops

	// maxMessage is the largest message.
	maxMessage = headBytes + 4 + 1 + bus.MaxVerb + bus.MaxBody + sealBytes
)

var (
	errMessage = errors.New("a message that is none")
	errSeal    = errors.New("a message that is not of whom it says")
	errReplay  = errors.New("a message that has come before")
)

// linkID names a link in messages.
type linkID [8]byte

// messageHead is the part of a message that is not sealed.
type messageHead struct {
	kind   byte
	link   linkID
	number uint64
}

func parseHead(m []byte) (h messageHead, err error) {
	if len(m) < headBytes+sealBytes || m[0] != messageVersion || len(m) > maxMessage {
		return h, errMessage
	}
	h.kind, h.number = m[1], binary.BigEndian.Uint64(m[10:])
	copy(h.link[:], m[2:])
	return h, nil
}

// appendHead begins a message; what is to be sealed is appended to it.
func (h messageHead) append(to []byte) []byte {
	to = append(to, messageVersion, h.kind)
	to = append(to, h.link[:]...)
	return binary.BigEndian.AppendUint64(to, h.number)
}

// cipherOf makes the seal of one direction of a link.
func cipherOf(key [32]byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func nonce(m []byte) []byte {
	n := make([]byte, 12)
	copy(n[4:], m[10:headBytes])
	return n
}

// seal seals a message in its place.
func seal(c cipher.AEAD, m []byte) []byte {
	return c.Seal(m[:headBytes], nonce(m), m[headBytes:], m[:headBytes])
}

// unseal opens one in its place.
func unseal(c cipher.AEAD, m []byte) ([]byte, error) {
	plain, err := c.Open(m[headBytes:headBytes], nonce(m), m[headBytes:], m[:headBytes])
	if err != nil {
		return nil, errSeal
	}
	return plain, nil
}

func appendAsk(to []byte, left time.Duration, verb string, body []byte) []byte {
	ms := uint32(0)
	if left > 0 {
		ms = uint32(min(max(left.Milliseconds(), 1), 1<<31))
	}
	to = binary.BigEndian.AppendUint32(to, ms)
	to = append(to, byte(len(verb)))
	to = append(to, verb...)
	return append(to, body...)
}

func parseAsk(p []byte) (left time.Duration, verb string, body []byte, err error) {
	if len(p) < 5 || p[4] > bus.MaxVerb || len(p) < 5+int(p[4]) {
		return 0, "", nil, errMessage
	}
	n := 5 + int(p[4])
	if body = p[n:]; len(body) > bus.MaxBody {
		return 0, "", nil, errMessage
	}
	return time.Duration(binary.BigEndian.Uint32(p)) * time.Millisecond, string(p[5:n]), body, nil
}

func appendDone(to, body []byte) []byte {
	return append(append(to, statusDone), body...)
}

func appendRefusal(to []byte, code, text string) []byte {
	to = append(to, statusRefused, byte(len(code)))
	return append(append(to, code...), text...)
}

// parseAnswer gives the body of an answer, or the refusal that it is.
func parseAnswer(p []byte, server bus.ServerID, verb string) ([]byte, error) {
	switch {
	case len(p) >= 1 && p[0] == statusDone:
		return p[1:], nil
	case len(p) >= 2 && p[0] == statusRefused && len(p) >= 2+int(p[1]):
		n := 2 + int(p[1])
		return nil, &bus.RemoteError{Server: server, Verb: verb, Code: string(p[2:n]), Text: string(p[n:])}
	case len(p) == 1 && p[0] == statusLate:
		return nil, fmt.Errorf("%s: %w of server %s: %w", verb, bus.ErrNoAnswer, server, context.DeadlineExceeded)
	case len(p) == 1 && p[0] == statusClosing:
		return nil, fmt.Errorf("%s: %w of server %s: it stops", verb, bus.ErrNoAnswer, server)
	}
	return nil, fmt.Errorf("%w: the answer of server %s: %w", bus.ErrNoAnswer, server, errMessage)
}

// window knows which numbers of a link have come: each is taken once. Those that lie far behind the
// greatest count as taken.
type window struct {
	greatest uint64
	seen     [16]uint64 // a ring of bits for the greatest 1,024
}

const windowBits = 1024

// take says whether the number comes for the first time.
func (w *window) take(n uint64) bool {
	switch {
	case n == 0 || n+windowBits <= w.greatest:
		return false
	case n > w.greatest:
		for gone := w.greatest + 1; gone < n && gone <= w.greatest+windowBits; gone++ {
			w.clear(gone)
		}
		w.clear(n)
		w.greatest = n
	}
	word, bit := &w.seen[n/64%16], uint64(1)<<(n%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

func (w *window) clear(n uint64) { w.seen[n/64%16] &^= 1 << (n % 64) }

// seals are those of a link, from the side of whoever asks over it or answers.
type seals struct{ ask, answer cipher.AEAD }

func sealsOf(k direct.Keys) (s seals, err error) {
	if s.ask, err = cipherOf(k.Ask); err != nil {
		return s, err
	}
	s.answer, err = cipherOf(k.Answer)
	return s, err
}
