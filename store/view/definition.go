package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"doublet/note"
)

// ItemView is the item of a design note that holds a view's definition, as JSON text.
const ItemView = "View"

// The bounds of a definition.
const (
	maxDefinition = 64 << 10
	maxColumns    = 32
	// maxShown bounds the bytes of one value in an entry. maxEntries bounds the rows of one document under different
	// categories.
	maxShown   = 1024
	maxEntries = 64
)

// Column is a column of a view.
type Column struct {
	// Item is the dotted path of the value that the column shows; _id is the note's UNID.
	Item string `json:"item"`
	// Sort is asc, desc or none (the default is none, or asc for categories).
	Sort string `json:"sort,omitempty"`
	// Category groups entries by this column. Categories come before other sorted columns. A document with a list
	// appears under each element of the list.
	Category bool `json:"category,omitempty"`
	// Total is sum, count or none (the default).
	Total string `json:"total,omitempty"`

	path []string
}

// Definition is the definition of a view in its design note.
type Definition struct {
	Name     string          `json:"name"`
	Selector json.RawMessage `json:"selector,omitempty"`
	Columns  []Column        `json:"columns"`

	selector   *Selector
	categories int
	hash       [16]byte
}

// ParseDefinition parses a definition.
func ParseDefinition(data []byte) (*Definition, error) {
	if len(data) > maxDefinition {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrDefinition, maxDefinition)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	d := &Definition{}
	if err := dec.Decode(d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDefinition, err)
	}
	if dec.More() {
		return nil, fmt.Errorf("%w: more than one JSON value", ErrDefinition)
	}
	if len(d.Columns) == 0 || len(d.Columns) > maxColumns {
		return nil, fmt.Errorf("%w: a view has 1 to %d columns", ErrDefinition, maxColumns)
	}
	sorted := false
	for i := range d.Columns {
		c := &d.Columns[i]
		if err := c.check(); err != nil {
			return nil, err
		}
		if c.Category {
			if sorted {
				return nil, fmt.Errorf("%w: category %s follows a sorted column", ErrDefinition, c.Item)
			}
			d.categories++
		}
		sorted = sorted || !c.Category && c.Sort != "none"
	}
	sel := []byte(d.Selector)
	if len(sel) == 0 {
		sel = []byte("{}")
	}
	var err error
	if d.selector, err = ParseSelector(sel); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte{formatVersion}, data...))
	copy(d.hash[:], sum[:])
	return d, nil
}

// formatVersion is raised when the rows of views change. Views of an older version are then rebuilt.
const formatVersion = 1

func (c *Column) check() error {
	if c.Item == "" {
		return fmt.Errorf("%w: a column without item", ErrDefinition)
	}
	c.path = splitPath(c.Item)
	switch c.Sort {
	case "asc", "desc":
	case "", "none":
		if c.Sort = "none"; c.Category {
			c.Sort = "asc"
		}
	default:
		return fmt.Errorf("%w: sort %q of column %s is not asc, desc or none", ErrDefinition, c.Sort, c.Item)
	}
	switch c.Total {
	case "sum", "count", "none":
	case "":
		c.Total = "none"
	default:
		return fmt.Errorf("%w: total %q of column %s is not sum, count or none", ErrDefinition, c.Total, c.Item)
	}
	return nil
}

// row is one row of a document in a view.
type row struct {
	key   []byte // the sort key, without the note id
	value entryValue
}

// fields returns a function that returns a document's items by name, for the selector.
func fields(u note.UNID, c *note.Content) func(string) (any, bool) {
	return func(name string) (any, bool) {
		if name == "_id" {
			return u.String(), true
		}
		v := c.Items.Get(name)
		return v.Any(), v != nil
	}
}

// rows computes the rows of a document, at most maxEntries. It is one row, or one for each combination of elements of
// the lists that the document is categorized by. There are none if the document is not selected.
func (d *Definition) rows(u note.UNID, c *note.Content) []row {
	f := fields(u, c)
	if !d.selector.Match(f) {
		return nil
	}
	out := []row{{}}
	for i := range d.Columns {
		col := &d.Columns[i]
		v, _ := resolve(f, col.path)
		values := []any{v}
		if list, ok := v.([]any); ok && col.Category && len(list) > 0 {
			values = distinct(list)
		}
		next := make([]row, 0, min(maxEntries, len(out)*len(values)))
		for _, r := range out {
			for _, v := range values {
				if len(next) == maxEntries {
					break
				}
				next = append(next, r.with(col, v))
			}
		}
		out = next
	}
	return out
}

func distinct(list []any) []any {
	seen := map[string]bool{}
	var out []any
	for _, v := range list {
		if k := string(appendKey(nil, v)); !seen[k] && len(out) < maxEntries {
			seen[k] = true
			out = append(out, v)
		}
	}
	return out
}

// with returns the row with a column added.
func (r row) with(col *Column, v any) row {
	out := row{key: append([]byte(nil), r.key...)}
	out.value.ends = append([]int(nil), r.value.ends...)
	out.value.values = append(append([]note.Value(nil), r.value.values...), shown(v))
	if col.Sort != "none" {
		out.key = col.appendKey(out.key, v)
	}
	if col.Category {
		out.value.ends = append(out.value.ends, len(out.key))
	}
	return out
}

func (c *Column) appendKey(dst []byte, v any) []byte {
	n := len(dst)
	dst = appendKey(dst, v)
	if c.Sort == "desc" {
		invert(dst[n:])
	}
	return dst
}

// shown returns a value as an entry shows it. Long texts are cut, other long values left out.
func shown(v any) note.Value {
	if s, ok := v.(string); ok {
		if len(s) > maxShown {
			s = s[:maxShown]
			for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-4):]) && len(s) > maxShown-4 {
				s = s[:len(s)-1]
			}
		}
		return note.Text(s)
	}
	b, err := json.Marshal(v)
	if err != nil || len(b) > maxShown {
		return null
	}
	out, err := note.FromJSON(b)
	if err != nil {
		return null
	}
	return out
}

var null = note.Value{'z'}

// total returns the amount that an entry adds to a column's total.
func (c *Column) total(v note.Value) float64 {
	switch c.Total {
	case "sum":
		return number(v.Any())
	case "count":
		if v.Any() != nil {
			return 1
		}
	}
	return 0
}
