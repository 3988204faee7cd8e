package jmapd

import (
	"slices"
	"strconv"

	"doublet/wire/jmap"
)

// allow refuses arguments that the method does not have.
func (c *call) allow(names ...string) error {
	for i := range c.args.Len() {
		if n := c.args.Name(i); !slices.Contains(names, n) {
			return invalid("%.100q is no argument of %s", n, c.name)
		}
	}
	return nil
}

// bool is a truth value, def where it is missing.
func (c *call) bool(name string, def bool) (bool, error) {
	v := c.args.Get(name)
	if v.IsNull() {
		return def, nil
	}
	on, ok := v.Bool()
	if !ok {
		return def, invalid("%s is no boolean", name)
	}
	return on, nil
}

// uint is an UnsignedInt, def where it is missing or null.
func (c *call) uint(name string, def int64) (int64, error) {
	n, err := c.int(name, def)
	if err == nil && n < 0 {
		return def, invalid("%s is below 0", name)
	}
	return n, err
}

func (c *call) int(name string, def int64) (int64, error) {
	v := c.args.Get(name)
	if v.IsNull() {
		return def, nil
	}
	n, ok := v.Int()
	if !ok {
		return def, invalid("%s is no integer", name)
	}
	return n, nil
}

// text is a string, "" where it is missing or null.
func (c *call) text(name string) (string, error) {
	v := c.args.Get(name)
	if v.IsNull() {
		return "", nil
	}
	s, ok := v.Text()
	if !ok {
		return "", invalid("%s is no string", name)
	}
	return s, nil
}

// needText is a string that must be there.
func (c *call) needText(name string) (string, error) {
	s, ok := c.args.Get(name).Text()
	if !ok {
		return "", invalid("%s is missing, or is no string", name)
	}
	return s, nil
}

// list is a list of strings; ok is false where it is missing or null.
func (c *call) list(name string) (list []string, ok bool, err error) {
	v := c.args.Get(name)
	if v.IsNull() {
		return nil, false, nil
	}
	if v.Kind() != jmap.Array {
		return nil, false, invalid("%s is no array", name)
	}
	list = make([]string, 0, v.Len())
	for i := range v.Len() {
		s, ok := v.At(i).Text()
		if !ok {
			return nil, false, invalid("%s holds something else than strings", name)
		}
		list = append(list, s)
	}
	return list, true, nil
}

// get are the arguments of a /get.
type get struct {
	ids        []string
	all        bool // ids was null
	properties []string
	some       bool // properties was not null
}

// getArguments reads them. ids are those asked for, each once.
//
// Implements: RFC 8620 §5.1 /get
func (c *call) getArguments(personal bool, more ...string) (g get, err error) {
	if err := c.allow(append(more, "accountId", "ids", "properties")...); err != nil {
		return g, err
	}
	if err := c.needAccount(personal); err != nil {
		return g, err
	}
	ids, some, err := c.list("ids")
	if err != nil {
		return g, err
	}
	if len(ids) > c.s.opt.Limits.ObjectsInGet {
		return g, &jmap.Error{Type: "requestTooLarge", Description: "There are more ids than maxObjectsInGet."}
	}
	g.ids, g.all = c.once(ids), !some
	g.properties, g.some, err = c.list("properties")
	return g, err
}

// once leaves out what comes again, and puts ids in place of creation ids.
func (c *call) once(ids []string) []string {
	out := ids[:0]
	var seen map[string]bool
	if len(ids) > 16 {
		seen = make(map[string]bool, len(ids))
	}
	for _, id := range ids {
		if real, ok := c.real(id); ok {
			id = real
		}
		if seen == nil && !slices.Contains(out, id) || seen != nil && !seen[id] {
			out = append(out, id)
		}
		if seen != nil {
			seen[id] = true
		}
	}
	return out
}

// wants says whether a property is asked for; id always is.
func (g *get) wants(property string) bool {
	return !g.some || property == "id" || slices.Contains(g.properties, property)
}

// only refuses properties that the type does not have.
func (g *get) only(known ...string) error {
	for _, p := range g.properties {
		if !slices.Contains(known, p) {
			return invalid("%.100q is no property", p)
		}
	}
	return nil
}

// beginGet prints the head of the response to a /get, up to the bracket of its list.
func (c *call) beginGet(state string) {
	c.out = append(c.out, `{"accountId":"`...)
	c.out = append(append(c.out, c.account.ID...), `","state":`...)
	c.out = append(jmap.AppendString(c.out, state), `,"list":[`...)
}

// endGet prints its end.
func (c *call) endGet(notFound []string) {
	c.out = append(c.out, `],"notFound":`...)
	c.out = append(jmap.AppendStrings(c.out, notFound), '}')
}

// changesArguments are those of a /changes. limit 0 is none.
//
// Implements: RFC 8620 §5.2 /changes
func (c *call) changesArguments(personal bool) (since string, limit int, err error) {
	if err := c.allow("accountId", "sinceState", "maxChanges"); err != nil {
		return "", 0, err
	}
	if err := c.needAccount(personal); err != nil {
		return "", 0, err
	}
	if since, err = c.needText("sinceState"); err != nil {
		return "", 0, err
	}
	n, err := c.uint("maxChanges", 0)
	if v := c.args.Get("maxChanges"); err == nil && !v.IsNull() && n == 0 {
		err = invalid("maxChanges is 0")
	}
	return since, int(min(n, 1<<30)), err
}

// appendID prints a letter and a name in hex, in quotes.
func appendID(dst []byte, letter byte, u [16]byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"', letter)
	for _, b := range u {
		dst = append(dst, digits[b>>4], digits[b&15])
	}
	return append(dst, '"')
}

// appendIDs prints a list of them.
func appendIDs[T ~[16]byte](dst []byte, letter byte, list []T) []byte {
	dst = append(dst, '[')
	for i, u := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendID(dst, letter, u)
	}
	return append(dst, ']')
}

// hexValue is a digit's, 16 where it is none; capitals are none.
func hexValue(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 16
}

// parseID reads what appendID printed, without the quotes.
func parseID(letter byte, s string) (u [16]byte, ok bool) {
	if len(s) != 33 || s[0] != letter {
		return u, false
	}
	for i := range u {
		hi, lo := hexValue(s[1+2*i]), hexValue(s[2+2*i])
		if hi > 15 || lo > 15 {
			return u, false
		}
		u[i] = hi<<4 | lo
	}
	return u, true
}

// window are the arguments of a /query that say which of the results are wanted.
type window struct {
	position, offset int64
	anchor           string
	limit            int
	total            bool
}

// maxResults bounds the results of one query; a client that asks for more is told that there is a limit.
const maxResults = 10_000

// windowArguments reads them.
//
// Implements: RFC 8620 §5.5 /query
func (c *call) windowArguments() (w window, err error) {
	if w.position, err = c.int("position", 0); err != nil {
		return w, err
	}
	if w.anchor, err = c.text("anchor"); err != nil {
		return w, err
	}
	if w.offset, err = c.int("anchorOffset", 0); err != nil {
		return w, err
	}
	limit, err := c.uint("limit", maxResults)
	if err != nil {
		return w, err
	}
	w.limit = int(min(limit, maxResults))
	w.total, err = c.bool("calculateTotal", false)
	return w, err
}

// limited says whether the number of results has another bound than the client's.
func (c *call) limited() bool {
	n, ok := c.args.Get("limit").Int()
	return !ok || n > maxResults
}

// cut takes the window out of a list of results.
func cut[T any](w *window, list []T, index func(anchor string) int) (out []T, position int, err error) {
	from := w.position
	switch {
	case w.anchor != "":
		i := index(w.anchor)
		if i < 0 {
			return nil, 0, &jmap.Error{Type: "anchorNotFound"}
		}
		from = int64(i) + w.offset
	case from < 0:
		from += int64(len(list))
	}
	from = min(max(from, 0), int64(len(list)))
	list = list[from:]
	return list[:min(len(list), w.limit)], int(from), nil
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
