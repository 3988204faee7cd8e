package libraries

import (
	"bytes"
	"strings"
	"testing"

	theirs "github.com/emersion/go-ical"

	ours "doublet/wire/ical"
)

// object puts lines into an event.
func object(lines ...string) string {
	return "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\n" +
		strings.Join(append(lines, ""), "\r\n") + "END:VEVENT\r\nEND:VCALENDAR\r\n"
}

// TestICal reads and prints objects as mail brings them.
func TestICal(t *testing.T) {
	decode := func(text string) (c *theirs.Calendar, err error, panicked any) {
		defer func() { panicked = recover() }()
		c, err = theirs.NewDecoder(strings.NewReader(text)).Decode()
		return c, err, nil
	}
	if _, _, panicked := decode(object("X;A=b")); panicked == nil {
		t.Error("it reads a line that ends in a parameter")
	}
	if _, err, _ := decode(object("SUMMARY:Tea", "a second line of an address, as programs write it")); err == nil {
		t.Error("it reads an object with a broken line")
	}
	text := object("SUMMARY:Tea", "X-B:1", "LOCATION:here", "X-A;Q=1;B=2:2", "DESCRIPTION:"+strings.Repeat("x", 200))
	c, err, _ := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	if err := theirs.NewEncoder(&printed).Encode(c); err != nil {
		t.Fatal(err)
	}
	if printed.String() == text {
		t.Error("it keeps the order of properties and parameters, and folds lines")
	}
	for line := range strings.SplitSeq(printed.String(), "\r\n") {
		if len(line) > 75 {
			t.Logf("a line of %d bytes", len(line))
		}
	}
	for _, text := range []string{object("X;A=b"), object("SUMMARY:Tea", "a second line, as programs write it"), text} {
		c, err := ours.Parse([]byte(text), ours.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ours.Parse(ours.Append(nil, c), ours.DefaultLimits)
		if err != nil || len(again.Children[0].Properties) < 3 {
			t.Error(again, err)
		}
	}
}
