package imapd

import (
	"errors"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/imap"
)

// multiSearch executes ESEARCH, a search in several mailboxes. It answers with UIDs for each mailbox that has a
// match.
//
// Implements: RFC 7377 §2.1 ESEARCH command
func (s *session) multiSearch(cmd *imap.Command) {
	a := cmd.Args.(*imap.MultiSearch)
	if a.In == nil {
		a.In = []imap.MailboxFilter{{Kind: imap.FilterSelected}}
	}
	selected, fault := s.searchScope(a)
	if fault != "" {
		s.badly(cmd, fault)
		return
	}
	c, err := s.criteria(&a.Key)
	if selected && a.Return&imap.ReturnSave != 0 && !errors.Is(err, errUIDRequired) {
		s.saved = nil
	}
	var folders []mailbox.Folder
	if err == nil {
		folders, _, err = s.candidates(func(yield func(*imap.MailboxFilter) bool) {
			for i := 0; i < len(a.In) && yield(&a.In[i]); i++ {
			}
		})
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if a.ModSeq {
		s.enableCondstore()
	}
	s.searchAll(cmd, a, &c, folders)
}

// searchScope reports whether a search is in the selected mailbox alone. fault is the text of BAD if the arguments do
// not fit together.
func (s *session) searchScope(a *imap.MultiSearch) (selected bool, fault string) {
	if a.Return&imap.ReturnUpdate != 0 {
		return false, "UPDATE is for SEARCH and SORT"
	}
	selected = true
	for i := range a.In {
		switch kind := a.In[i].Kind; {
		case kind == imap.FilterSelectedDelayed:
			return false, "SELECTED-DELAYED is not for ESEARCH"
		case kind == imap.FilterSelected && s.view == nil:
			return false, "Select a mailbox first"
		case kind != imap.FilterSelected:
			selected = false
		}
	}
	switch {
	case !selected && a.Return&imap.ReturnSave != 0:
		return false, "SAVE is for the selected mailbox alone"
	case !selected && numbered(&a.Key):
		return false, "Message numbers and $ are for the selected mailbox alone"
	}
	return selected, ""
}

// numbered reports whether a key has message numbers or $, which are defined for the selected mailbox only.
func numbered(k *imap.SearchKey) bool {
	if k.Op == imap.OpSeq || k.Op == imap.OpUID {
		return true
	}
	for i := range k.Keys {
		if numbered(&k.Keys[i]) {
			return true
		}
	}
	return false
}

// glance opens a mailbox for reading without changing the selected one.
func (s *session) glance(name string) (*mailbox.View, error) {
	file, err := s.at(name)
	if err != nil {
		return nil, err
	}
	view, _, err := file.Select(s.c.Context(), name, true, !s.rev2)
	return view, err
}

// searched returns the readable mailboxes that a command searches, and the number of their messages.
func (s *session) searched(a *imap.MultiSearch, folders []mailbox.Folder) (wanted []mailbox.Folder, all uint64) {
	wanted = folders[:0]
	for i := range folders {
		f := &folders[i]
		for k := range a.In {
			if f.Rights&note.Read != 0 && s.filtered(&a.In[k], f) {
				all += uint64(f.Total)
				wanted = append(wanted, *f)
				break
			}
		}
	}
	return wanted, all
}

// searchIn searches one mailbox. gone is set if it does not exist any more, or may not be read, unless it is selected.
func (s *session) searchIn(f *mailbox.Folder, c *mailbox.Criteria,
	o mailbox.SearchOptions) (found []mailbox.Match, gone bool, err error) {
	view := s.view
	if !s.shows(f) {
		view, err = s.glance(f.Name)
	}
	if err == nil {
		found, err = view.Search(s.c.Context(), c, o)
	}
	gone = errors.Is(err, mailbox.ErrFolderGone) && view != s.view || errors.Is(err, mailbox.ErrNoFolder) ||
		errors.Is(err, store.ErrDenied)
	return found, gone, err
}

func (s *session) searchAll(cmd *imap.Command, a *imap.MultiSearch, c *mailbox.Criteria, folders []mailbox.Folder) {
	o, done := s.searching(cmd)
	defer done()
	wanted, all := s.searched(a, folders)
	var before uint64 // messages
	o.Tell = func(done, _ uint32) error {
		n := before + uint64(done)
		return s.progress(cmd, n, max(n, all))
	}
	for i := range wanted {
		f := &wanted[i]
		found, gone, err := s.searchIn(f, c, o)
		if gone {
			continue // deleted meanwhile, or no longer readable
		}
		if err != nil {
			s.refuse(cmd, err)
			return
		}
		if before += uint64(f.Total); a.Return&imap.ReturnSave != 0 && !s.save(found, &a.Search) {
			s.notSaved(cmd)
			return
		}
		if len(found) > 0 {
			s.esearch(cmd.Tag, f, &a.Search, found, true)
		}
		if len(s.out.B) > sendAt && s.flush() != nil {
			return
		}
	}
	s.done(cmd, "", "ESEARCH completed")
}
