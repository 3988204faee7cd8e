package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/wire/mime"
)

// TestLargeMessage stores a message whose digest is computed beside the rest of the work, and prepares it again: it is
// found, and none of its parts is written twice.
func TestLargeMessage(t *testing.T) {
	t.Parallel()
	f := env.TestRealTime(t)
	s, err := Open(f.Env, "data", crashOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := s.CreateDatabase(note.System, Create{Title: "a", Kind: "a"})
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, digestApart)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	raw := mime.AppendBase64Lines([]byte("Content-Transfer-Encoding: base64\r\n\r\n"), data, 76, true)
	id := createMail(t, s, db, raw)
	if !bytes.Equal(readMail(t, s, db, id), raw) {
		t.Error("the message was changed")
	}
	m, err := s.Prepare(context.Background(), raw,
		mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), s.LeastObject()))
	if err != nil {
		t.Fatal(err)
	}
	if m.recipe == 0 || m.Digest != sha256.Sum256(raw) {
		t.Errorf("recipe %d, digest %s", m.recipe, m.Digest)
	}
	if len(m.objects) != 1 || m.objects[0].isNew || m.objects[0].name != sha256.Sum256(data) {
		t.Errorf("parts %+v", m.objects)
	}
	m.Release()
	for i := range s.pins.shards {
		if n := len(s.pins.shards[i].count); n != 0 {
			t.Errorf("%d digests are still pinned", n)
		}
	}
	// A part that is no canonical base64 is stored unchanged.
	at := bytes.IndexByte(raw, '\r')
	raw[at+100] = '='
	id = createMail(t, s, db, raw)
	if !bytes.Equal(readMail(t, s, db, id), raw) {
		t.Error("the message with the odd part was changed")
	}
}
