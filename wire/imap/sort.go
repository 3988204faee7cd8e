package imap

// SortField is a field that SORT compares.
type SortField uint8

// The fields of RFC 5256 section 3 and, for the last two, of RFC 5957.
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

// SortKey is one criterion of SORT.
type SortKey struct {
	Field   SortField
	Reverse bool
}

// Sort is SORT (RFC 5256), with the result options of RFC 5267 section 3. Charset is always there.
type Sort struct {
	Search
	By []SortKey
}

// Thread is THREAD (RFC 5256). Algorithm is in upper case; the server checks it.
type Thread struct {
	Algorithm string
	Search
}

// ThreadNode is a message of a thread and the replies to it. Number 0 stands for a missing message; it has two
// children at least.
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

// searchBehindCharset is a charset without a word before it, and search keys.
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

// AppendSort prints the SORT response; modSeq above 0 stands behind it (RFC 7162 section 3.1.6).
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

// appendThreads prints thread lists side by side. A line of answers is printed without going deeper, so
// that the depth is that of the branches alone.
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

// threads reads thread lists side by side.
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
