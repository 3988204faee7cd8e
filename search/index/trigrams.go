package index

// trigrams is a Bloom filter of the sequences of three bytes in the terms of a dictionary block, with one bit per
// sequence. It has 2048 bits for about a hundred terms. So a search for a string of five or more bytes anywhere in
// terms skips most blocks.
type trigrams [256]byte

// bit returns the index of the bit for three bytes.
func bit(a, b, c byte) uint32 {
	return (uint32(a)<<16 | uint32(b)<<8 | uint32(c)) * 0x9E3779B1 >> (32 - 11)
}

// add adds a term. Its first shared bytes are equal to those of the term added before.
func (t *trigrams) add(term []byte, shared int) {
	for i := max(0, shared-2); i+2 < len(term); i++ {
		n := bit(term[i], term[i+1], term[i+2])
		t[n>>3] |= 1 << (n & 7)
	}
}

// mayHold reports whether a term that contains text may be in the block that begins with row. It returns true for a
// damaged row, so that the reader reports the damage.
func mayHold(row []byte, text string) bool {
	if len(row) < len(trigrams{}) {
		return true
	}
	for i := 0; i+2 < len(text); i++ {
		if n := bit(text[i], text[i+1], text[i+2]); row[n>>3]&(1<<(n&7)) == 0 {
			return false
		}
	}
	return true
}
