package imapd

import (
	"strconv"
	"strings"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// annotated returns the mail file that stores the annotations of a mailbox. Those of the server, "", are in the
// person's own mail file.
func (s *session) annotated(name string) (*mailbox.File, error) {
	if name == "" {
		return s.file, nil
	}
	f, _, err := s.folder(name)
	return f, err
}

// metadataRoot reports whether the name of an entry is valid: below /private or /shared.
func metadataRoot(name string) bool {
	return strings.HasPrefix(name, "/private/") || strings.HasPrefix(name, "/shared/")
}

// getMetadata reads annotations of a mailbox, or of the server.
//
// Implements: RFC 5464 §4.2 GETMETADATA
// Implements: RFC 5464 §4.2.1 MAXSIZE and DEPTH
func (s *session) getMetadata(cmd *imap.Command) {
	a := cmd.Args.(*imap.Metadata)
	f, err := s.annotated(a.Mailbox)
	var list []mailbox.Annotation
	if err == nil {
		list, err = f.Annotations(s.c.Context(), a.Mailbox)
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	var found []imap.MetadataEntry
	longest := 0
	for _, e := range list {
		if !wantedEntry(a, e.Name) {
			continue
		}
		if a.HasMaxSize && len(e.Value) > int(a.MaxSize) {
			longest = max(longest, len(e.Value))
			continue
		}
		found = append(found, imap.MetadataEntry{Name: e.Name, Value: e.Value, Has: true})
	}
	if len(found) > 0 {
		s.out.B = imap.AppendMetadata(s.out.B, a.Mailbox, found, s.in.UTF8)
	}
	code := ""
	if longest > 0 {
		code = "METADATA LONGENTRIES " + strconv.Itoa(longest)
	}
	s.done(cmd, code, "GETMETADATA completed")
}

// wantedEntry reports whether an entry was requested.
func wantedEntry(a *imap.Metadata, name string) bool {
	for i := range a.Entries {
		below, ok := strings.CutPrefix(name, a.Entries[i].Name)
		switch {
		case !ok:
		case below == "":
			return true
		case below[0] == '/' && (a.Depth < 0 || a.Depth == 1 && strings.Count(below, "/") == 1):
			return true
		}
	}
	return false
}

// listMetadata prints the annotations that LIST requests for a mailbox, NIL for missing ones. If they cannot be read,
// it prints nothing.
//
// Implements: RFC 9590 §3 LIST-METADATA
func (s *session) listMetadata(name string, entries []string) {
	f, err := s.annotated(name)
	var list []mailbox.Annotation
	if err == nil {
		list, err = f.Annotations(s.c.Context(), name)
	}
	if err != nil {
		return
	}
	told := make([]imap.MetadataEntry, len(entries))
	for i, e := range entries {
		told[i].Name = e
		for k := range list {
			if list[k].Name == e {
				told[i].Value, told[i].Has = list[k].Value, true
			}
		}
	}
	s.out.B = imap.AppendMetadata(s.out.B, name, told, s.in.UTF8)
}

// setMetadata writes annotations, all or none. NIL removes one.
//
// Implements: RFC 5464 §4.3 SETMETADATA
func (s *session) setMetadata(cmd *imap.Command) {
	a := cmd.Args.(*imap.Metadata)
	set := make([]mailbox.Annotation, 0, len(a.Entries))
	for _, e := range a.Entries {
		if !metadataRoot(e.Name) {
			s.badly(cmd, "Annotations are below /private/ and /shared/")
			return
		}
		set = append(set, mailbox.Annotation{Name: e.Name, Value: e.Value, Remove: !e.Has})
	}
	f, err := s.annotated(a.Mailbox)
	if err == nil {
		err = f.SetAnnotations(s.c.Context(), a.Mailbox, set)
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	s.done(cmd, "", "SETMETADATA completed")
}
