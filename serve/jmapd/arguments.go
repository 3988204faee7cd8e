package jmapd

import (
	"slices"
	"strconv"

	"doublet/wire/jmap"
)

// allow returns an error for an argument that the method does not have.
func (c *call) allow(names ...string) error {
	for i := range c.args.Len() {
		if n := c.args.Name(i); !slices.Contains(names, n) {
			return invalid("%.100q is no argument of %s", n, c.name)
		}
	}
	return nil
}

// bool returns a boolean argument, or def if it is missing or null.
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

// uint returns an UnsignedInt argument, or def if it is missing or null.
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

// text returns a string argument, or "" if it is missing or null.
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

// needText returns a string argument that is required.
func (c *call) needText(name string) (string, error) {
	s, ok := c.args.Get(name).Text()
	if !ok {
		return "", invalid("%s is missing, or is no string", name)
	}
	return s, nil
}

// list returns an argument that is an array of strings. ok is false if it is missing or null.
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

// get holds the arguments of a /get method.
type get struct {
	ids        []string
	all        bool // ids was null
	properties []string
	some       bool // properties was not null
}

// getArguments reads the arguments of a /get method. more names the further arguments of this one. g.ids has each id
// once.
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

// once removes repeated ids in place and replaces creation ids by the ids of the objects created.
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

// wants reports whether a property is requested. id always is.
func (g *get) wants(property string) bool {
	return !g.some || property == "id" || slices.Contains(g.properties, property)
}

// only returns an error for a property that the type does not have.
func (g *get) only(known ...string) error {
	for _, p := range g.properties {
		if !slices.Contains(known, p) {
			return invalid("%.100q is no property", p)
		}
	}
	return nil
}

// beginGet appends the response to a /get up to the opening bracket of its list.
func (c *call) beginGet(state string) {
	c.out = append(c.out, `{"accountId":"`...)
	c.out = append(append(c.out, c.account.ID...), `","state":`...)
	c.out = append(jmap.AppendString(c.out, state), `,"list":[`...)
}

// endGet appends the rest of the response, from the closing bracket of the list.
func (c *call) endGet(notFound []string) {
	c.out = append(c.out, `],"notFound":`...)
	c.out = append(jmap.AppendStrings(c.out, notFound), '}')
}

// changesArguments reads the arguments of a /changes method. A limit of 0 means none.
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

// appendID appends an id in quotes: a letter and a UNID in lower-case hex.
func appendID(dst []byte, letter byte, u [16]byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"', letter)
	for _, b := range u {
		dst = append(dst, digits[b>>4], digits[b&15])
	}
	return append(dst, '"')
}

// appendIDs appends an array of ids.
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

// hexValue returns the value of a hex digit, or 16 for any other character. Upper-case digits are not accepted: each id
// has one spelling.
func hexValue(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 16
}

// parseID parses an id that appendID printed, without the quotes.
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

// window holds the arguments of a /query that select a part of the results.
type window struct {
	position, offset int64
	anchor           string
	limit            int
	total            bool
}

// maxResults bounds the results of one query. The response states this limit if the client asked for more.
const maxResults = 10_000

// windowArguments reads the arguments of the window.
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

// limited reports whether the server applies a lower limit than the client asked for, so that the response must state
// it.
func (c *call) limited() bool {
	n, ok := c.args.Get("limit").Int()
	return !ok || n > maxResults
}

// cut returns the part of a list of results that lies in the window, and the position at which it begins.
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
