package ldapd

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"

	"doublet/directory"
	"doublet/wire/ldap"
)

// cursor is the position of a search between two pages. The client keeps it in the cookie, so that the server holds
// nothing for a client that does not come back. It is no secret, but sealed with a key of the server and the content of
// the search: a client can neither invent one, to get more entries than it may, nor go on with another search.
type cursor struct {
	// before is the number of entries of the earlier pages.
	before int
	// upper is the number of entries above the records that the search has passed.
	upper int
	// kind and after are the last record of a search over all records. offset is the number of records that a selection
	// or a sorted search has passed.
	kind   directory.TargetKind
	after  string
	offset int
}

// rank is the order in which a search reads the kinds.
func rank(k directory.TargetKind) int {
	return slices.Index([]directory.TargetKind{0, directory.TargetPerson, directory.TargetMailIn,
		directory.TargetGroup}, k)
}

// reaches reports whether records of a kind are left.
func (c *cursor) reaches(kind directory.TargetKind) bool { return rank(kind) >= rank(c.kind) }

// enter begins to read a kind, and returns the name after which records are left.
func (c *cursor) enter(kind directory.TargetKind) (after string) {
	if c.kind != kind {
		c.kind, c.after = kind, ""
	}
	return c.after
}

func (c *cursor) append() []byte {
	b := binary.AppendUvarint(nil, uint64(c.before))
	b = binary.AppendUvarint(b, uint64(c.offset))
	return append(append(b, byte(c.upper), byte(c.kind)), c.after...)
}

// sealSize is the size of the seal at the beginning of a cookie in bytes.
const sealSize = 16

// cookie returns the cookie of the next page.
func (x *search) cookie() []byte {
	b := x.cursor.append()
	return append(x.seal(b), b...)
}

func (x *search) seal(cursor []byte) []byte {
	h := hmac.New(sha256.New, x.srv.seal[:])
	h.Write(x.contentHash())
	h.Write(cursor)
	return h.Sum(nil)[:sealSize]
}

// resume sets the cursor to that of a cookie.
func (x *search) resume(cookie []byte) (err error) {
	if len(cookie) < sealSize || !hmac.Equal(cookie[:sealSize], x.seal(cookie[sealSize:])) {
		return errCookie
	}
	x.cursor, err = parseCursor(cookie[sealSize:])
	return err
}

var errCookie = errors.New("ldapd: cookie is not of this search")

func parseCursor(b []byte) (c cursor, err error) {
	before, n := binary.Uvarint(b)
	if n <= 0 || before == 0 || before > 1<<40 {
		return c, errCookie
	}
	offset, m := binary.Uvarint(b[n:])
	if m <= 0 || offset > 1<<40 || len(b) < n+m+2 {
		return c, errCookie
	}
	b = b[n+m:]
	c = cursor{before: int(before), offset: int(offset), upper: int(b[0]), kind: directory.TargetKind(b[1]),
		after: string(b[2:])}
	if rank(c.kind) < 0 || len(c.after) > 1024 {
		return c, errCookie
	}
	return c, nil
}

// controls reads the controls of a search. It answers the search and returns false if one of them forbids it.
//
// Implements: RFC 2696 §3 Client-server interaction of paged results
// Implements: RFC 2891 §2 Client-server interaction of server-side sorting
func (x *search) controls(m *ldap.Message) bool {
	for i := range m.Controls {
		c := &m.Controls[i]
		switch c.OID {
		case ldap.OIDPaged:
			p, err := ldap.ParsePaged(c.Value)
			if err != nil {
				x.s.reply(m, ldap.Result{Code: ldap.ProtocolError, Text: "malformed control for pages"})
				return false
			}
			if len(p.Cookie) > 0 && x.resume(p.Cookie) != nil {
				x.s.reply(m, ldap.Result{Code: ldap.UnwillingToPerform,
					Text: "the cookie is not of this search: begin again"})
				return false
			}
			x.paged = &p
		case ldap.OIDSort:
			keys, err := ldap.ParseSort(c.Value)
			if err != nil {
				x.s.reply(m, ldap.Result{Code: ldap.ProtocolError, Text: "malformed control for sorting"})
				return false
			}
			if !x.sort(m, keys, c.Critical) {
				return false
			}
		case ldap.OIDSync:
			if !x.controlSync(m, c) {
				return false
			}
		default:
			if c.Critical {
				x.s.reply(m, ldap.Result{Code: ldap.UnavailableCriticalExtension, Text: "unknown control " + c.OID})
				return false
			}
		}
	}
	if x.sync != nil && (x.paged != nil || x.sorter != nil) {
		x.s.reply(m, ldap.Result{Code: ldap.UnwillingToPerform, Text: "synchronization has no pages and no order"})
		return false
	}
	if x.sorter != nil { // each page sorts all entries again
		x.cursor = cursor{before: x.cursor.before}
	}
	return true
}

// sort prepares sorting by keys. If the server cannot sort by them, it answers a search that must be sorted.
func (x *search) sort(m *ldap.Message, keys []ldap.SortKey, critical bool) bool {
	s := &sorter{}
	for _, k := range keys {
		a := attributeNamed(k.Type)
		key := sortKey{attribute: a, reverse: k.Reverse}
		code := ldap.Success
		if a == nil {
			code = ldap.NoSuchAttribute
		} else if key.rule = orderingRule(a, k.Rule); key.rule == nil {
			code = ldap.InappropriateMatching
		}
		if code != ldap.Success {
			c := ldap.Control{OID: ldap.OIDSortResponse, Value: ldap.AppendSortResult(nil, code, k.Type), Valued: true}
			x.result.Controls = append(x.result.Controls, c)
			if critical {
				x.result.Code, x.result.Text = ldap.UnavailableCriticalExtension, "cannot sort by "+k.Type
				x.s.reply(m, x.result)
			}
			return !critical
		}
		s.keys = append(s.keys, key)
	}
	x.sorter = s
	return true
}

// orderingRule returns the rule by which an attribute is sorted, nil if that is not possible.
func orderingRule(a *attribute, name string) *rule {
	r := a.rule
	switch name {
	case "", "caseIgnoreOrderingMatch", "2.5.13.3":
	case "caseExactOrderingMatch", "2.5.13.6":
		r = ruleExact
	default:
		if r = ruleNamed(name); r == nil { // many clients name the equality rule
			return nil
		}
	}
	if !r.ordered || !a.rule.ordered {
		return nil
	}
	return r
}

type sortKey struct {
	attribute *attribute
	rule      *rule
	reverse   bool
}

// sorter collects the entries of a search and sorts them.
type sorter struct {
	keys []sortKey
	list []sorted
}

// sorted is an entry with the least value of each key.
type sorted struct {
	entry entry
	have  []bool
	least []string
}

func (s *sorter) add(x *search, e *entry) error {
	if len(s.list) >= maxSorted {
		return x.end(ldap.AdminLimitExceeded, "too many entries to sort")
	}
	one := sorted{entry: *e, have: make([]bool, len(s.keys)), least: make([]string, len(s.keys))}
	for i, k := range s.keys {
		if e.hidden(k.attribute) {
			continue
		}
		for _, v := range e.get(k.attribute) {
			if n, ok := k.rule.normal(v); ok && (!one.have[i] || n < one.least[i]) {
				one.have[i], one.least[i] = true, n
			}
		}
	}
	s.list = append(s.list, one)
	return nil
}

// compare orders two entries. An entry without a value is greater than all others (RFC 2891 section 2.2).
func (s *sorter) compare(a, b sorted) int {
	for i, k := range s.keys {
		n := cmp.Compare(a.least[i], b.least[i])
		if a.have[i] != b.have[i] {
			n = 1
			if a.have[i] {
				n = -1
			}
		}
		if k.reverse {
			n = -n
		}
		if n != 0 {
			return n
		}
	}
	return 0
}

// flushSorted sends the entries of a sorted search in their order.
func (x *search) flushSorted() error {
	if x.sorter == nil {
		return nil
	}
	list := x.sorter.list
	slices.SortStableFunc(list, x.sorter.compare)
	x.result.Controls = append(x.result.Controls, ldap.Control{OID: ldap.OIDSortResponse,
		Value: ldap.AppendSortResult(nil, ldap.Success, ""), Valued: true})
	skip := 0
	if x.paged != nil {
		skip = min(x.cursor.before, len(list))
	}
	for i := range list[skip:] {
		if err := x.send(&list[skip+i].entry); err != nil {
			return err
		}
	}
	return nil
}

// endPage adds the control of a paged search to the result.
func (x *search) endPage(err error) error {
	if x.paged == nil || err != nil && !errors.Is(err, errDone) {
		return err
	}
	p := ldap.Paged{}
	if x.full {
		x.cursor.before += x.sent
		p.Cookie = x.cookie()
	}
	x.result.Controls = append(x.result.Controls, ldap.Control{OID: ldap.OIDPaged, Value: p.Append(nil), Valued: true})
	return err
}
