package note

import (
	"encoding/binary"
	"slices"
	"strings"
)

// StateKind is the kind of a state item.
type StateKind uint8

// The kinds of state. The key of a Keyword is the keyword in canonical spelling. The key of Seen and Subscribed is the
// person's UNID as 16 bytes, that of Member the folder's UNID as 16 bytes.
const (
	Keyword StateKind = iota + 1
	Seen
	Member
	Subscribed
)

// The values of a state item. Only a Member can be Deleted.
const (
	Off uint8 = iota
	On
	// Deleted is a live membership that is marked \Deleted.
	Deleted
)

// StateItem is one last-writer-wins register of a note's state.
type StateItem struct {
	Kind  StateKind
	Key   string
	Value uint8
	Stamp Stamp
}

// State holds the flags and memberships of a note, sorted by kind and key. Replicas converge without coordination: they
// keep the item with the greater stamp. Items that are Off stay, for their stamps.
type State []StateItem

func (s State) find(kind StateKind, key string) (int, bool) {
	return slices.BinarySearchFunc(s, 0, func(it StateItem, _ int) int {
		if it.Kind != kind {
			return int(it.Kind) - int(kind)
		}
		return strings.Compare(it.Key, key)
	})
}

// Get returns the value of an item and its stamp, or Off if there is none.
func (s State) Get(kind StateKind, key string) (uint8, Stamp) {
	i, ok := s.find(kind, key)
	if !ok {
		return Off, Stamp{}
	}
	return s[i].Value, s[i].Stamp
}

// Set returns the state with an item written. It does not change s.
func (s State) Set(kind StateKind, key string, value uint8, at Stamp) State {
	i, ok := s.find(kind, key)
	out := slices.Clone(s)
	it := StateItem{kind, key, value, at}
	if ok {
		out[i] = it
		return out
	}
	return slices.Insert(out, i, it)
}

// wins reports whether a replaces b: the greater stamp wins. Correct replicas never produce equal stamps; for those the
// greater value wins, so that every replica decides in the same way.
func (a StateItem) wins(b StateItem) bool {
	if a.Stamp != b.Stamp {
		return b.Stamp.Less(a.Stamp)
	}
	return a.Value > b.Value
}

// MergeState merges two states item by item. It is commutative, associative and idempotent.
func MergeState(a, b State) State {
	out := make(State, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		c := int(a[0].Kind) - int(b[0].Kind)
		if c == 0 {
			c = strings.Compare(a[0].Key, b[0].Key)
		}
		switch {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			if b[0].wins(a[0]) {
				out = append(out, b[0])
			} else {
				out = append(out, a[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	out = append(out, a...)
	return append(out, b...)
}

// AppendState appends the encoding of s.
func AppendState(dst []byte, s State) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	for _, it := range s {
		dst = append(dst, byte(it.Kind), it.Value)
		dst = appendString(dst, it.Key)
		dst = AppendStamp(dst, it.Stamp)
	}
	return dst
}

// ReadState decodes the output of AppendState and returns the rest of b.
func ReadState(b []byte) (State, []byte, error) {
	n, b, err := readCount(b, 19)
	if err != nil {
		return nil, nil, err
	}
	s := make(State, n)
	for i := range s {
		if len(b) < 2 {
			return nil, nil, ErrCorrupt
		}
		s[i].Kind, s[i].Value = StateKind(b[0]), b[1]
		if s[i].Key, b, err = readString(b[2:]); err != nil {
			return nil, nil, err
		}
		if s[i].Stamp, b, err = ReadStamp(b); err != nil {
			return nil, nil, err
		}
	}
	return s, b, nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func readString(b []byte) (string, []byte, error) {
	p, rest, err := readBytes(b)
	return string(p), rest, err
}

func readBytes(b []byte) (p, rest []byte, err error) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, ErrCorrupt
	}
	return b[k : k+int(n)], b[k+int(n):], nil
}

func readUvarint(b []byte) (uint64, []byte, error) {
	v, k := binary.Uvarint(b)
	if k <= 0 {
		return 0, nil, ErrCorrupt
	}
	return v, b[k:], nil
}

// readCount reads a count of entries of at least size bytes each. It checks the count against the length of b, so that
// a damaged count cannot cause a large allocation.
func readCount(b []byte, size int) (int, []byte, error) {
	n, b, err := readUvarint(b)
	if err != nil || n > uint64(len(b)/size) {
		return 0, nil, ErrCorrupt
	}
	return int(n), b, nil
}
