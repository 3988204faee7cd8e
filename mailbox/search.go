package mailbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/wire/imap"
	"doublet/wire/mime"
)

// Criteria is a search: one test, or a combination of others. The zero value matches everything.
type Criteria struct {
	Test Test
	// All, Any and Not combine: Test is TestAll, TestAny (one of All) or TestNot (not All[0]).
	All []Criteria
	// Set is of sequence numbers or UIDs.
	Set Set
	// Text is the keyword, header value, address, subject or text looked for; Name the header field.
	Name, Text string
	// Number is a size, a MODSEQ, or for TestOlder and TestYounger (RFC 5032) seconds.
	Number uint64
	// Day is the first moment of a day.
	Day time.Time
}

// Test is what one Criteria looks at.
type Test uint8

// The tests. Dates compare days, disregarding time and zone (RFC 9051 section 6.4.4).
const (
	TestEverything Test = iota
	TestAll
	TestAny
	TestNot
	TestSeq
	TestUID
	TestSeen
	TestDeleted
	TestKeyword
	TestLarger
	TestSmaller
	TestBefore
	TestOn
	TestSince
	TestSentBefore
	TestSentOn
	TestSentSince
	TestSavedBefore
	TestSavedOn
	TestSavedSince
	TestHeader
	TestFrom
	TestTo
	TestCc
	TestBcc
	TestSubject
	TestBody
	TestText
	TestModSeq
	TestEmailID
	TestThreadID
	TestOlder
	TestYounger
)

// Match is a message found.
type Match struct {
	Seq, UID uint32
	ModSeq   uint64
}

// maxDecoded bounds the text of one part that a search decodes.
const maxDecoded = 8 << 20

// ErrLimit says that a search, a sort or a thread would take more memory than there is for it.
var ErrLimit = errors.New("too many messages for one answer")

// SearchOptions say how a search goes about it; the zero value is right where nobody waits.
type SearchOptions struct {
	// Tell, where it is set, is called about every Every with the number of messages looked at and an upper
	// bound of all, outside of any read of the store: it may wait for a client. Its error ends the search.
	Tell  func(done, all uint32) error
	Every time.Duration
	// Room, where it is set, is asked before more memory is taken, in bytes; false ends the search with
	// ErrLimit. The caller gives back what was taken.
	Room func(bytes int64) bool
}

// roomStep is how much memory is asked for at once.
const roomStep = 64 << 10

// room counts what a search keeps.
type room struct {
	ask         func(int64) bool
	used, taken int64
}

func (r *room) take(n int) error {
	r.used += int64(n)
	for r.ask != nil && r.used > r.taken {
		if !r.ask(roomStep) {
			return ErrLimit
		}
		r.taken += roomStep
	}
	return nil
}

const matchSize = 16 // bytes of a Match

// Search returns the messages of the view that match, in order of UID.
func (v *View) Search(ctx context.Context, c *Criteria, o SearchOptions) ([]Match, error) {
	var out []Match
	mem := room{ask: o.Room}
	err := v.scan(ctx, c, o, func(s *search) error {
		out = append(out, s.found())
		return mem.take(matchSize)
	})
	return out, err
}

// scan calls fn for the messages of the view that match, in order of UID. When it is time to tell how far it is
// it leaves the read, and goes on behind the last message: numbers keep their meaning, as the view does not
// move meanwhile.
func (v *View) scan(ctx context.Context, c *Criteria, o SearchOptions, fn func(*search) error) error {
	s := search{v: v, ctx: ctx, now: v.f.svc.env.Clock.Now(), sets: map[*Criteria][]Range{}, needles: map[*Criteria]mime.Needle{}}
	last, done := s.now, uint32(0)
	ranges, all, err := s.begin(c)
	for len(ranges) > 0 && err == nil {
		var rest []Range
		err = v.f.read(ctx, func(r *store.Reader) error {
			s.r = r
			return v.each(r, ranges, func(seq, uid uint32, id note.ID) (bool, error) {
				if err := s.look(c, seq, uid, id, fn); err != nil {
					return false, err
				}
				if done++; o.Tell == nil || done%16 != 0 {
					return true, nil
				}
				if now := v.f.svc.env.Clock.Now(); now.Sub(last) >= o.Every {
					last, rest = now, behind(ranges, uid)
					return false, nil
				}
				return true, nil
			})
		})
		if err == nil && len(rest) > 0 {
			err = o.Tell(done, max(done, all))
		}
		ranges = rest
	}
	return err
}

// begin prepares a search and returns the UIDs to look at, and how many messages that are at most.
func (s *search) begin(c *Criteria) (ranges []Range, all uint32, err error) {
	err = s.v.f.read(s.ctx, func(r *store.Reader) error {
		s.r = r
		if err := s.prepare(c); err != nil {
			return err
		}
		if s.v.uidNext <= 1 {
			return nil
		}
		ranges = []Range{{1, s.v.uidNext - 1}}
		if narrow, ok := s.narrow(c); ok {
			ranges = narrow
		}
		return nil
	})
	span := uint64(0)
	for _, g := range ranges {
		span += uint64(g.Stop-g.Start) + 1
	}
	return ranges, uint32(min(span, uint64(s.v.exists))), err
}

// look tests one message.
func (s *search) look(c *Criteria, seq, uid uint32, id note.ID, fn func(*search) error) error {
	row, err := s.r.Note(id)
	if err != nil {
		return ignoreGone(err)
	}
	s.m = Message{Seq: seq, UID: uid, ID: id, v: s.v, r: s.r, row: row}
	s.reset()
	ok, err := s.match(c)
	if ok && err == nil {
		err = fn(s)
	}
	return errors.Join(err, s.ctx.Err())
}

// found is the message at hand.
func (s *search) found() Match { return Match{s.m.Seq, s.m.UID, uint64(s.m.row.Mod)} }

// search evaluates criteria for one message after the other; what one test has read of a message
// the next one finds.
type search struct {
	v       *View
	r       *store.Reader
	ctx     context.Context
	now     time.Time // when the search began
	sets    map[*Criteria][]Range
	needles map[*Criteria]mime.Needle

	m        Message
	envelope *mime.Envelope
	raw      []byte
	texts    []string
	header   []byte
}

func (s *search) reset() { s.envelope, s.raw, s.texts, s.header = nil, nil, nil, nil }

// prepare turns sets into UIDs and strings into folded needles, once.
func (s *search) prepare(c *Criteria) error {
	switch c.Test {
	case TestSeq, TestUID:
		ranges, err := s.v.uids(s.r, c.Set, c.Test == TestUID)
		if err != nil {
			return err
		}
		s.sets[c] = ranges
	case TestHeader, TestFrom, TestTo, TestCc, TestBcc, TestSubject, TestBody, TestText:
		s.needles[c] = mime.NewNeedle(c.Text)
	}
	for i := range c.All {
		if err := s.prepare(&c.All[i]); err != nil {
			return err
		}
	}
	return nil
}

// narrow finds a set that every match must lie in, so that a search of a few UIDs reads a few rows.
func (s *search) narrow(c *Criteria) ([]Range, bool) {
	if ranges, ok := s.sets[c]; ok {
		return ranges, true
	}
	if c.Test != TestAll {
		return nil, false
	}
	for i := range c.All {
		if ranges, ok := s.narrow(&c.All[i]); ok {
			return ranges, true
		}
	}
	return nil, false
}

func (s *search) match(c *Criteria) (bool, error) {
	switch c.Test {
	case TestEverything:
		return true, nil
	case TestAll, TestAny:
		for i := range c.All {
			ok, err := s.match(&c.All[i])
			if err != nil || ok == (c.Test == TestAny) {
				return ok, err
			}
		}
		return c.Test == TestAll, nil
	case TestNot:
		ok, err := s.match(&c.All[0])
		return !ok, err
	case TestSeq, TestUID:
		return inRanges(s.sets[c], s.m.UID), nil
	case TestHeader, TestFrom, TestTo, TestCc, TestBcc, TestSubject, TestBody, TestText:
		return s.matchText(c)
	}
	return s.matchRow(c), nil
}

// matchRow needs the note's row alone, except for the Date field.
func (s *search) matchRow(c *Criteria) bool {
	row := s.m.row
	mem, _ := row.Member(s.v.folder)
	switch c.Test {
	case TestSeen:
		return row.SeenBy(s.v.f.who.Person)
	case TestDeleted:
		return mem.Deleted
	case TestKeyword:
		return slices.Contains(slices.Collect(row.Keywords), c.Text)
	case TestLarger:
		return row.Size > c.Number
	case TestSmaller:
		return row.Size < c.Number
	case TestModSeq:
		return uint64(row.Mod) >= c.Number
	case TestEmailID:
		return s.m.EmailID() == c.Text
	case TestThreadID:
		return s.m.ThreadID() == c.Text
	case TestOlder:
		return s.m.row.Date <= s.now.Unix()-int64(c.Number)
	case TestYounger:
		return s.m.row.Date >= s.now.Unix()-int64(c.Number)
	case TestBefore, TestOn, TestSince:
		return matchDay(c.Test-TestBefore, s.m.Date(), c.Day)
	case TestSavedBefore, TestSavedOn, TestSavedSince:
		return matchDay(c.Test-TestSavedBefore, s.m.Saved(), c.Day)
	case TestSentBefore, TestSentOn, TestSentSince:
		e, err := s.env()
		if err != nil {
			return false
		}
		t, ok := mime.ParseDate(e.Date)
		// The day is the one that the sender wrote, whatever its zone.
		_, offset := t.Zone()
		return ok && matchDay(c.Test-TestSentBefore, t.Add(time.Duration(offset)*time.Second).UTC(), c.Day)
	}
	return false
}

// matchDay compares days: 0 before, 1 on, 2 since.
func matchDay(how Test, t, day time.Time) bool {
	d := t.Truncate(24 * time.Hour)
	switch how {
	case 0:
		return d.Before(day)
	case 1:
		return d.Equal(day)
	}
	return !d.Before(day)
}

// env reads the stored envelope.
func (s *search) env() (*mime.Envelope, error) {
	if s.envelope == nil {
		text, err := s.m.Envelope()
		if err != nil {
			return nil, err
		}
		if s.envelope, err = imap.ParseEnvelope(text); err != nil {
			return nil, err
		}
	}
	return s.envelope, nil
}

func (s *search) matchText(c *Criteria) (bool, error) {
	n := s.needles[c]
	switch c.Test {
	case TestBody, TestText:
		return s.matchBody(n, c.Test == TestText)
	case TestHeader:
		return s.matchHeader(c.Name, c.Text, n)
	}
	e, err := s.env()
	if err != nil {
		return false, err
	}
	switch c.Test {
	case TestSubject:
		return e.Has&mime.HasSubject != 0 && n.In(mime.DecodeWords(e.Subject)), nil
	case TestFrom:
		return addressed(e.From, n), nil
	case TestTo:
		return addressed(e.To, n), nil
	case TestCc:
		return addressed(e.Cc, n), nil
	}
	return addressed(e.Bcc, n), nil
}

func addressed(list []mime.Address, n mime.Needle) bool {
	for _, a := range list {
		var b strings.Builder
		if a.Name != "" {
			b.WriteString(mime.DecodeWords(a.Name))
			b.WriteByte(' ')
		}
		b.WriteString("<" + a.Mailbox + "@" + a.Host + ">")
		if n.In(b.String()) {
			return true
		}
	}
	return false
}

func (s *search) message() ([]byte, error) {
	if s.raw == nil {
		st, err := s.m.Body()
		if err != nil {
			return nil, err
		}
		if s.raw, err = st.AppendRange(nil, 0, st.Size()); err != nil {
			return nil, err
		}
	}
	return s.raw, nil
}

func (s *search) head() ([]byte, error) {
	if s.header != nil {
		return s.header, nil
	}
	span, ok, err := s.m.Section(nil)
	if err != nil || !ok {
		return nil, err
	}
	st, err := s.m.Body()
	if err != nil {
		return nil, err
	}
	s.header, err = st.AppendRange(nil, 0, int64(span.BodyStart))
	return s.header, err
}

func (s *search) matchHeader(name, text string, n mime.Needle) (bool, error) {
	h, err := s.head()
	if err != nil {
		return false, err
	}
	for f := range mime.Fields(h) {
		if f.Is(name) && (text == "" || n.In(mime.DecodeWords(f.Text()))) {
			return true, nil
		}
	}
	return false, nil
}

// matchBody looks through the decoded text parts, and with header through the header too.
func (s *search) matchBody(n mime.Needle, header bool) (bool, error) {
	raw, err := s.message()
	if err != nil {
		return false, err
	}
	if s.texts == nil {
		root := mime.Parse(raw, mime.DefaultLimits)
		s.texts = collectTexts([]string{headerText(root.Header(raw))}, root, raw)
	}
	for i, t := range s.texts {
		if i == 0 && !header {
			continue
		}
		if n.In(t) {
			return true, nil
		}
	}
	return false, nil
}

func headerText(h []byte) string {
	var b strings.Builder
	for f := range mime.Fields(h) {
		b.Write(f.Name)
		b.WriteString(": ")
		b.WriteString(mime.DecodeWords(f.Text()))
		b.WriteByte('\n')
	}
	return b.String()
}

// collectTexts decodes the text parts, and the headers of enclosed messages, which belong to the body.
func collectTexts(out []string, p *mime.Part, raw []byte) []string {
	for _, c := range p.Children {
		if p.IsMessage() {
			out = append(out, headerText(c.Header(raw)))
		}
		out = collectTexts(out, c, raw)
	}
	if len(p.Children) == 0 && p.Type == "text" {
		t, _ := mime.DecodeText(p, raw, maxDecoded)
		out = append(out, t)
	}
	return out
}
