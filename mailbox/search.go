package mailbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"doublet/note"
	fulltext "doublet/search"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
	"doublet/wire/imap"
	"doublet/wire/mime"
)

// Criteria is a search condition: one test, or a combination of others. The zero value matches every message.
type Criteria struct {
	Test Test
	// All holds the operands if Test is TestAll (all of them), TestAny (at least one) or TestNot (not All[0]).
	All []Criteria
	// Set holds sequence numbers (TestSeq) or UIDs (TestUID).
	Set Set
	// Text is the keyword, header value, address, subject, id or text to find. Name is the header field of TestHeader.
	Name, Text string
	// Words searches for the words and phrases in Text, as JMAP does (query.Words), instead of Text as a substring. It
	// applies to the tests from TestFrom to TestText.
	Words bool
	// Fields are the fields that TestText searches; 0 means all of them.
	Fields text.Field
	// Number is a size in bytes, a MODSEQ, or an age in seconds for TestOlder and TestYounger (RFC 5032).
	Number uint64
	// Day is a day, given as its first moment in UTC.
	Day time.Time
}

// Test is the kind of a Criteria.
type Test uint8

// The tests. Tests of dates compare days and ignore the time and zone (RFC 9051 section 6.4.4).
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
	TestRecent
)

// Match is a message that a search found.
type Match struct {
	Seq, UID uint32
	ModSeq   uint64
}

// ErrLimit reports a search, sort or thread that would exceed its memory limit.
var ErrLimit = errors.New("too many messages for one answer")

// SearchOptions controls progress reports and memory use of a search. The zero value means no reports and no limit.
type SearchOptions struct {
	// Tell, if not nil, is called about once per Every with the number of messages examined and an upper bound of the
	// total. It runs outside of any read of the store, so it may wait for a client. If it returns an error, the search
	// ends with that error.
	Tell  func(done, all uint32) error
	Every time.Duration
	// Room, if not nil, is called before the search allocates more memory, in bytes. If it returns false, the search
	// ends with ErrLimit. The caller releases the memory that Room granted.
	Room func(bytes int64) bool
}

// roomStep is the number of bytes that one call of Room reserves.
const roomStep = 64 << 10

// room tracks the memory that a search keeps.
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

// scan calls fn for the messages of the view that match, in order of UID. To report progress it ends its read of the
// store, calls o.Tell, and continues after the last message. Sequence numbers stay valid, because the view does not
// change meanwhile.
func (v *View) scan(ctx context.Context, c *Criteria, o SearchOptions, fn func(*search) error) error {
	s := newSearch(ctx, v)
	last, done := s.now, uint32(0)
	ranges, all, err := s.begin(c)
	for len(ranges) > 0 && err == nil {
		var rest []Range
		err = v.f.read(ctx, func(r *store.Reader) error {
			s.r = r
			err := v.each(r, ranges, func(seq, uid uint32, id note.ID) (bool, error) {
				if err := s.gather(c, seq, uid, id); err != nil {
					return false, err
				}
				due := false
				if done++; o.Tell != nil && done%16 == 0 {
					now := v.f.svc.env.Clock.Now()
					if due = now.Sub(last) >= o.Every; due {
						last, rest = now, behind(ranges, uid)
					}
				}
				if !due && len(s.wave) < fulltext.Ahead(s.asked, 0) {
					return true, nil
				}
				return !due, s.evaluate(c, fn)
			})
			if err != nil {
				return err
			}
			return s.evaluate(c, fn)
		})
		if err == nil && len(rest) > 0 {
			err = o.Tell(done, max(done, all))
		}
		ranges = rest
	}
	return err
}

// begin prepares a search. It returns the UIDs to examine and an upper bound on their number.
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
		} else if few, ok, err := s.few(c); ok || err != nil {
			ranges = few
			return err
		}
		return nil
	})
	span := uint64(0)
	for _, g := range ranges {
		span += uint64(g.Stop-g.Start) + 1
	}
	return ranges, uint32(min(span, uint64(s.v.exists))), err
}

// gather adds a message to the wave, unless the index knows that it does not match.
func (s *search) gather(c *Criteria, seq, uid uint32, id note.ID) error {
	if s.hopeless(c, id) {
		return s.ctx.Err()
	}
	row, err := s.r.Note(id)
	if err != nil {
		return ignoreGone(err)
	}
	s.wave = append(s.wave, tested{Message: Message{Seq: seq, UID: uid, ID: id, v: s.v, row: row}})
	return nil
}

// tested is a message with the result of its test.
type tested struct {
	Message
	ok  bool
	err error
}

// evaluate tests the messages of the wave and calls fn for those that match. It tests a single one itself, and several
// on all processors that are free.
func (s *search) evaluate(c *Criteria, fn func(*search) error) error {
	wave := s.wave
	s.wave = s.wave[:0]
	if len(wave) == 1 {
		wave[0].test(s, s.r, c)
	} else if err := s.v.f.svc.fullText().Each(s.ctx, s.r, len(wave), func(r *store.Reader, i int) {
		one := *s
		wave[i].beside = true
		wave[i].test(&one, r, c)
	}); err != nil {
		return err
	}
	for i := range wave {
		t := &wave[i]
		t.beside = false
		if t.err != nil {
			return t.err
		}
		if t.ok {
			s.move(t.Message, s.r)
			if err := fn(s); err != nil {
				return err
			}
		}
	}
	return s.ctx.Err()
}

// test tests the message with s, which may be used by another goroutine than the one that gathered it.
func (t *tested) test(s *search, r *store.Reader, c *Criteria) {
	s.move(t.Message, r)
	t.ok, t.err = s.match(c)
}

// move makes m the current message, read by r.
func (s *search) move(m Message, r *store.Reader) {
	if s.m.ID == m.ID && s.r == r { // keep what the test has read of it
		return
	}
	s.r, s.m = r, m
	s.m.r = r
	s.reset()
}

// found returns the current message as a Match.
func (s *search) found() Match { return Match{s.m.Seq, s.m.UID, uint64(s.m.row.Mod)} }

// search evaluates criteria for one message after another. Data that one test has read of a message is cached for the
// next test.
type search struct {
	v     *View
	r     *store.Reader
	ctx   context.Context
	now   time.Time // start of the search, for TestOlder and TestYounger
	sets  map[*Criteria][]Range
	texts map[*Criteria]*textTest
	// wave holds the messages that are tested together. asked counts the texts that were read one by one.
	wave  []tested
	asked int

	m        Message
	envelope *mime.Envelope
	header   []byte
	looked   *fulltext.Look
}

func newSearch(ctx context.Context, v *View) search {
	return search{v: v, ctx: ctx, now: v.f.svc.env.Clock.Now(), sets: map[*Criteria][]Range{},
		texts: map[*Criteria]*textTest{}}
}

// textTest is a prepared text criterion: a query, and the index's verdict on each text in it.
type textTest struct {
	node     *query.Node
	verdicts map[*query.Text]*fulltext.Verdict
}

func (s *search) reset() { s.envelope, s.header, s.looked = nil, nil, nil }

// prepare converts sets into UIDs and texts into tests, and asks the index for verdicts on these tests.
func (s *search) prepare(c *Criteria) error {
	var tests []*query.Text
	if err := s.ready(c, &tests); err != nil || len(tests) == 0 {
		return err
	}
	found, err := s.v.f.svc.fullText().Find(s.ctx, s.r, tests)
	if err != nil {
		return err
	}
	by := make(map[*query.Text]*fulltext.Verdict, len(tests))
	for i, t := range tests {
		by[t] = found[i]
	}
	for _, t := range s.texts {
		if t.verdicts == nil {
			t.verdicts = by
		}
	}
	return nil
}

// fieldsOf maps each text test to the fields that it searches.
var fieldsOf = map[Test]text.Field{
	TestFrom: text.From, TestTo: text.To, TestCc: text.Cc, TestBcc: text.Bcc, TestSubject: text.Subject,
	TestBody: text.Content, TestText: text.Any,
}

// fields returns the fields that a text test searches.
func (c *Criteria) fields() (f text.Field, ok bool) {
	if f, ok = fieldsOf[c.Test]; c.Test == TestText && c.Fields != 0 {
		f = c.Fields
	}
	return f, ok
}

func (s *search) ready(c *Criteria, tests *[]*query.Text) error {
	switch c.Test {
	case TestSeq, TestUID:
		ranges, err := s.v.uids(s.r, c.Set, c.Test == TestUID)
		if err != nil {
			return err
		}
		s.sets[c] = ranges
	case TestHeader:
		// Do not ask the index about fields that it never holds, or whether a field is present.
		t := query.Substring(text.Header|text.FieldOf(c.Name), c.Text)
		s.texts[c] = &textTest{node: &query.Node{Op: query.OpText, Text: t}}
		if c.Text != "" && !text.Unread(c.Name) {
			*tests = append(*tests, t)
		}
	case TestFrom, TestTo, TestCc, TestBcc, TestSubject, TestBody, TestText:
		fields, _ := c.fields()
		n := &query.Node{Op: query.OpText, Text: query.Substring(fields, c.Text)}
		if c.Words {
			n = query.Words(fields, c.Text)
		}
		s.texts[c] = &textTest{node: n}
		n.Texts(func(t *query.Text, _ bool) { *tests = append(*tests, t) })
	}
	for i := range c.All {
		if err := s.ready(&c.All[i], tests); err != nil {
			return err
		}
	}
	return nil
}

// on returns the index's answer to a text test for a message: Yes, No, or Ask if it does not know.
func (t *textTest) on(x *query.Text, id note.ID) fulltext.Answer {
	if v := t.verdicts[x]; v != nil {
		return v.On(id)
	}
	return fulltext.Ask
}

// hopeless reports whether the index knows that a message does not match. If so, nothing of the message needs to be
// read.
func (s *search) hopeless(c *Criteria, id note.ID) bool {
	switch c.Test {
	case TestAll:
		for i := range c.All {
			if s.hopeless(&c.All[i], id) {
				return true
			}
		}
		return false
	case TestAny:
		for i := range c.All {
			if !s.hopeless(&c.All[i], id) {
				return false
			}
		}
		return len(c.All) > 0
	}
	t := s.texts[c]
	if t == nil {
		return false
	}
	none := false
	t.node.Texts(func(x *query.Text, _ bool) { none = none || t.on(x, id) == fulltext.No })
	return none
}

// sure reports whether the index knows that a message matches. If so, nothing of the message needs to be read to count
// it.
func (s *search) sure(c *Criteria, id note.ID) bool {
	t := s.texts[c]
	if t == nil || c.Test == TestHeader { // the index does not know which header field has a word
		return false
	}
	all := true
	t.node.Texts(func(x *query.Text, _ bool) { all = all && t.on(x, id) == fulltext.Yes })
	return all
}

// fewest is the maximum number of candidates that a search looks up one by one. So a search with few results reads few
// rows.
const fewest = 1000

// few returns the UIDs of the messages that may match, if the index knows that there are at most fewest.
func (s *search) few(c *Criteria) ([]Range, bool, error) {
	last := s.r.Counters().NextNote - 1
	ids, ok := s.candidates(c, last)
	if !ok {
		return nil, false, nil
	}
	var uids []uint32
	for _, id := range ids {
		row, err := s.r.Note(id)
		if err != nil {
			if err = ignoreGone(err); err != nil {
				return nil, false, err
			}
			continue
		}
		if m, ok := row.Member(s.v.folder); ok && m.UID < s.v.uidNext {
			uids = append(uids, m.UID)
		}
	}
	slices.Sort(uids)
	var out Set
	for _, u := range uids {
		out = appendUID(out, u)
	}
	return out, true, nil
}

func (s *search) candidates(c *Criteria, last note.ID) ([]note.ID, bool) {
	if c.Test == TestAll {
		for i := range c.All {
			if ids, ok := s.candidates(&c.All[i], last); ok {
				return ids, true
			}
		}
		return nil, false
	}
	t := s.texts[c]
	if t == nil {
		return nil, false
	}
	var out []note.ID
	some := false
	t.node.Texts(func(x *query.Text, _ bool) {
		if v := t.verdicts[x]; v != nil && !some {
			out, some = v.Few(fewest, last)
		}
	})
	return out, some
}

// narrow returns a set that contains every match, if c implies one. So a search in a few UIDs reads few rows.
func (s *search) narrow(c *Criteria) ([]Range, bool) {
	if ranges, ok := s.sets[c]; ok {
		return ranges, true
	}
	if c.Test == TestRecent {
		return s.v.recent.ranges(), true
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

// matchRow evaluates tests that need only the note's row, or the envelope for the Date field.
func (s *search) matchRow(c *Criteria) bool {
	row := s.m.row
	mem, _ := row.Member(s.v.folder)
	switch c.Test {
	case TestRecent:
		return s.v.recent.has(s.m.UID)
	case TestSeen:
		return row.SeenBy(s.v.f.who.Person)
	case TestDeleted:
		return mem.Deleted && !s.v.f.bin
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
	}
	return s.matchDate(c)
}

func (s *search) matchDate(c *Criteria) bool {
	switch c.Test {
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
		// Use the day as the sender wrote it, in the sender's zone.
		_, offset := t.Zone()
		return ok && matchDay(c.Test-TestSentBefore, t.Add(time.Duration(offset)*time.Second).UTC(), c.Day)
	}
	return false
}

// matchDay compares t with day: how is 0 for before, 1 for on and 2 for since.
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

// env returns the parsed envelope of the current message, from its summary.
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
	return s.matchNode(c, s.texts[c], s.texts[c].node)
}

// matchNode evaluates a text test, or a combination of them, for the current message.
func (s *search) matchNode(c *Criteria, t *textTest, n *query.Node) (bool, error) {
	if n.Op != query.OpText { // several words: all of them must match
		for _, k := range n.Kids {
			if ok, err := s.matchNode(c, t, k); err != nil || !ok {
				return false, err
			}
		}
		return true, nil
	}
	switch t.on(n.Text, s.m.ID) {
	case fulltext.No:
		return false, nil
	case fulltext.Yes:
		if c.Test != TestHeader { // the index knows the words of the header, but not their fields
			return true, nil
		}
	}
	s.asked++
	switch c.Test {
	case TestHeader:
		return s.matchHeader(c.Name, c.Text, n.Text)
	case TestBody, TestText:
		if s.looked == nil {
			s.looked = s.v.f.svc.fullText().Look(s.ctx, s.r, s.m.ID, s.m.row)
		}
		return s.looked.Passes(n.Text)
	}
	return s.matchEnvelope(c.Test, n.Text)
}

// matchEnvelope tests a field of the stored envelope; it does not read the message.
func (s *search) matchEnvelope(which Test, t *query.Text) (bool, error) {
	e, err := s.env()
	if err != nil {
		return false, err
	}
	switch which {
	case TestSubject:
		return e.Has&mime.HasSubject != 0 && t.InText(text.Make(text.Subject, mime.DecodeWords(e.Subject)).Text), nil
	case TestFrom:
		return addressed(e.From, t), nil
	case TestTo:
		return addressed(e.To, t), nil
	case TestCc:
		return addressed(e.Cc, t), nil
	}
	return addressed(e.Bcc, t), nil
}

func addressed(list []mime.Address, t *query.Text) bool {
	for _, a := range list {
		if t.InText(text.Make(text.From, text.Address(a)).Text) {
			return true
		}
	}
	return false
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

func (s *search) matchHeader(name, value string, t *query.Text) (bool, error) {
	h, err := s.head()
	if err != nil {
		return false, err
	}
	for f := range mime.Fields(h) {
		if f.Is(name) && (value == "" || t.InText(mime.DecodeWords(f.Text()))) {
			return true, nil
		}
	}
	return false, nil
}

// UseSearch sets the index that answers text searches from now on. With nil, searches read every text.
func (s *Service) UseSearch(f *fulltext.Service) { s.search.Store(f) }

// fullText returns the index, which may be nil. The methods of a nil index read every text.
func (s *Service) fullText() *fulltext.Service { return s.search.Load() }

// Snippets returns the passages of messages that match the words in c (RFC 8621 section 5), in the order of ids. It
// leaves out messages that the person may not read.
func (hd *handle) Snippets(ctx context.Context, c *Criteria, ids []note.ID) ([]fulltext.Snippet, error) {
	return hd.svc.fullText().Snippets(ctx, hd.svc.store, hd.who, hd.db, wanted(c), ids)
}

// wanted returns the words that a search asks for, as one query.
func wanted(c *Criteria) *query.Node {
	n := &query.Node{}
	if fields, ok := c.fields(); ok {
		return query.Words(fields, c.Text)
	}
	if c.Test == TestAll || c.Test == TestAny {
		for i := range c.All {
			n.Kids = append(n.Kids, wanted(&c.All[i]))
		}
	}
	return n
}

// PartsOf returns the index of a message's parts from its summary.
func PartsOf(summary []byte) (mime.Index, bool) {
	b, err := summaryField(summary, fieldIndex)
	return mime.Index(b), err == nil && len(b) > 0
}
