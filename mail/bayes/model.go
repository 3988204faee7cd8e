package bayes

import "math"

// Class is a kind of message.
type Class uint8

// The classes. Unknown is a message of which nothing is known.
const (
	Unknown Class = iota
	Junk
	Good
)

func (c Class) String() string { return [...]string{"unknown", "junk", "not junk"}[min(c, Good)] }

const (
	// strength is the number of neutral observations that are added to those of each token (Robinson's s).
	strength = 0.45
	// leastClue is the distance from 0.5 from which a token counts.
	leastClue = 0.1
	// maxClues is the number of tokens that decide: the ones farthest from 0.5.
	maxClues = 150
	// MaxMessages is the number of messages of a class at which the counts of that class are halved, so that older
	// messages count less and less. It is less than what a counter holds.
	MaxMessages = 4000
)

// Model counts in how many messages of each class a token was. Tokens share counters if their hashes have the same
// upper bits. The zero value is not usable. It has one user at a time; Score may be called by several.
type Model struct {
	bits       int
	junk, good int     // messages
	counts     []count // nil if nothing was learned
}

type count struct{ junk, good uint16 }

// Sizes of a model in bits: its number of counters is a power of two.
const (
	MinBits = 8
	MaxBits = 20
)

// NewModel returns an empty model for 2^bits pairs of counters. It makes them when it learns.
func NewModel(bits int) *Model { return &Model{bits: bits} }

func (m *Model) make() {
	if m.counts == nil {
		m.counts = make([]count, 1<<m.bits)
	}
}

// Messages returns the number of messages of each class that the model has learned. Halving reduces it.
func (m *Model) Messages() (junk, good int) { return m.junk, m.good }

// Learn counts a message.
func (m *Model) Learn(t Tokens, c Class) {
	switch c {
	case Junk:
		m.junk++
	case Good:
		m.good++
	default:
		return
	}
	m.make()
	for _, h := range t {
		m.counts[h>>(32-m.bits)].add(c)
	}
	if max(m.junk, m.good) > MaxMessages {
		m.age(c)
	}
}

// Unlearn undoes Learn. If the counts were halved in between, it subtracts more than is left of the message; no count
// falls below zero.
func (m *Model) Unlearn(t Tokens, c Class) {
	switch c {
	case Junk:
		m.junk = max(m.junk-1, 0)
	case Good:
		m.good = max(m.good-1, 0)
	default:
		return
	}
	m.make()
	for _, h := range t {
		m.counts[h>>(32-m.bits)].subtract(c)
	}
}

func (n *count) of(c Class) *uint16 {
	if c == Junk {
		return &n.junk
	}
	return &n.good
}

func (n *count) add(c Class) {
	if p := n.of(c); *p < math.MaxUint16 {
		*p++
	}
}

func (n *count) subtract(c Class) {
	if p := n.of(c); *p > 0 {
		*p--
	}
}

// age halves the counts of a class. The shares of the other class stay.
func (m *Model) age(c Class) {
	for i := range m.counts {
		*m.counts[i].of(c) /= 2
	}
	if c == Junk {
		m.junk /= 2
	} else {
		m.good /= 2
	}
}

// Score returns a number from 0 (not junk) to 1 (junk). It is 0.5 if the tokens say nothing, or contradict each other.
func (m *Model) Score(t Tokens) float64 {
	if m.junk == 0 || m.good == 0 || m.counts == nil {
		return 0.5
	}
	clues := m.clues(t)
	if len(clues) == 0 {
		return 0.5
	}
	var junk, good float64 // sums of logarithms
	for _, f := range clues {
		junk += math.Log(1 - f)
		good += math.Log(f)
	}
	n := len(clues)
	return (1 + chiSquare(-2*good, n) - chiSquare(-2*junk, n)) / 2
}

// clues returns the probabilities of the tokens that decide. They are farthest from 0.5; of equally far ones the first
// in the message count.
func (m *Model) clues(t Tokens) []float64 {
	all := make([]float64, 0, len(t))
	var far [256]int // number of probabilities by distance
	for _, h := range t {
		f := m.probability(m.counts[h>>(32-m.bits)])
		if d := math.Abs(f - 0.5); d >= leastClue {
			all = append(all, f)
			far[distance(f)]++
		}
	}
	if len(all) <= maxClues {
		return all
	}
	least, room := len(far), maxClues
	for room > 0 && least > 0 {
		least--
		room -= far[least]
	}
	room += far[least] // those at the least distance that still count
	out := all[:0]
	for _, f := range all {
		switch d := distance(f); {
		case d > least:
			out = append(out, f)
		case d == least && room > 0:
			out, room = append(out, f), room-1
		}
	}
	return out
}

// distance returns the distance of a probability from 0.5 in steps, from 0 to 255.
func distance(f float64) int { return min(int(math.Abs(f-0.5)*512), 255) }

// probability returns the probability that a message with a token is junk: the share of junk if both classes had as
// many messages. The neutral observations are divided between the classes by their numbers of messages. So one
// occurrence in the larger class is weaker evidence than one in the smaller, unlike in Robinson's f(w); for classes of
// equal size it differs from f(w) only by the factor 2 of strength.
func (m *Model) probability(n count) float64 {
	if n.junk == 0 && n.good == 0 {
		return 0.5
	}
	junk, good := min(float64(n.junk)/float64(m.junk), 1), min(float64(n.good)/float64(m.good), 1)
	neutral := strength / float64(m.junk+m.good)
	return (junk + neutral) / (junk + good + 2*neutral)
}

// chiSquare returns the probability that a chi-square variable with 2n degrees of freedom is at least x. For an x so
// large that the first term underflows, the result is 0.
func chiSquare(x float64, n int) float64 {
	half := x / 2
	term := math.Exp(-half)
	sum := term
	for i := 1; i < n; i++ {
		term *= half / float64(i)
		sum += term
	}
	return min(sum, 1)
}
