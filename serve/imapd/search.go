package imapd

import (
	"errors"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// search finds messages.
//
// Implements: RFC 9051 §6.4.4 SEARCH
// Implements: RFC 3501 §6.4.4 SEARCH
// Implements: RFC 4731 ESEARCH
// Implements: RFC 7162 §3.1.5 MODSEQ search
func (s *session) search(cmd *imap.Command) {
	a := cmd.Args.(*imap.Search)
	if s.utf8 && a.Charset != "" { // RFC 6855 section 3: there is only UTF-8
		s.badly(cmd, "UTF8=ACCEPT is enabled: no CHARSET")
		return
	}
	save := a.Return&imap.ReturnSave != 0
	c, err := s.criteria(&a.Key)
	if save && !errors.Is(err, errUIDRequired) { // BAD changes nothing
		s.saved = nil // a failed search also discards the old result
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if !s.maySearch(cmd, a) {
		return
	}
	o, done := s.searching(cmd)
	defer done()
	at := s.view.ModSeq()
	found, err := s.view.Search(s.c.Context(), &c, o)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if save && !s.save(found, a) {
		s.notSaved(cmd)
		return
	}
	s.found(cmd, a, found)
	if a.Return&imap.ReturnUpdate != 0 { // such a search is an extended one
		s.remember(cmd, &c, nil, found, at)
	}
	s.done(cmd, "", "SEARCH completed")
}

// maySearch enables CONDSTORE for a search by MODSEQ. It answers BAD and returns false if the tag is that of a search
// that is kept up to date.
func (s *session) maySearch(cmd *imap.Command, a *imap.Search) bool {
	if a.ModSeq {
		s.enableCondstore()
	}
	if a.Return&imap.ReturnUpdate != 0 && s.updating(cmd.Tag) {
		s.badly(cmd, "Tag is that of a search that is kept up to date")
		return false
	}
	return true
}

// found prints an ESEARCH response, or a SEARCH response as in IMAP4rev1.
func (s *session) found(cmd *imap.Command, a *imap.Search, list []mailbox.Match) {
	if a.Extended || s.rev2 {
		s.esearch(cmd.Tag, nil, a, list, cmd.UID)
		return
	}
	var mod uint64
	if a.ModSeq {
		mod = s.hear(highest(list))
	}
	s.out.B = imap.AppendSearch(s.out.B, numbers(list, cmd.UID), mod)
}

// esearch prints an ESEARCH response. in is the mailbox if the response must name it. For SORT, found is in sort order,
// which also applies to MIN, MAX and PARTIAL.
//
// Implements: RFC 9051 §7.3.4 ESEARCH
// Implements: RFC 9394 §3.1 PARTIAL of SEARCH
func (s *session) esearch(tag string, in *mailbox.Folder, a *imap.Search, found []mailbox.Match, uid bool) {
	has := a.Return &^ (imap.ReturnSave | imap.ReturnUpdate | imap.ReturnContext)
	if has == 0 {
		if a.Return&imap.ReturnUpdate != 0 {
			s.out.B = imap.AppendESearch(s.out.B, &imap.ESearch{Tag: tag, UID: uid}, s.in.UTF8)
			return
		}
		if a.Return&imap.ReturnSave != 0 {
			return // SAVE alone has no response
		}
		has = imap.ReturnAll
	}
	e := imap.ESearch{Tag: tag, UID: uid, Has: has, Count: uint32(len(found)), Partial: a.Partial}
	if in != nil {
		e.Mailbox, e.UIDValidity = in.Name, in.UIDValidity
	}
	if len(found) == 0 {
		e.Has &= imap.ReturnCount | imap.ReturnPartial
	} else {
		e.Min, e.Max = pick(found[0], uid), pick(found[len(found)-1], uid)
		if has&imap.ReturnAll != 0 {
			e.All = numbers(found, uid)
		}
		if has&imap.ReturnPartial != 0 {
			lo, hi := a.Partial.Bounds(len(found))
			e.PartialAll = numbers(found[lo:hi], uid)
		}
		if a.ModSeq {
			if e.ModSeq = highest(shown(found, a, has)); in == nil || s.shows(in) {
				s.hear(e.ModSeq)
			}
		}
	}
	s.out.B = imap.AppendESearch(s.out.B, &e, s.in.UTF8)
}

// shown returns the messages that a response refers to. With only MIN, MAX and PARTIAL these are their messages, in the
// order found, otherwise all. COUNT adds no messages to those of PARTIAL.
//
// Implements: RFC 4731 §3.2 MODSEQ of what is told
func shown(found []mailbox.Match, a *imap.Search, has imap.SearchReturn) []mailbox.Match {
	some := imap.ReturnMin | imap.ReturnMax | imap.ReturnPartial
	if has&imap.ReturnPartial == 0 {
		some = imap.ReturnMin | imap.ReturnMax
		if has&imap.ReturnCount != 0 {
			return found
		}
	}
	if len(found) == 0 || has&imap.ReturnAll != 0 || has&some == 0 {
		return found
	}
	lo, hi := 0, 0
	if has&imap.ReturnPartial != 0 {
		lo, hi = a.Partial.Bounds(len(found))
	}
	var out []mailbox.Match
	if has&imap.ReturnMin != 0 && (lo > 0 || hi == 0) {
		out = append(out, found[0])
	}
	out = append(out, found[lo:hi]...)
	if last := len(found) - 1; has&imap.ReturnMax != 0 && hi <= last && (last > 0 || len(out) == 0) {
		out = append(out, found[last])
	}
	return out
}

// maxSaved is the maximum number of ranges of UIDs that a session keeps for `$`.
const maxSaved = 50_000

// save keeps the result for `$`, as UIDs. If the result has too many ranges, save keeps nothing and returns false.
//
// Implements: RFC 5182 §2.1 SEARCHRES
// Implements: RFC 9394 §3.1 SAVE with PARTIAL
func (s *session) save(found []mailbox.Match, a *imap.Search) bool {
	s.saved = mailbox.Set{}
	for _, m := range shown(found, a, a.Return) {
		if n := len(s.saved); n > 0 && s.saved[n-1].Stop+1 == m.UID {
			s.saved[n-1].Stop = m.UID
			continue
		}
		if len(s.saved) == s.srv.maxSaved {
			s.saved = nil
			return false
		}
		s.saved = append(s.saved, mailbox.Range{Start: m.UID, Stop: m.UID})
	}
	return true
}

// notSaved answers a search whose result has too many ranges to be kept.
//
// Implements: RFC 5182 §2.1 NOTSAVED
func (s *session) notSaved(cmd *imap.Command) {
	s.no(cmd, "NOTSAVED", "The result is in too many pieces to be kept")
}

func pick(m mailbox.Match, uid bool) uint32 {
	if uid {
		return m.UID
	}
	return m.Seq
}

func numbers(found []mailbox.Match, uid bool) imap.Set {
	var set imap.Set
	for _, m := range found {
		set = set.Add(pick(m, uid))
	}
	return set
}

func highest(found []mailbox.Match) uint64 {
	var mod uint64
	for _, m := range found {
		mod = max(mod, m.ModSeq)
	}
	return mod
}
