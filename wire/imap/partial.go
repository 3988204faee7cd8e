package imap

// Partial is a range of results (RFC 9394), Start to Stop. Both count from the first result, or from the last if
// FromEnd is set, starting with 1. The zero value means no range.
type Partial struct {
	Start, Stop uint32
	FromEnd     bool
}

// Bounds returns the part of the range within count results, as indexes lo ≤ i < hi from 0.
func (r Partial) Bounds(count int) (lo, hi int) {
	lo, hi = int(min(r.Start, r.Stop)), int(max(r.Start, r.Stop))
	if r.FromEnd {
		lo, hi = count-hi+1, count-lo+1
	}
	lo = max(lo, 1)
	hi = min(hi, count)
	if lo > hi {
		return 0, 0
	}
	return lo - 1, hi
}

// partialRange parses nz-number ":" nz-number; both or neither have a "-" before them.
func (p *parser) partialRange() (r Partial) {
	r.FromEnd = p.try('-')
	r.Start = p.nzNumber32()
	p.expect(':')
	if p.try('-') != r.FromEnd {
		p.fail("A range begins and ends at the same end of the results")
	}
	r.Stop = p.nzNumber32()
	return r
}

func appendPartial(dst []byte, r Partial) []byte {
	sign := func() {
		if r.FromEnd {
			dst = append(dst, '-')
		}
	}
	sign()
	dst = append(appendUint(dst, uint64(r.Start)), ':')
	sign()
	return appendUint(dst, uint64(r.Stop))
}

// UIDBatches holds the arguments of UIDBATCHES (RFC 10022): it requests ranges of UIDs with Size messages each. First
// and Last are the requested batches, where batch 1 has the highest UIDs; 0 requests all.
type UIDBatches struct{ Size, First, Last uint32 }

// UIDBatchData holds a UIDBATCHES response. Each range is in descending order.
type UIDBatchData struct {
	Tag    string
	Ranges Set
}

func (p *parser) uidBatches() any {
	b := &UIDBatches{Size: p.nzNumber32()}
	if p.try(' ') && !p.end() {
		b.First = p.nzNumber32()
		p.expect(':')
		b.Last = p.nzNumber32()
	}
	return b
}

func appendUIDBatches(dst []byte, b *UIDBatches) []byte {
	dst = appendUint(dst, uint64(b.Size))
	if b.First != 0 {
		dst = appendUint(append(dst, ' '), uint64(b.First))
		dst = appendUint(append(dst, ':'), uint64(b.Last))
	}
	return dst
}

// AppendUIDBatches prints a UIDBATCHES response. It always prints both bounds of a range, even if they are equal.
func AppendUIDBatches(dst []byte, d *UIDBatchData) []byte {
	dst = append(AppendString(append(dst, "* UIDBATCHES (TAG "...), d.Tag, false), ')')
	for i, r := range d.Ranges {
		dst = append(dst, ", "[b2i(i == 0)])
		dst = appendUint(append(appendUint(dst, uint64(r.Start)), ':'), uint64(r.Stop))
	}
	return append(dst, "\r\n"...)
}

func (p *parser) uidBatchData() *UIDBatchData {
	d := &UIDBatchData{}
	if !p.tryText("(TAG ") {
		p.fail("Expected a tag")
		return d
	}
	d.Tag = p.astring()
	p.expect(')')
	if p.try(' ') && !p.end() {
		d.Ranges = p.set()
	}
	return d
}
