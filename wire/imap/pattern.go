package imap

import "strings"

// maxPatternLiterals is the maximum number of literal bytes in a Pattern that can match. Mailbox names are shorter,
// even with the prefix of another user's mailboxes.
const maxPatternLiterals = 4 * MaxMailboxName

// Pattern is a compiled pattern of LIST: `*` matches any text, `%` any text without the separator '/'.
//
// Match keeps one bit for each number of literals that the name so far may have matched. A run of wildcards counts as
// one wildcard. So a match takes time proportional to the length of the name times the literals, 64 literals at once.
// It returns immediately if the name is shorter than the literals.
type Pattern struct {
	literals int
	// literal maps each byte to the set of literals that equal it: bit i for the literal at i. It is nil if the pattern
	// has too many literals to match any name.
	literal map[byte][]uint64
	// star and percent have bit i set if that wildcard precedes the literal at i. The bit after the last literal stands
	// for the end of the pattern.
	star, percent []uint64
}

// CompilePattern compiles a pattern of LIST.
func CompilePattern(pattern string) Pattern {
	p := Pattern{literals: len(pattern) - strings.Count(pattern, "*") - strings.Count(pattern, "%")}
	if p.literals > maxPatternLiterals {
		return p
	}
	words := p.literals/64 + 1
	p.literal = make(map[byte][]uint64)
	p.star, p.percent = make([]uint64, words), make([]uint64, words)
	at := 0
	for i := range len(pattern) {
		bit := uint64(1) << (at % 64)
		switch c := pattern[i]; c {
		case '*':
			p.star[at/64] |= bit
		case '%':
			p.percent[at/64] |= bit
		default:
			if p.literal[c] == nil {
				p.literal[c] = make([]uint64, words)
			}
			p.literal[c][at/64] |= bit
			at++
		}
	}
	return p
}

// Match reports whether a mailbox name matches.
func (p *Pattern) Match(name string) bool {
	if p.literals > len(name) || p.literal == nil {
		return false
	}
	if p.literals == 0 { // the common patterns
		return p.star[0] != 0 || name == "" || p.percent[0] != 0 && strings.IndexByte(name, '/') < 0
	}
	var room [4]uint64
	now := room[:]
	if len(p.star) > len(room) {
		now = make([]uint64, len(p.star))
	}
	now = now[:len(p.star)]
	now[0] = 1
	for i := range len(name) {
		if !p.step(now, name[i]) {
			return false
		}
	}
	return now[p.literals/64]>>(p.literals%64)&1 != 0
}

// step consumes one byte of the name, and reports whether a match is still possible.
func (p *Pattern) step(now []uint64, c byte) bool {
	is := p.literal[c]
	carry, any := uint64(0), uint64(0)
	for w, bits := range now {
		stay := p.star[w]
		if c != '/' {
			stay |= p.percent[w]
		}
		next := bits&stay | carry
		carry = 0
		if is != nil {
			used := bits & is[w]
			next |= used << 1
			carry = used >> 63
		}
		now[w] = next
		any |= next
	}
	return any != 0
}
