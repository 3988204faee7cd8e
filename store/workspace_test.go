package store

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"doublet/wire/mime"
)

// TestIsBase64 compares isBase64 with a full encoding, for right lines and for lines with one octet changed, added or
// left out.
func TestIsBase64(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		raw := make([]byte, 1+r.IntN(200<<10))
		for i := range raw {
			raw[i] = byte(r.Uint32())
		}
		lineLen, final := 4*(1+r.IntN(250)), r.IntN(2) == 0
		body := mime.AppendBase64Lines(nil, raw, lineLen, final)
		if !isBase64(body, raw, lineLen, final) {
			t.Fatalf("%d octets in lines of %d (final %v) are not taken for what they are", len(raw), lineLen, final)
		}
		at := r.IntN(len(body))
		changed := bytes.Clone(body)
		changed[at] ^= 1
		for name, b := range map[string][]byte{"changed": changed, "cut": body[:at],
			"longer": append(bytes.Clone(body), 'A')} {
			if isBase64(b, raw, lineLen, final) {
				t.Fatalf("%d octets in lines of %d (final %v), %s at %d, are taken for the same", len(raw), lineLen,
					final, name, at)
			}
		}
	}
}
