package imapd

import (
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/imap"
)

// list prints the mailboxes that match.
//
// Implements: RFC 9051 §6.3.9 LIST
// Implements: RFC 5258 LIST-EXTENDED
// Implements: RFC 5819 LIST-STATUS
// Implements: RFC 6154 §2 SPECIAL-USE
// Implements: RFC 8440 §3 LIST-MYRIGHTS
func (s *session) list(cmd *imap.Command) {
	a := cmd.Args.(*imap.List)
	if !a.Extended && a.Patterns[0] == "" {
		// An empty pattern requests the separator.
		root := imap.ListData{Attrs: []string{`\Noselect`}, Delimiter: separator}
		s.out.B = imap.AppendList(s.out.B, "LIST", &root, s.in.UTF8)
		s.done(cmd, "", "LIST completed")
		return
	}
	patterns := fullPatterns(a)
	folders, err := s.folders(patterns)
	if err == nil && a.Select&imap.ListSubscribed != 0 {
		folders, err = s.withOutlived(folders, patterns)
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if a.Return&imap.ListStatus != 0 && a.Status&imap.StatusHighestModSeq != 0 {
		s.enableCondstore()
	}
	compiled := compile(patterns)
	for i := range folders {
		f := &folders[i]
		if !matches(compiled, f.Name) {
			continue
		}
		below := a.Select&imap.ListRecursiveMatch != 0 && subscribedBelow(folders[i+1:], f.Name, a.Select)
		s.listFolder(a, f, below)
		if len(s.out.B) > sendAt && s.flush() != nil {
			return
		}
	}
	s.done(cmd, "", "LIST completed")
}

// selects reports whether the selection options apply to a mailbox.
func selects(a *imap.List, f *mailbox.Folder) bool {
	return (a.Select&imap.ListSubscribed == 0 || f.Subscribed) &&
		(a.Select&imap.ListSpecialUse == 0 || f.SpecialUse != "")
}

// listFolder prints a mailbox that the patterns match, with what RETURN requests, if the selection options apply to it
// or to a mailbox below it.
func (s *session) listFolder(a *imap.List, f *mailbox.Folder, below bool) {
	own := selects(a, f)
	if !own && !below {
		return
	}
	s.out.B = s.appendList(s.out.B, "LIST", f, a.Select|a.Return, below && !own)
	if a.Return&imap.ListMyRights != 0 && own && f.UIDValidity != 0 {
		s.out.B = imap.AppendMyRights(s.out.B, f.Name, withOld(f.Rights), s.in.UTF8)
	}
	if a.Return&imap.ListMetadata != 0 && own && f.UIDValidity != 0 {
		s.listMetadata(f.Name, a.Metadata)
	}
	if a.Return&imap.ListStatus != 0 && f.Rights&note.Read != 0 {
		s.appendStatus(f, a.Status)
	}
}

// appendList prints one mailbox. \Subscribed is included if requested, the special use always.
func (s *session) appendList(dst []byte, verb string, f *mailbox.Folder, options imap.ListOption, below bool) []byte {
	var room [4]string
	d := s.listData(room[:0], f, options, below)
	return imap.AppendList(dst, verb, &d, s.in.UTF8)
}

// withOutlived adds the deleted mailboxes to which the person is still subscribed.
//
// Implements: RFC 9051 §6.3.9.4 \NonExistent in LIST (SUBSCRIBED)
func (s *session) withOutlived(folders []mailbox.Folder, patterns []string) ([]mailbox.Folder, error) {
	names, err := s.file.Outlived(s.c.Context())
	if err != nil || !reach(patterns, mailbox.OthersPrefix, mailbox.SharedPrefix) {
		return mailbox.WithOutlived(folders, names), err
	}
	list, err := s.shares()
	for i := 0; i < len(list) && err == nil; i++ {
		f := s.srv.backend.Mail().SharedFile(s.account.Who, list[i].ID, list[i].prefix)
		more, err := mailbox.Visible(f.Outlived(s.c.Context()))
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	return mailbox.WithOutlived(folders, names), err
}

// listData returns the data that appendList prints; it appends attributes to attrs.
func (s *session) listData(attrs []string, f *mailbox.Folder, options imap.ListOption, below bool) imap.ListData {
	switch {
	case f.Gone:
		attrs = append(attrs, `\NonExistent`)
	case f.Rights&note.Read == 0:
		attrs = append(attrs, `\Noselect`)
	}
	switch {
	case f.HasChildren:
		attrs = append(attrs, `\HasChildren`)
	case !f.Gone:
		attrs = append(attrs, `\HasNoChildren`)
	}
	if options&imap.ListSubscribed != 0 && f.Subscribed {
		attrs = append(attrs, `\Subscribed`)
	}
	if f.SpecialUse != "" {
		attrs = append(attrs, useAttribute(f.SpecialUse))
	}
	d := imap.ListData{Attrs: attrs, Delimiter: separator, Mailbox: f.Name}
	if below {
		if options&imap.ListSubscribed != 0 {
			d.ChildInfo = append(d.ChildInfo, "SUBSCRIBED")
		}
		if options&imap.ListSpecialUse != 0 {
			d.ChildInfo = append(d.ChildInfo, "SPECIAL-USE")
		}
	}
	return d
}

func useAttribute(use string) string {
	switch use { // common values without allocation
	case mailbox.UseDrafts:
		return `\Drafts`
	case mailbox.UseSent:
		return `\Sent`
	case mailbox.UseArchive:
		return `\Archive`
	case mailbox.UseJunk:
		return `\Junk`
	case mailbox.UseTrash:
		return `\Trash`
	}
	return `\` + use
}

// fullPatterns returns the patterns with the reference name as a prefix.
func fullPatterns(a *imap.List) []string {
	if a.Reference == "" {
		return a.Patterns
	}
	out := make([]string, len(a.Patterns))
	for i, p := range a.Patterns {
		out[i] = a.Reference + p
	}
	return out
}

// compile prepares patterns for matches.
func compile(patterns []string) []imap.Pattern {
	out := make([]imap.Pattern, len(patterns))
	for i, p := range patterns {
		out[i] = imap.CompilePattern(p)
	}
	return out
}

func matches(patterns []imap.Pattern, name string) bool {
	for i := range patterns {
		if patterns[i].Match(name) {
			return true
		}
	}
	return false
}

// subscribedBelow reports whether a selected mailbox follows below the given one in the sorted list.
//
// Implements: RFC 5258 §3.5 CHILDINFO where the parent itself was not selected for
func subscribedBelow(behind []mailbox.Folder, name string, sel imap.ListOption) bool {
	for i := range behind {
		f := &behind[i]
		if len(f.Name) <= len(name) || f.Name[len(name)] != separator || f.Name[:len(name)] != name {
			return false
		}
		if (sel&imap.ListSubscribed == 0 || f.Subscribed) && (sel&imap.ListSpecialUse == 0 || f.SpecialUse != "") {
			return true
		}
	}
	return false
}
