package query

import (
	"doublet/search/index"
	"doublet/search/words"
	"doublet/wire/mime"
)

// plain finds a sequence of words in texts that are ASCII. It searches for the bytes of one of the words, and reads the
// words only where these are, in place of all words of the text.
type plain struct {
	// anchor is the place of that word in the sequence, and lower its pattern's text; "" if there is no such word.
	lower  string
	anchor int
	// begins is set if that word begins with the pattern's text.
	begins bool
	// never is set if a word of the sequence is in no ASCII text.
	never bool
}

// newPlain chooses the longest word with a single pattern.
func newPlain(units []unit) (p plain) {
	for i := range units {
		ascii := 0
		for _, f := range units[i].fits {
			if words.ASCII(f.Text) {
				ascii++
			}
		}
		switch fits := units[i].fits; {
		case fits != nil && ascii == 0:
			p.never = true
		case len(fits) == 1 && len(fits[0].Text) > len(p.lower):
			p.lower, p.anchor = fits[0].Text, i
			p.begins = fits[0].How == index.Exact || fits[0].How == index.Prefix
		}
	}
	return p
}

// in reports whether the sequence of units occurs in s, which is ASCII.
func (p *plain) in(s string, units []unit) bool {
	var sc words.Scanner
	for at := 0; at < len(s); {
		i := mime.IndexASCII(s[at:], p.lower)
		if i < 0 {
			return false
		}
		start, end := wordAround(s, at+i)
		if from, ok := wordsBack(s, start, p.anchor); ok {
			sc.Reset(s[from:])
			if follows(&sc, units) {
				return true
			}
		}
		at = end
	}
	return false
}

// wordAround returns the start and the end of the word at i.
func wordAround(s string, i int) (start, end int) {
	for start = i; start > 0 && words.WordByte(s[start-1]); start-- {
	}
	for end = i; end < len(s) && words.WordByte(s[end]); end++ {
	}
	return start, end
}

// wordsBack returns the start of the n-th word before the one that starts at start. ok is false if there are fewer.
func wordsBack(s string, start, n int) (from int, ok bool) {
	for ; n > 0; n-- {
		for start > 0 && !words.WordByte(s[start-1]) {
			start--
		}
		if start == 0 {
			return 0, false
		}
		start, _ = wordAround(s, start-1)
	}
	return start, true
}

// follows reports whether the next words are the sequence.
func follows(sc *words.Scanner, units []unit) bool {
	for i := range units {
		if !sc.Next() || !units[i].takes(sc.Term) {
			return false
		}
	}
	return true
}
