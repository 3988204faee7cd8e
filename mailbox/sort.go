package mailbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"doublet/wire/imap"
	"doublet/wire/mime"
)

// maxSortText bounds the bytes that a text adds to a sort key. Texts with the same first maxSortText bytes compare
// equal.
const maxSortText = 256

// sortable is a match and the position of its key in the arena.
type sortable struct {
	Match
	at, end int
}

const sortableSize = 32 // bytes

// Sort returns the messages that match, sorted by keys and then by UID. It computes keys from rows and stored
// envelopes, and reads no message. Texts compare by i;unicode-casemap.
//
// Implements: RFC 5256 §3 sort keys
// Implements: RFC 5957 §3 DISPLAYFROM and DISPLAYTO
// Implements: RFC 5051 i;unicode-casemap
func (v *View) Sort(ctx context.Context, c *Criteria, by []imap.SortKey, o SearchOptions) ([]Match, error) {
	var all []sortable
	var arena []byte // the keys; comparing their bytes gives the order
	mem := room{ask: o.Room}
	err := v.scan(ctx, c, o, func(s *search) error {
		start := len(arena)
		var err error
		for _, k := range by {
			at := len(arena)
			if arena, err = s.appendSortKey(arena, k.Field); err != nil {
				return err
			}
			if k.Reverse {
				for i := at; i < len(arena); i++ {
					arena[i] = ^arena[i]
				}
			}
		}
		all = append(all, sortable{s.found(), start, len(arena)})
		return mem.take(sortableSize + len(arena) - start)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b sortable) int {
		if n := bytes.Compare(arena[a.at:a.end], arena[b.at:b.end]); n != 0 {
			return n
		}
		return int(int64(a.UID) - int64(b.UID))
	})
	out := make([]Match, len(all))
	for i := range all {
		out[i] = all[i].Match
	}
	return out, nil
}

// appendSortKey appends one sort key of the current message.
func (s *search) appendSortKey(dst []byte, f imap.SortField) ([]byte, error) {
	switch f {
	case imap.SortArrival:
		return appendSortNumber(dst, s.m.row.Date), nil
	case imap.SortSize:
		return appendSortNumber(dst, int64(s.m.row.Size)), nil
	}
	e, err := s.env()
	if err != nil {
		return dst, err
	}
	switch f {
	case imap.SortDate:
		return appendSortNumber(dst, s.sent(e)), nil
	case imap.SortSubject:
		return appendSortText(dst, mime.BaseSubject(mime.DecodeWords(e.Subject))), nil
	case imap.SortFrom:
		return appendSortText(dst, firstMailbox(e.From)), nil
	case imap.SortTo:
		return appendSortText(dst, firstMailbox(e.To)), nil
	case imap.SortCc:
		return appendSortText(dst, firstMailbox(e.Cc)), nil
	case imap.SortDisplayFrom:
		return appendSortText(dst, displayed(e.From)), nil
	}
	return appendSortText(dst, displayed(e.To)), nil
}

// sent returns the date sent in Unix seconds, or the INTERNALDATE if the Date field is malformed.
//
// Implements: RFC 5256 §2.2 sent date
func (s *search) sent(e *mime.Envelope) int64 {
	if t, ok := mime.ParseDate(e.Date); ok {
		return t.Unix()
	}
	return s.m.row.Date
}

func firstMailbox(list []mime.Address) string {
	if len(list) == 0 {
		return ""
	}
	return list[0].Mailbox
}

// displayed returns the first address as clients display it: the name, or the address if there is no name.
func displayed(list []mime.Address) string {
	if len(list) == 0 {
		return ""
	}
	a := &list[0]
	switch {
	case a.Group:
		return mime.DecodeWords(a.Mailbox)
	case a.Name != "":
		return mime.DecodeWords(a.Name)
	case a.Host == "":
		return a.Mailbox
	}
	return a.Mailbox + "@" + a.Host
}

func appendSortNumber(dst []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(n)^1<<63)
}

// appendSortText appends a text such that it sorts before longer texts that begin with it. Two NULs end the text; a NUL
// in it is followed by 0xff.
func appendSortText(dst []byte, s string) []byte {
	s = mime.Casemap(s)
	for s = s[:min(len(s), maxSortText)]; ; {
		i := strings.IndexByte(s, 0)
		if i < 0 {
			break
		}
		dst = append(append(dst, s[:i+1]...), 0xff)
		s = s[i+1:]
	}
	return append(append(dst, s...), 0, 0)
}
