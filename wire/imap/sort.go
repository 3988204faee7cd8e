package imap

// SortField is a sort criterion of SORT.
type SortField uint8

// The criteria of RFC 5256 section 3 and, the last two, of RFC 5957.
const (
	SortArrival SortField = iota
	SortCc
	SortDate
	SortFrom
	SortSize
	SortSubject
	SortTo
	SortDisplayFrom
	SortDisplayTo
)

// SortKey is one criterion of SORT with its direction.
type SortKey struct {
	Field   SortField
	Reverse bool
}

// Sort holds the arguments of SORT (RFC 5256), with the result options of RFC 5267 section 3. Charset is always set.
type Sort struct {
	Search
	By []SortKey
}

// Thread holds the arguments of THREAD (RFC 5256). Algorithm is in upper case; the server must check it.
type Thread struct {
	Algorithm string
	Search
}

// ThreadNode is a message of a thread with the replies to it. Number 0 means a missing message, which has at least two
// children.
type ThreadNode struct {
	Number   uint32
	Children []ThreadNode
}

var sortFields = [...]string{
	SortArrival: "ARRIVAL", SortCc: "CC", SortDate: "DATE", SortFrom: "FROM", SortSize: "SIZE", SortSubject: "SUBJECT",
	SortTo: "TO", SortDisplayFrom: "DISPLAYFROM", SortDisplayTo: "DISPLAYTO",
}

func (p *parser) sort() any {
	s := &Sort{}
	p.searchReturns(&s.Search)
	p.list(false, func() { s.By = append(s.By, p.sortKey()) })
	p.space()
	p.searchBehindCharset(&s.Search)
	return s
}

func (p *parser) sortKey() (k SortKey) {
	name := p.word()
	if name == "REVERSE" {
		k.Reverse = true
		p.space()
		name = p.word()
	}
	for i, f := range sortFields {
		if f == name {
			k.Field = SortField(i)
			return k
		}
	}
	p.fail("Unknown sort key")
	return k
}

func (p *parser) thread() any {
	t := &Thread{Algorithm: p.word()}
	p.space()
	p.searchBehindCharset(&t.Search)
	return t
}

// searchBehindCharset parses a charset without the word CHARSET, and search keys.
func (p *parser) searchBehindCharset(s *Search) {
	sp := searchParser{parser: p}
	s.Charset = p.astring()
	sp.setCharset(s.Charset)
	p.space()
	s.Key = sp.conjunction(0, false)
	s.ModSeq = sp.modSeq
}

func appendSort(dst []byte, s *Sort, u bool) []byte {
	dst = appendSearchReturns(dst, &s.Search)
	for i, k := range s.By {
		dst = append(dst, " ("[b2i(i == 0)])
		if k.Reverse {
			dst = append(dst, "REVERSE "...)
		}
		dst = append(dst, sortFields[k.Field]...)
	}
	return AppendSearchKey(append(dst, ") UTF-8 "...), &s.Key, u)
}

func appendThread(dst []byte, t *Thread, u bool) []byte {
	return AppendSearchKey(append(append(dst, t.Algorithm...), " UTF-8 "...), &t.Key, u)
}

// AppendSort prints the SORT response. If modSeq is above 0, it is appended (RFC 7162 section 3.1.6).
func AppendSort(dst []byte, numbers []uint32, modSeq uint64) []byte {
	dst = append(dst, "* SORT"...)
	for _, n := range numbers {
		dst = appendUint(append(dst, ' '), uint64(n))
	}
	if modSeq > 0 {
		dst = append(appendUint(append(dst, " (MODSEQ "...), modSeq), ')')
	}
	return append(dst, "\r\n"...)
}

// AppendThread prints the THREAD response.
func AppendThread(dst []byte, threads []ThreadNode) []byte {
	dst = append(dst, "* THREAD"...)
	if len(threads) > 0 {
		dst = appendThreads(append(dst, ' '), threads)
	}
	return append(dst, "\r\n"...)
}

// appendThreads prints adjacent thread lists. It prints a chain of single replies in a loop, so the recursion depth is
// the number of branches only.
func appendThreads(dst []byte, threads []ThreadNode) []byte {
	for i := range threads {
		dst = append(dst, '(')
		n := &threads[i]
		if n.Number != 0 {
			dst = appendUint(dst, uint64(n.Number))
		}
		for len(n.Children) == 1 {
			n = &n.Children[0]
			dst = appendUint(append(dst, ' '), uint64(n.Number))
		}
		if len(n.Children) > 1 {
			if n.Number != 0 {
				dst = append(dst, ' ')
			}
			dst = appendThreads(dst, n.Children)
		}
		dst = append(dst, ')')
	}
	return dst
}

// threads parses adjacent thread lists.
func (p *parser) threads(depth int) (list []ThreadNode) {
	for p.err == nil && p.try('(') {
		list = append(list, p.threadList(depth))
		p.expect(')')
	}
	return list
}

func (p *parser) threadList(depth int) (root ThreadNode) {
	if depth > p.limits.Depth {
		p.fail("Threads are nested too deep")
		return root
	}
	if p.peek() == '(' {
		root.Children = p.threads(depth + 1)
		if len(root.Children) < 2 {
			p.fail("Expected a message number")
		}
		return root
	}
	root.Number = p.nzNumber32()
	n := &root
	for p.err == nil && p.try(' ') {
		if p.peek() == '(' {
			n.Children = p.threads(depth + 1)
			break
		}
		n.Children = []ThreadNode{{Number: p.nzNumber32()}}
		n = &n.Children[0]
	}
	return root
}
