package reports

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"doublet/env"
)

// TestLetters checks the limits of the messages that wait for a reader: their number and length, and those of one
// organization. Messages are copied, read in order, one at a time, and the reader ends.
func TestLetters(t *testing.T) {
	t.Parallel()
	e := env.Test(t).Env
	gate, reading := make(chan struct{}), make(chan string)
	var read []string
	q := newLetters(e, func(_ context.Context, l *letter) {
		reading <- l.from
		<-gate
		read = append(read, string(l.message[:min(len(l.message), 10)]))
	})
	text := []byte("first")
	if !q.add(text, "a") {
		t.Fatal("the first message has no room")
	}
	copy(text, "xxxxx")
	<-reading // it counts until it is read
	for i := 1; i < maxLettersOf; i++ {
		if !q.add(fmt.Append(nil, i), "a") {
			t.Errorf("message %d of a sender has no room", i)
		}
	}
	if q.add([]byte("x"), "a") {
		t.Error("a sender has no limit")
	}
	if q.add(make([]byte, maxLetter+1), "b") {
		t.Error("a message has no limit")
	}
	for i := range maxLettersLength/maxLetter - 1 {
		if !q.add(make([]byte, maxLetter), fmt.Sprintf("b%d", i)) {
			t.Errorf("%d MB have no room", (i+1)*maxLetter>>20)
		}
	}
	if q.add(make([]byte, maxLetter), "c") {
		t.Error("the length of all messages has no limit")
	}
	n := len(q.list)
	for q.add(nil, fmt.Sprint(n/4)) {
		n++
	}
	if n != maxLetters {
		t.Errorf("%d messages wait", n)
	}
	ended, cancel := context.WithCancel(bg)
	cancel()
	if err := q.close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("close while messages wait: %v", err)
	}
	if q.add(nil, "d") {
		t.Error("a closed queue takes a message")
	}
	gate <- struct{}{}
	for range n - 1 {
		<-reading
		gate <- struct{}{}
	}
	if err := q.close(bg); err != nil {
		t.Fatal(err)
	}
	if len(read) != n || read[0] != "first" || read[1] != "1" || q.length != 0 || len(q.of) != 0 {
		t.Errorf("%d messages were read: %.10q; left: %d bytes, %v", len(read), read, q.length, q.of)
	}
	q.closed = false
	if !q.add([]byte("again"), "a") {
		t.Error("a message after the reader ended has no room")
	}
	<-reading
	gate <- struct{}{}
	if err := q.wait(bg); err != nil || read[n] != "again" {
		t.Errorf("%v, %q", err, read[n:])
	}
}

// TestLettersOfOneOrganization checks that one organization cannot keep out the reports of others: not by the length of
// its messages, not by its subdomains. Its share is free again when its messages are read.
func TestLettersOfOneOrganization(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	q := newLetters(env.Test(t).Env, func(context.Context, *letter) { <-gate })
	large := make([]byte, maxLettersLengthOf/2)
	for i := range maxLettersLength / len(large) {
		from := fmt.Sprintf("a%d.evil.example", i)
		if room := q.add(large, from); room != (i < 2) {
			t.Errorf("large message %d, from %s, has room: %v", i, from, room)
		}
	}
	if !q.add(large, "good.example") {
		t.Error("messages of one organization keep out another")
	}
	small := 0
	for i := range maxLetters {
		if q.add(nil, fmt.Sprintf("a%d.poor.example", i)) {
			small++
		}
	}
	if small != maxLettersOf {
		t.Errorf("%d small messages of one organization wait", small)
	}
	close(gate)
	if err := q.wait(bg); err != nil || len(q.of) != 0 {
		t.Errorf("%v, left: %v", err, q.of)
	}
	if !q.add(large, "a9.evil.example") {
		t.Error("the share of an organization is not free after its messages are read")
	}
	if err := q.close(bg); err != nil {
		t.Error(err)
	}
}
