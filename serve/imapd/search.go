package imapd

import (
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
	save := a.Return&imap.ReturnSave != 0
	c, err := s.criteria(&a.Key)
	if save {
		s.saved = nil // whatever comes now, the old result is gone
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if a.ModSeq {
		s.enableCondstore()
	}
	found, err := s.view.Search(s.c.Context(), &c)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if save {
		s.save(found, a.Return)
	}
	switch {
	case a.Extended || s.rev2:
		s.esearch(cmd, a, found)
	default:
		var mod uint64
		if a.ModSeq {
			mod = highest(found)
		}
		s.out.b = imap.AppendSearch(s.out.b, numbers(found, cmd.UID), mod)
	}
	s.done(cmd, "", "SEARCH completed")
}

// esearch prints the answer in the newer form.
//
// Implements: RFC 9051 §7.3.4 ESEARCH
func (s *session) esearch(cmd *imap.Command, a *imap.Search, found []mailbox.Match) {
	has := a.Return &^ imap.ReturnSave
	if has == 0 {
		if a.Extended {
			return // SAVE alone answers nothing
		}
		has = imap.ReturnAll
	}
	e := imap.ESearch{Tag: cmd.Tag, UID: cmd.UID, Has: has, Count: uint32(len(found))}
	if len(found) == 0 {
		e.Has &= imap.ReturnCount
	} else {
		e.Min, e.Max = pick(found[0], cmd.UID), pick(found[len(found)-1], cmd.UID)
		if has&imap.ReturnAll != 0 {
			e.All = numbers(found, cmd.UID)
		}
		if a.ModSeq {
			e.ModSeq = highest(shown(found, has))
		}
	}
	s.out.b = imap.AppendESearch(s.out.b, &e)
}

// shown are the messages that a result speaks of: with MIN and MAX alone those, else all.
func shown(found []mailbox.Match, has imap.SearchReturn) []mailbox.Match {
	if len(found) == 0 || has&(imap.ReturnAll|imap.ReturnCount) != 0 {
		return found
	}
	switch has & (imap.ReturnMin | imap.ReturnMax) {
	case imap.ReturnMin:
		return found[:1]
	case imap.ReturnMax:
		return found[len(found)-1:]
	case imap.ReturnMin | imap.ReturnMax:
		if len(found) > 1 {
			return []mailbox.Match{found[0], found[len(found)-1]}
		}
	}
	return found
}

// save keeps the result for `$`, as UIDs.
//
// Implements: RFC 5182 §2.1 SEARCHRES
func (s *session) save(found []mailbox.Match, has imap.SearchReturn) {
	s.saved = mailbox.Set{}
	for _, m := range shown(found, has) {
		if n := len(s.saved); n > 0 && s.saved[n-1].Stop+1 == m.UID {
			s.saved[n-1].Stop = m.UID
			continue
		}
		s.saved = append(s.saved, mailbox.Range{Start: m.UID, Stop: m.UID})
	}
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
