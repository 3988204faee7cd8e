package junk

import (
	"errors"
	"strings"

	"doublet/mail/bayes"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Keywords of the IANA registry of IMAP and JMAP keywords.
const (
	junkKeyword    = "$junk"
	notJunkKeyword = "$notjunk"
	forwarded      = "$forwarded"
)

// evidence is the meaning of a message's state for the filter.
type evidence uint8

const (
	// nothing: what was learned before is taken back.
	nothing evidence = iota
	// none: the message has never been of use, so that nothing has to be looked up.
	none
	isJunk
	isGood
	// isRead: the owner read the message and left it in the INBOX. This is weak.
	isRead
	// isDeleted: junk that is deleted stays junk; other deleted mail says nothing.
	isDeleted
	// isSent: the owner wrote it.
	isSent
)

// class returns the class of a message, which was learned as was. weak is set if weak evidence counts.
func (v evidence) class(was bayes.Class, weak bool) bayes.Class {
	switch {
	case v == isJunk, v == isDeleted && was == bayes.Junk:
		return bayes.Junk
	case v == isGood, v == isRead && (weak || was == bayes.Good):
		return bayes.Good
	}
	return bayes.Unknown
}

// places are the standard folders of a mail file.
type places struct {
	inbox, junk, trash, sent, drafts note.ID
	below                            string // prefix of the names of the folders below Trash
	junkState                        string // key of the junk folder in the state of messages
}

func placesOf(r *store.Reader) (p places, err error) {
	for _, x := range []struct {
		use string
		id  *note.ID
	}{{mailbox.Inbox, &p.inbox}, {mailbox.UseJunk, &p.junk}, {mailbox.UseTrash, &p.trash},
		{mailbox.UseSent, &p.sent}, {mailbox.UseDrafts, &p.drafts}} {
		if *x.id, err = mailbox.FindUse(r, x.use); err != nil && !errors.Is(err, store.ErrNotFound) {
			return p, err
		}
	}
	if p.junk != 0 {
		row, err := r.Note(p.junk)
		if err != nil {
			return p, err
		}
		p.junkState = string(row.UNID[:])
	}
	if p.trash != 0 {
		h, err := r.Folder(p.trash)
		if err != nil {
			return p, err
		}
		p.below = h.Name + "/"
	}
	return p, nil
}

// found is a set of kinds of folders.
type found struct{ inbox, junk, sent, filed bool }

func (p *places) find(r *store.Reader, n *layout.Note) (in found) {
	for _, m := range n.Members {
		h, err := r.Folder(m.Folder)
		if err != nil || m.Deleted || strings.HasPrefix(h.Name, mailbox.Hidden) {
			continue
		}
		switch m.Folder {
		case p.inbox:
			in.inbox = true
		case p.junk:
			in.junk = true
		case p.sent, p.drafts:
			in.sent = true
		case p.trash:
		default:
			in.filed = in.filed || p.below == "" || !strings.HasPrefix(h.Name, p.below)
		}
	}
	return in
}

// marks holds the state items of a message, as far as they matter.
type marks struct {
	junk, good, draft, answered, seen bool
	leftJunk                          bool // it was in the junk folder
	// junkAt and goodAt are the times of the keywords, movedAt that at which it came into the junk folder or left it.
	junkAt, goodAt, movedAt note.Stamp
	folders                 int // in which it is or was
	// untouched is set if it never had a keyword, was never seen, and never left its folder.
	untouched bool
}

func (p *places) marks(n *layout.Note) (m marks) {
	m.untouched = true
	for _, it := range n.State {
		on := it.Value != note.Off
		switch it.Kind {
		case note.Seen:
			m.seen, m.untouched = m.seen || on, false
		case note.Member:
			m.folders++
			m.untouched = m.untouched && m.folders == 1
			if it.Key == p.junkState {
				m.leftJunk, m.movedAt = !on, it.Stamp
			}
		case note.Keyword:
			m.untouched = false
			switch strings.ToLower(it.Key) {
			case junkKeyword:
				m.junk, m.junkAt = on, it.Stamp
			case notJunkKeyword:
				m.good, m.goodAt = on, it.Stamp
			case mailbox.Draft:
				m.draft = on
			case mailbox.Answered, forwarded:
				m.answered = m.answered || on
			}
		}
	}
	return m
}

// evidence returns what the state of a message says. It depends on nothing else, so that it does not matter how often,
// when and on which member of a cluster the message is looked at.
//
// A keyword decides first: $Junk or $NotJunk, neither if both are set, and not if the message was taken out of Junk or
// put into it later: programs that undo a move leave the keyword. Then the folder: a message that was put into Junk
// from another folder is junk; one that was delivered there is not, because the filter would learn from itself. One
// that was taken out of Junk, or is answered, forwarded, or read and filed, is good.
func (p *places) evidence(r *store.Reader, n *layout.Note) evidence {
	if n.Stub || n.Class != note.Document || n.Recipe == 0 {
		return none
	}
	m, in := p.marks(n), p.find(r, n)
	switch {
	case m.draft:
		return none
	case in.sent:
		return isSent
	case m.untouched:
		return none // as it was delivered
	}
	junk := m.junk && !(m.leftJunk && m.junkAt.Less(m.movedAt))
	good := m.good && !(in.junk && m.folders > 1 && m.goodAt.Less(m.movedAt))
	if junk != good {
		if junk {
			return isJunk
		}
		return isGood
	}
	return m.filed(in)
}

// filed returns what the folders, \Seen and \Answered say.
func (m *marks) filed(in found) evidence {
	switch {
	case in.junk && m.folders > 1:
		return isJunk
	case in.junk:
		return nothing
	case !in.inbox && !in.filed:
		return isDeleted
	case m.leftJunk, m.answered, m.seen && in.filed:
		return isGood
	case m.seen:
		return isRead
	}
	return nothing
}
