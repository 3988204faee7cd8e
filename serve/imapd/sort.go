package imapd

import (
	"doublet/mailbox"
	"doublet/wire/imap"
)

// sort executes SORT.
//
// Implements: RFC 5256 §3 SORT
// Implements: RFC 5267 §3 ESORT
// Implements: RFC 7162 §3.1.6 MODSEQ of SORT
func (s *session) sort(cmd *imap.Command) {
	a := cmd.Args.(*imap.Sort)
	if a.Return&imap.ReturnSave != 0 {
		s.badly(cmd, "SAVE is not for SORT")
		return
	}
	c, err := s.criteria(&a.Key)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if !s.maySearch(cmd, &a.Search) {
		return
	}
	o, done := s.searching(cmd)
	defer done()
	at := s.view.ModSeq()
	found, err := s.view.Sort(s.c.Context(), &c, a.By, o)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if a.Extended {
		s.esearch(cmd.Tag, nil, &a.Search, found, cmd.UID)
		if a.Return&imap.ReturnUpdate != 0 {
			s.remember(cmd, &c, a.By, found, at)
		}
	} else {
		var mod uint64
		if a.ModSeq {
			mod = s.hear(highest(found))
		}
		numbers := make([]uint32, len(found))
		for i, m := range found {
			numbers[i] = pick(m, cmd.UID)
		}
		s.out.B = imap.AppendSort(s.out.B, numbers, mod)
	}
	s.done(cmd, "", "SORT completed")
}

var algorithms = map[string]mailbox.Algorithm{
	"ORDEREDSUBJECT": mailbox.OrderedSubject, "REFERENCES": mailbox.References, "REFS": mailbox.Refs,
}

// thread executes THREAD.
//
// Implements: RFC 5256 §3 THREAD
func (s *session) thread(cmd *imap.Command) {
	a := cmd.Args.(*imap.Thread)
	algorithm, ok := algorithms[a.Algorithm]
	if !ok {
		s.badly(cmd, "Unknown threading algorithm")
		return
	}
	c, err := s.criteria(&a.Key)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if a.ModSeq {
		s.enableCondstore()
	}
	o, done := s.searching(cmd)
	defer done()
	threads, err := s.view.Thread(s.c.Context(), &c, algorithm, cmd.UID, o)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	s.out.B = imap.AppendThread(s.out.B, threads)
	s.done(cmd, "", "THREAD completed")
}
