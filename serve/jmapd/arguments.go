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

// arguments returns an error for an argument that is neither accountId nor in names, and finds the account.
func (c *call) arguments(personal bool, names ...string) error {
	if err := c.allow(append(names, "accountId")...); err != nil {
		return err
	}
	return c.needAccount(personal)
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

// needIDs returns an argument that is an array of ids, each once and not more than the limit. It is required.
func (c *call) needIDs(name, limit string) ([]string, error) {
	ids, some, err := c.list(name)
	if err == nil && !some {
		err = invalid("%s is missing", name)
	}
	if err == nil {
		err = c.atMost(len(ids), "ids", limit)
	}
	return c.once(ids), err
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

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
