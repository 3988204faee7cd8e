package natsbus

import (
	"bytes"
	"testing"

	"doublet/bus/direct"
)

// TestMadeUpAnswers sends many forged answers before the real one, while the asker does not run. The forged answers
// must not take the real one's place, and the real one must be delivered once.
func TestMadeUpAnswers(t *testing.T) {
	t.Parallel()
	k := direct.Keys{ID: [8]byte{1}, Ask: [32]byte{2}, Answer: [32]byte{3}}
	s, err := sealsOf(k)
	if err != nil {
		t.Fatal(err)
	}
	w := &wait{back: make(chan []byte, 1)}
	a := &asking{seals: s, waits: map[uint64]*wait{7: w}}
	b := &Bus{}
	head := messageHead{kind: kindAnswer, link: k.ID, number: 7}
	for range 10 {
		if b.answered(a, 7, append(head.append(nil), make([]byte, 40)...)) {
			t.Fatal("it took what was made up")
		}
	}
	said := seal(s.answer, appendDone(head.append(nil), []byte("the answer")))
	again := bytes.Clone(said)
	if !b.answered(a, 7, said) {
		t.Fatal("the answer is not heard behind what was made up")
	}
	if b.answered(a, 7, again) {
		t.Error("it is heard twice")
	}
	if out, err := parseAnswer(<-w.back, [16]byte{}, "test.echo"); err != nil || string(out) != "the answer" {
		t.Errorf("%q, %v", out, err)
	}
}
