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

// A message over NATS is encrypted from server to server (AES-256-GCM) with the keys of the link that the asker opened.
// So other users of that NATS can neither read nor forge one. Its format is
//
//	version (1) · kind (1) · link (8) · number (8) · encrypted part
//
// The number counts the messages of the link and is the nonce. An answer has the number of its request and the key of
// the other direction. The first four fields are authenticated as additional data.
const (
	messageVersion = 1
	headBytes      = 18
	sealBytes      = 16

	kindAsk    = 1 // time left in ms (4 bytes, 0: no deadline) · length of verb (1) · verb · body
	kindTell   = 2 // the same format, without an answer
	kindAnswer = 3 // status (1) · body, or length of code (1) · code · text, or nothing

	statusDone    = 0
	statusRefused = 1
	statusLate    = 2 // the handler stopped at the asker's deadline
	statusClosing = 3 // the handler stopped because its server closes

	// maxMessage is the maximum size of a message.
	maxMessage = headBytes + 4 + 1 + bus.MaxVerb + bus.MaxBody + sealBytes
)

var (
	errMessage = errors.New("malformed message")
	errSeal    = errors.New("message seal does not match its sender")
	errReplay  = errors.New("replayed message")
)

// linkID identifies a link in messages.
type linkID [8]byte

// messageHead is the part of a message that is not encrypted.
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

// append starts a message; the caller appends the part to encrypt.
func (h messageHead) append(to []byte) []byte {
	to = append(to, messageVersion, h.kind)
	to = append(to, h.link[:]...)
	return binary.BigEndian.AppendUint64(to, h.number)
}

// cipherOf returns the cipher of one direction of a link.
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

// seal encrypts a message in place.
func seal(c cipher.AEAD, m []byte) []byte {
	return c.Seal(m[:headBytes], nonce(m), m[headBytes:], m[:headBytes])
}

// unseal decrypts a message in place and returns the decrypted part.
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

// parseAnswer returns the body of an answer, or the error that it holds.
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

// window records the numbers received over a link and accepts each number once. It rejects numbers that are 1,024 or
// more below the greatest.
type window struct {
	greatest uint64
	seen     [16]uint64 // ring of bits for the greatest 1,024 numbers
}

const windowBits = 1024

// take records n and reports whether it was new.
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

// seals holds the ciphers of a link, one for each direction.
type seals struct{ ask, answer cipher.AEAD }

func sealsOf(k direct.Keys) (s seals, err error) {
	if s.ask, err = cipherOf(k.Ask); err != nil {
		return s, err
	}
	s.answer, err = cipherOf(k.Answer)
	return s, err
}
