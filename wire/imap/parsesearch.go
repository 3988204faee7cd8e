package imap

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// searchParser is a parser with the state of one SEARCH.
type searchParser struct {
	*parser
	charset encoding.Encoding // nil: UTF-8
	keys    int
	modSeq  bool
}

func (p *parser) search() any {
	s := &Search{}
	p.searchInto(s)
	return s
}

// searchReturns parses RETURN (…) and the following space, if present.
func (p *parser) searchReturns(s *Search) {
	if !p.tryWord("RETURN") {
		return
	}
	s.Extended = true
	p.space()
	p.list(true, func() { s.Return |= p.searchReturn(s) })
	if s.Return == 0 {
		s.Return = ReturnAll
	}
	if s.Return&ReturnAll != 0 && s.Return&ReturnPartial != 0 {
		p.fail("PARTIAL and ALL exclude each other")
	}
	p.space()
}

func (p *parser) searchInto(s *Search) {
	p.searchReturns(s)
	sp := searchParser{parser: p}
	if p.tryWord("CHARSET") {
		p.space()
		s.Charset = p.astring()
		sp.setCharset(s.Charset)
		p.space()
	}
	s.Key = sp.conjunction(0, false)
	s.ModSeq = sp.modSeq
}

func (p *parser) searchReturn(s *Search) SearchReturn {
	switch p.word() {
	case "MIN":
		return ReturnMin
	case "MAX":
		return ReturnMax
	case "ALL":
		return ReturnAll
	case "COUNT":
		return ReturnCount
	case "SAVE":
		return ReturnSave
	case "UPDATE":
		return ReturnUpdate
	case "CONTEXT":
		return ReturnContext
	case "PARTIAL":
		if s.Return&ReturnPartial != 0 {
			p.fail("PARTIAL twice")
		}
		p.space()
		s.Partial = p.partialRange()
		return ReturnPartial
	}
	p.fail("Unknown result option of SEARCH")
	return 0
}

func badCharset() *SyntaxError {
	return &SyntaxError{Code: "BADCHARSET (UTF-8 US-ASCII)", Text: "Unknown charset", No: true}
}

func (p *searchParser) setCharset(name string) {
	if p.err != nil || strings.EqualFold(name, "UTF-8") || strings.EqualFold(name, "US-ASCII") {
		return
	}
	enc, err := htmlindex.Get(name)
	if err != nil {
		p.failWith(badCharset())
		return
	}
	if n, _ := htmlindex.Name(enc); n == "utf-8" || n == "replacement" {
		if n == "replacement" {
			p.failWith(badCharset())
		}
		return
	}
	p.charset = enc
}

// conjunction parses keys that must all match, up to the end or to ")".
func (p *searchParser) conjunction(depth int, nested bool) SearchKey {
	first := p.key(depth)
	var all []SearchKey
	for p.err == nil {
		if nested && p.peek() == ')' {
			break
		}
		if !nested && p.end() {
			break
		}
		p.space()
		if !nested && p.end() { // a space at the end of the line
			break
		}
		if all == nil {
			all = append(make([]SearchKey, 0, 4), first)
		}
		all = append(all, p.key(depth))
	}
	if all != nil {
		return SearchKey{Op: OpAnd, Keys: all}
	}
	return first
}

// searchFlags maps search keys to the flags that they test.
var searchFlags = map[string]Flag{
	"ANSWERED": Answered, "DELETED": Deleted, "DRAFT": Draft, "FLAGGED": Flagged, "RECENT": Recent, "SEEN": Seen,
}

var searchTexts = map[string]SearchOp{
	"FROM": OpFrom, "TO": OpTo, "CC": OpCc, "BCC": OpBcc, "SUBJECT": OpSubject, "BODY": OpBody, "TEXT": OpText,
}

var searchSizes = map[string]SearchOp{"LARGER": OpLarger, "SMALLER": OpSmaller}

var searchDates = map[string]SearchOp{
	"BEFORE": OpBefore, "ON": OpOn, "SINCE": OpSince, "SENTBEFORE": OpSentBefore, "SENTON": OpSentOn,
	"SENTSINCE": OpSentSince, "SAVEDBEFORE": OpSavedBefore, "SAVEDON": OpSavedOn, "SAVEDSINCE": OpSavedSince,
}

func not(k SearchKey) SearchKey { return SearchKey{Op: OpNot, Keys: []SearchKey{k}} }

// admit counts a search-key, and fails if the search is nested too deep or has too many keys.
func (p *searchParser) admit(depth int) bool {
	p.keys++
	switch {
	case p.err != nil:
	case depth > p.limits.Depth:
		p.failWith(&SyntaxError{Code: "LIMIT", Text: "Search is nested too deep", No: true})
	case p.keys > p.limits.Items:
		p.failWith(&SyntaxError{Code: "LIMIT", Text: "Too many search keys", No: true})
	}
	return p.err == nil
}

// key parses one search-key.
func (p *searchParser) key(depth int) SearchKey {
	if !p.admit(depth) {
		return SearchKey{}
	}
	c := p.peek()
	switch {
	case c == '(':
		p.i++
		k := p.conjunction(depth+1, true)
		p.expect(')')
		return k
	case c >= '0' && c <= '9' || c == '*' || c == '$':
		return SearchKey{Op: OpSeq, Target: p.target()}
	}
	name := p.word()
	if flag, ok := searchFlags[name]; ok {
		return SearchKey{Op: OpFlag, Text: flag}
	}
	if rest, ok := strings.CutPrefix(name, "UN"); ok {
		if flag, ok := searchFlags[rest]; ok && flag != Recent {
			return not(SearchKey{Op: OpFlag, Text: flag})
		}
	}
	if op, ok := searchTexts[name]; ok {
		p.space()
		return SearchKey{Op: op, Text: p.text()}
	}
	if op, ok := searchDates[name]; ok {
		p.space()
		return SearchKey{Op: op, Date: p.date()}
	}
	return p.otherKey(name, depth)
}

// wordKey returns a search-key without arguments.
func wordKey(name string) (k SearchKey, ok bool) {
	switch name {
	case "ALL":
		return k, true
	case "NEW":
		recent := SearchKey{Op: OpFlag, Text: Recent}
		return SearchKey{Op: OpAnd, Keys: []SearchKey{recent, not(SearchKey{Op: OpFlag, Text: Seen})}}, true
	case "OLD":
		return not(SearchKey{Op: OpFlag, Text: Recent}), true
	case "SAVEDATESUPPORTED":
		return SearchKey{Op: OpSaveDateSupported}, true
	}
	return k, false
}

func (p *searchParser) otherKey(name string, depth int) (k SearchKey) {
	if k, ok := wordKey(name); ok {
		return k
	}
	p.space()
	if op, ok := searchSizes[name]; ok {
		return SearchKey{Op: op, Number: p.number64()}
	}
	switch name {
	case "NOT":
		return not(p.key(depth + 1))
	case "OR":
		a := p.key(depth + 1)
		p.space()
		return SearchKey{Op: OpOr, Keys: []SearchKey{a, p.key(depth + 1)}}
	case "UID":
		return SearchKey{Op: OpUID, Target: p.target()}
	case "KEYWORD":
		return SearchKey{Op: OpFlag, Text: p.flag()}
	case "UNKEYWORD":
		return not(SearchKey{Op: OpFlag, Text: p.flag()})
	case "HEADER":
		k = SearchKey{Op: OpHeader, Field: p.fieldName()}
		p.space()
		k.Text = p.text()
	case "OLDER":
		k = SearchKey{Op: OpOlder, Number: uint64(p.nzNumber32())}
	case "YOUNGER":
		k = SearchKey{Op: OpYounger, Number: uint64(p.nzNumber32())}
	case "MODSEQ":
		k = p.modSeqKey()
	case "EMAILID":
		k = SearchKey{Op: OpEmailID, Text: p.astring()}
	case "THREADID":
		k = SearchKey{Op: OpThreadID, Text: p.astring()}
	default:
		p.fail("Unknown search key")
	}
	return k
}

// modSeqKey parses MODSEQ ["/flags/\\draft" all|shared|priv] number (RFC 7162 section 3.1.5). Doublet keeps one
// mod-sequence per message, for which the RFC allows to ignore the entry.
func (p *searchParser) modSeqKey() SearchKey {
	p.modSeq = true
	if p.peek() == '"' {
		p.quoted()
		p.space()
		switch p.word() {
		case "ALL", "SHARED", "PRIV":
		default:
			p.fail("Unknown entry type of MODSEQ")
		}
		p.space()
	}
	return SearchKey{Op: OpModSeq, Number: p.number64()}
}

// text parses an astring in the charset of the command, and converts it to UTF-8.
func (p *searchParser) text() string {
	s := p.astring()
	if p.charset != nil && !isASCII(s) {
		d, err := p.charset.NewDecoder().String(s)
		if err != nil {
			p.fail("Text is not in the charset named")
			return ""
		}
		return d
	}
	if !utf8.ValidString(s) {
		p.failWith(badCharset())
	}
	return s
}
