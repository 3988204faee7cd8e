package stat

import (
	"slices"
	"strconv"
	"strings"
)

// Entry is one line of `show stat`. A histogram has several entries.
type Entry struct {
	Name  string  `json:"name"`
	Kind  Kind    `json:"kind"`
	Value float64 `json:"value"`
	Text  string  `json:"text,omitempty"` // the value of a KindText, otherwise empty
	Unit  string  `json:"unit,omitempty"` // "seconds", "bytes" or empty
	Help  string  `json:"help,omitempty"`
}

// String returns the entry as Domino's console prints it: `Mail.Delivered = 1234`.
func (e Entry) String() string { return e.Name + " = " + e.ValueText() }

// ValueText returns the value for people: whole numbers without a decimal point, others with at most six significant
// digits.
func (e Entry) ValueText() string {
	if e.Kind == KindText {
		return e.Text
	}
	s := ""
	if e.Value == float64(int64(e.Value)) {
		s = strconv.FormatInt(int64(e.Value), 10)
	} else {
		s = strconv.FormatFloat(e.Value, 'g', 6, 64)
	}
	if e.Unit != "" {
		s += " " + e.Unit
	}
	return s
}

// Snapshot returns the statistics whose names pattern matches (see Match), sorted by name.
func (t *Tree) Snapshot(pattern string) []Entry {
	var all []Entry
	for _, n := range t.all() {
		all = n.metric.entries(n.name, n.help, all)
	}
	all = slices.DeleteFunc(all, func(e Entry) bool { return !Match(pattern, e.Name) })
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Match reports whether a dotted name matches a console pattern, ignoring case. `*` matches any sequence of characters,
// including dots, and `?` matches one character. A pattern without either matches that name and everything below it
// (`Mail` matches `Mail.Delivered`). An empty pattern matches every name.
func Match(pattern, name string) bool {
	pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	if pattern == "" {
		return true
	}
	if !strings.ContainsAny(pattern, "*?") {
		return name == pattern || strings.HasPrefix(name, strings.TrimSuffix(pattern, ".")+".")
	}
	// Greedy matching that backtracks only to the last star takes at most len(pattern)·len(name) steps.
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
