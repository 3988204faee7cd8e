package imapd

import (
	"cmp"
	"slices"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// maxContexts is the maximum number of updated searches in a session at one time.
const maxContexts = 8

// searchContext is a search or a sort whose result the server keeps up to date for the client (RFC 5267). Its memory
// counts as messages in flight.
type searchContext struct {
	tag      string
	uid      bool
	criteria mailbox.Criteria
	by       []imap.SortKey // nil: mailbox order
	found    []uint32       // UIDs in result order
	at       uint64         // MODSEQ up to which changes were processed
	held     int64
}

// remember keeps a search up to date from now on. If that is not possible, it notifies the client; the result is still
// valid. at is the MODSEQ of the view before the search.
//
// Implements: RFC 5267 §4.3 UPDATE
// Implements: RFC 5267 §4.3.5 NOUPDATE
func (s *session) remember(
	cmd *imap.Command, c *mailbox.Criteria, by []imap.SortKey, found []mailbox.Match, at uint64,
) {
	x := &searchContext{tag: cmd.Tag, uid: cmd.UID, by: by, at: at}
	if len(s.contexts) == maxContexts || s.fix(c) != nil || !x.keep(s, len(found)) {
		s.noUpdate(cmd.Tag)
		return
	}
	x.criteria = *c
	x.found = make([]uint32, len(found))
	for i := range found {
		x.found[i] = found[i].UID
	}
	s.contexts = append(s.contexts, x)
}

func (s *session) noUpdate(tag string) {
	code := "NOUPDATE " + string(imap.AppendString(nil, tag, false))
	s.out.B = imap.AppendResult(s.out.B, "*", imap.NO, code, "Search is not kept up to date")
}

// updating reports whether a search with this tag is kept up to date.
func (s *session) updating(tag string) bool {
	return slices.ContainsFunc(s.contexts, func(x *searchContext) bool { return x.tag == tag })
}

// fix replaces message numbers, which change, by UIDs.
func (s *session) fix(c *mailbox.Criteria) error {
	if c.Test == mailbox.TestSeq {
		set, err := s.view.Translate(s.c.Context(), c.Set, false)
		if err != nil {
			return err
		}
		c.Test, c.Set = mailbox.TestUID, set
	}
	for i := range c.All {
		if err := s.fix(&c.All[i]); err != nil {
			return err
		}
	}
	return nil
}

// keep reserves memory for n UIDs.
func (x *searchContext) keep(s *session, n int) bool {
	if more := int64(4*n) - x.held; more > 0 {
		if !s.memory().Take(more) {
			return false
		}
		x.held += more
	}
	return true
}

// dropContexts ends the contexts for which which returns true.
func (s *session) dropContexts(which func(*searchContext) bool) {
	s.contexts = slices.DeleteFunc(s.contexts, func(x *searchContext) bool {
		drop := which(x)
		if drop {
			s.memory().Give(x.held)
		}
		return drop
	})
}

// cancelUpdate ends contexts.
//
// Implements: RFC 5267 §4.3.4 CANCELUPDATE
func (s *session) cancelUpdate(cmd *imap.Command) {
	a := cmd.Args.(*imap.CancelUpdate)
	s.dropContexts(func(x *searchContext) bool { return slices.Contains(a.Tags, x.tag) })
	s.done(cmd, "", "CANCELUPDATE completed")
}

// update tests the messages that changed since the last update, and prints those that entered or left the results.
//
// Implements: RFC 5267 §4.3.1 ADDTO
// Implements: RFC 5267 §4.3.2 REMOVEFROM
func (s *session) update() {
	now := s.view.ModSeq()
	s.dropContexts(func(x *searchContext) bool {
		if x.at == now {
			return false
		}
		err := x.update(s)
		x.at = now
		if err != nil {
			s.noUpdate(x.tag)
		}
		return err != nil
	})
}

func (x *searchContext) update(s *session) error {
	ctx := s.c.Context()
	changed, err := s.view.ChangedSince(ctx, x.at)
	if err != nil || len(changed) == 0 {
		return err
	}
	among := mailbox.Criteria{Test: mailbox.TestUID, Set: changed}
	all, err := s.view.Search(ctx, &among, mailbox.SearchOptions{})
	if err != nil {
		return err
	}
	both := mailbox.Criteria{Test: mailbox.TestAll, All: []mailbox.Criteria{among, x.criteria}}
	match, err := s.view.Search(ctx, &both, mailbox.SearchOptions{})
	if err != nil {
		return err
	}
	x.remove(s, slices.DeleteFunc(all, func(m mailbox.Match) bool { return holds(match, m.UID) }))
	return x.add(s, match)
}

func holds(list []mailbox.Match, uid uint32) bool {
	_, ok := slices.BinarySearchFunc(list, uid, func(m mailbox.Match,
		uid uint32) int {
		return cmp.Compare(m.UID, uid)
	})
	return ok
}

// place returns the index of a UID in the result, or -1.
func (x *searchContext) place(uid uint32) int {
	if x.by != nil {
		return slices.Index(x.found, uid)
	}
	if i, ok := slices.BinarySearch(x.found, uid); ok {
		return i
	}
	return -1
}

// position returns a position in the result, counted from 1; 0 for a search, which has no positions.
func (x *searchContext) position(i int) uint32 {
	if x.by == nil {
		return 0
	}
	return uint32(i + 1)
}

// remove removes messages from the result, the last ones first, and prints the changes.
func (x *searchContext) remove(s *session, gone []mailbox.Match) {
	var out []imap.ContextChange
	var set imap.Set
	for i := range slices.Backward(gone) {
		at := x.place(gone[i].UID)
		if at < 0 {
			continue
		}
		x.found = slices.Delete(x.found, at, at+1)
		if n := pick(gone[i], x.uid); x.by == nil {
			set = append(set, imap.Range{Start: n, Stop: n})
		} else {
			out = append(out, imap.ContextChange{Position: x.position(at), Messages: imap.Set{{Start: n, Stop: n}}})
		}
	}
	if len(set) > 0 {
		out = []imap.ContextChange{{Messages: set.Normalize()}}
	}
	x.tell(s, "REMOVEFROM", out)
}

func (x *searchContext) tell(s *session, verb string, changes []imap.ContextChange) {
	if len(changes) > 0 {
		s.out.B = imap.AppendContextChange(s.out.B, x.tag, x.uid, verb, changes)
	}
}

// add adds messages that are not in the result yet, and prints the changes.
func (x *searchContext) add(s *session, match []mailbox.Match) error {
	fresh := slices.DeleteFunc(slices.Clone(match), func(m mailbox.Match) bool { return x.place(m.UID) >= 0 })
	if len(fresh) == 0 {
		return nil
	}
	if !x.keep(s, len(x.found)+len(fresh)) {
		return mailbox.ErrLimit
	}
	for _, m := range fresh {
		x.found = append(x.found, m.UID)
	}
	if x.by == nil {
		slices.Sort(x.found)
		x.tell(s, "ADDTO", []imap.ContextChange{{Messages: numbers(fresh, x.uid)}})
		return nil
	}
	slices.Sort(x.found)
	set := mailbox.Set{}
	for _, uid := range x.found {
		set = append(set, mailbox.Range{Start: uid, Stop: uid})
	}
	these := mailbox.Criteria{Test: mailbox.TestUID, Set: set}
	sorted, err := s.view.Sort(s.c.Context(), &these, x.by, mailbox.SearchOptions{})
	if err != nil {
		return err
	}
	var out []imap.ContextChange
	x.found = x.found[:0]
	for i, m := range sorted {
		x.found = append(x.found, m.UID)
		if holds(fresh, m.UID) {
			n := pick(m, x.uid)
			out = append(out, imap.ContextChange{Position: x.position(i), Messages: imap.Set{{Start: n, Stop: n}}})
		}
	}
	x.tell(s, "ADDTO", out)
	return nil
}

// expunged removes a message from all results before its number becomes invalid.
func (s *session) expunged(seq, uid uint32) {
	for _, x := range s.contexts {
		if x.place(uid) < 0 {
			continue
		}
		s.tellVanished() // otherwise the number would mean another message to the client
		x.remove(s, []mailbox.Match{{Seq: seq, UID: uid}})
	}
}
