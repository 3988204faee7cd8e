package index

// trigrams says which three bytes in a row stand in the terms of a block of a dictionary: a bit for each, shared by all
// that fall on it. With two thousand bits for some hundred terms, most blocks are passed over when a string of five
// bytes or more is looked for anywhere in terms.
type trigrams [256]byte

// bit is where three bytes are noted.
func bit(a, b, c byte) uint32 {
	return (uint32(a)<<16 | uint32(b)<<8 | uint32(c)) * 0x9E3779B1 >> (32 - 11)
}

// add notes a term, of which the first bytes are those of the term noted before.
func (t *trigrams) add(term []byte, shared int) {
	for i := max(0, shared-2); i+2 < len(term); i++ {
		n := bit(term[i], term[i+1], term[i+2])
		t[n>>3] |= 1 << (n & 7)
	}
}

// mayHold says whether text may stand in a term of the block that begins with row; what is no block is for whoever reads it.
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
