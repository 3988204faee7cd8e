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

// Criteria is a search: one test, or a combination of others. The zero value matches everything.
type Criteria struct {
	Test Test
	// All, Any and Not combine: Test is TestAll, TestAny (one of All) or TestNot (not All[0]).
	All []Criteria
	// Set is of sequence numbers or UIDs.
	Set Set
	// Text is the keyword, header value, address, subject or text looked for; Name the header field.
	Name, Text string
	// Words looks for the words and phrases of Text as JMAP does (query.Words), not for Text as a string: from
	// TestFrom to TestText.
	Words bool
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
	TestRecent
)

// Match is a message found.
type Match struct {
	Seq, UID uint32
	ModSeq   uint64
}

// ErrLimit reports a search, a sort or a thread that would need more memory than it may have.
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

// roomStep is the number of bytes that are reserved at once.
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
	s := newSearch(ctx, v)
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

// look tests one message.
func (s *search) look(c *Criteria, seq, uid uint32, id note.ID, fn func(*search) error) error {
	if s.hopeless(c, id) {
		return s.ctx.Err()
	}
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
	v     *View
	r     *store.Reader
	ctx   context.Context
	now   time.Time // when the search began
	sets  map[*Criteria][]Range
	texts map[*Criteria]*textTest

	m        Message
	envelope *mime.Envelope
	header   []byte
	looked   *fulltext.Look
}

func newSearch(ctx context.Context, v *View) search {
	return search{v: v, ctx: ctx, now: v.f.svc.env.Clock.Now(), sets: map[*Criteria][]Range{}, texts: map[*Criteria]*textTest{}}
}

// textTest is a criterion on text made ready: one test, or for words a combination, and what the index knows of each.
type textTest struct {
	node     *query.Node
	verdicts map[*query.Text]*fulltext.Verdict
}

func (s *search) reset() { s.envelope, s.header, s.looked = nil, nil, nil }

// prepare turns sets into UIDs and texts into tests, and asks the index about these.
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

// fieldsOf are the fields that tests of text look at.
var fieldsOf = map[Test]text.Field{
	TestFrom: text.From, TestTo: text.To, TestCc: text.Cc, TestBcc: text.Bcc, TestSubject: text.Subject, TestBody: text.Content, TestText: text.Any,
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
		// Fields that are never text are in no index; that a field is there says no word.
		t := query.Substring(text.Header|text.FieldOf(c.Name), c.Text)
		s.texts[c] = &textTest{node: &query.Node{Op: query.OpText, Text: t}}
		if c.Text != "" && !text.Unread(c.Name) {
			*tests = append(*tests, t)
		}
	case TestFrom, TestTo, TestCc, TestBcc, TestSubject, TestBody, TestText:
		n := &query.Node{Op: query.OpText, Text: query.Substring(fieldsOf[c.Test], c.Text)}
		if c.Words {
			n = query.Words(fieldsOf[c.Test], c.Text)
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

// on is what the index says of a test on a message.
func (t *textTest) on(x *query.Text, id note.ID) fulltext.Answer {
	if v := t.verdicts[x]; v != nil {
		return v.On(id)
	}
	return fulltext.Ask
}

// hopeless reports whether the index knows that a message does not match: then nothing of it needs to be read.
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

// sure reports whether the index knows that a message matches: to count it, nothing of it needs to be read.
func (s *search) sure(c *Criteria, id note.ID) bool {
	t := s.texts[c]
	if t == nil || c.Test == TestHeader { // of which field a word is, the index does not know
		return false
	}
	all := true
	t.node.Texts(func(x *query.Text, _ bool) { all = all && t.on(x, id) == fulltext.Yes })
	return all
}

// fewest is how many messages are looked up one by one, so that a search that finds few reads few rows.
const fewest = 1000

// few are the UIDs of the messages that can match, where the index knows that they are few.
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

// narrow finds a set that every match must lie in, so that a search of a few UIDs reads a few rows.
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

// matchRow needs the note's row alone, except for the Date field.
func (s *search) matchRow(c *Criteria) bool {
	row := s.m.row
	mem, _ := row.Member(s.v.folder)
	switch c.Test {
	case TestRecent:
		return s.v.recent.has(s.m.UID)
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
	return s.matchNode(c, s.texts[c], s.texts[c].node)
}

// matchNode holds a test of text, or a combination of some, against the message at hand.
func (s *search) matchNode(c *Criteria, t *textTest, n *query.Node) (bool, error) {
	if n.Op != query.OpText { // words, which must all be there
		for _, k := range n.Kids {
			if ok, err := s.matchNode(c, t, k); err != nil || !ok {
				return false, err
			}
		}
		return true, nil
	}
	switch answer := t.on(n.Text, s.m.ID); {
	case answer == fulltext.No:
		return false, nil
	case c.Test == TestHeader: // the index knows words, and not of which field
		return s.matchHeader(c.Name, c.Text, n.Text)
	case answer == fulltext.Yes:
		return true, nil
	case c.Test == TestBody || c.Test == TestText:
		if s.looked == nil {
			s.looked = s.v.f.svc.fullText().Look(s.ctx, s.r, s.m.ID, s.m.row)
		}
		return s.looked.Passes(n.Text)
	}
	return s.matchEnvelope(c.Test, n.Text)
}

// matchEnvelope looks at what the stored envelope has: no message is read.
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

// UseSearch says whose index answers searches of text from now on; nil: none does, and every text is looked at.
func (s *Service) UseSearch(f *fulltext.Service) { s.search.Store(f) }

// fullText may be nil: its methods then know nothing, and look at every text.
func (s *Service) fullText() *fulltext.Service { return s.search.Load() }

// Snippets shows where messages fit a text that is looked for by words (RFC 8621 section 5), in the order of ids; those that
// may not be read are left out.
func (f *File) Snippets(ctx context.Context, c *Criteria, ids []note.ID) ([]fulltext.Snippet, error) {
	return f.svc.fullText().Snippets(ctx, f.svc.store, f.who, f.db, wanted(c), ids)
}

// wanted are the tests of text that a search asks for.
func wanted(c *Criteria) *query.Node {
	n := &query.Node{}
	if fields, ok := fieldsOf[c.Test]; ok {
		return query.Words(fields, c.Text)
	}
	if c.Test == TestAll || c.Test == TestAny {
		for i := range c.All {
			n.Kids = append(n.Kids, wanted(&c.All[i]))
		}
	}
	return n
}

// PartsOf finds the index of a message's parts in its summary.
func PartsOf(summary []byte) (mime.Index, bool) {
	b, err := summaryField(summary, fieldIndex)
	return mime.Index(b), err == nil && len(b) > 0
}
