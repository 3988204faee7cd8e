package groupware

import (
	"fmt"
	"strconv"
	"time"

	"doublet/calendar"
)

// span bounds the times of an entry in Unix seconds: all lie in from ≤ t < to. It is kept in the note, so that a search
// by time need not read the entries that are far away.
type span struct{ from, to int64 }

// overlaps reports whether an entry may have a time in from ≤ t < to.
func (x span) overlaps(from, to int64) bool { return x.from < to && x.to > from }

// spanSlack is left on both sides of a span, in seconds: the rules of time zones change after an entry was written, and
// clocks of two places differ.
const spanSlack = int64(28 * time.Hour / time.Second)

// spanOf returns the span of the times of an entry.
func spanOf(s *calendar.Series) span {
	from, to := s.Span()
	return span{max(from, -calendar.Always+spanSlack) - spanSlack, min(to, calendar.Always-spanSlack) + spanSlack}
}

// spanKey begins the key of a span in the index, and spanLength is the length of its text.
const (
	spanKey    = 't'
	spanLength = 32
)

// signBit is flipped so that times before 1970 sort before the others.
const signBit = 1 << 63

// text returns the form in the item of a note: two numbers of 64 bits in hexadecimal, which sort as times do.
func (x span) text() string {
	return fmt.Sprintf("%016x%016x", uint64(x.from)^signBit, uint64(x.to)^signBit)
}

// parseSpan reads the key of a span in the index.
func parseSpan(key []byte) (x span, ok bool) {
	if len(key) != 1+spanLength || key[0] != spanKey {
		return x, false
	}
	from, err := strconv.ParseUint(string(key[1:17]), 16, 64)
	if err != nil {
		return x, false
	}
	to, err := strconv.ParseUint(string(key[17:]), 16, 64)
	return span{int64(from ^ signBit), int64(to ^ signBit)}, err == nil
}
