package imapd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"doublet/mailbox"
	"doublet/note"
)

// shared describes another person's mail file, under its name among the person's mailboxes.
type shared struct {
	mailbox.Share
	prefix string // with the final separator
}

// shares lists the mail files of others in which the person has lookup rights, sorted by name: those of people first,
// then those without an owner.
func (s *session) shares() ([]shared, error) {
	list, err := s.srv.backend.Mail().Shares(s.account.Who, s.account.Database)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	out := make([]shared, 0, len(list))
	taken := make(map[string]bool, len(list))
	for _, x := range list {
		name := mailbox.SharedPrefix + mailbox.Level(x.Title)
		if !x.Owner.IsZero() {
			owner, err := s.srv.backend.Identifier(s.c.Context(), x.Owner)
			if err != nil {
				continue // its owner was deleted from the directory
			}
			name = mailbox.OthersPrefix + mailbox.Level(owner)
		}
		if taken[name] {
			name += " (" + x.ID.String() + ")"
		}
		taken[name] = true
		out = append(out, shared{x, name + "/"})
	}
	return out, nil
}

// reserved reports whether a name is under a prefix for the mail files of others.
func reserved(name string) bool {
	for _, p := range [...]string{mailbox.OthersPrefix, mailbox.SharedPrefix} {
		if strings.HasPrefix(name, p) || name == p[:len(p)-1] {
			return true
		}
	}
	return false
}

// bins lists the mailboxes of deleted messages that the person can recover.
func (s *session) bins() ([]mailbox.Folder, error) {
	list, err := s.file.Bin().Folders(s.c.Context())
	if isDenied(err) {
		return nil, nil // the mail file is not the person's own
	}
	return list, err
}

// inBins reports whether a name is that of a mailbox of deleted messages, or below one.
func (s *session) inBins(name string) (bool, error) {
	if !strings.HasPrefix(name, mailbox.RecoverableName) {
		return false, nil
	}
	list, err := s.bins()
	return slices.ContainsFunc(list, func(f mailbox.Folder) bool {
		rest, ok := strings.CutPrefix(name, f.Name)
		return ok && (rest == "" || rest[0] == separator)
	}), err
}

// at returns the mail file of a mailbox, by the mailbox's name. It still finds a folder of the person's own that got a
// reserved name before names were reserved.
//
// Implements: RFC 2342 §5 Other Users' and Shared namespaces
func (s *session) at(name string) (*mailbox.File, error) {
	if in, err := s.inBins(name); in || err != nil {
		return s.file.Bin(), err
	}
	if !reserved(name) {
		return s.file, nil
	}
	list, err := s.shares()
	if err != nil {
		return nil, err
	}
	for i := range list {
		if strings.HasPrefix(name, list[i].prefix) {
			return s.srv.backend.Mail().SharedFile(s.account.Who, list[i].ID, list[i].prefix), nil
		}
	}
	return s.file, nil
}

// folder returns a mailbox by its name, with its mail file.
func (s *session) folder(name string) (*mailbox.File, mailbox.Folder, error) {
	f, err := s.at(name)
	if err != nil {
		return nil, mailbox.Folder{}, err
	}
	folder, err := f.Folder(s.c.Context(), name)
	return f, folder, err
}

// mayReserved rejects new names under the prefixes of other mail files, and those of the deleted messages.
func (s *session) mayReserved(f *mailbox.File, name string) error {
	if in, err := s.inBins(name); in || err != nil {
		return cmp.Or(err, mailbox.ErrRecoverOnly)
	}
	if f == s.file && reserved(name) {
		return fmt.Errorf("%w: %s is reserved for the mail of others", mailbox.ErrBadName, name)
	}
	return nil
}

// folders lists the person's mailboxes, then those of deleted messages, then those of others in which the person has
// lookup rights, sorted within each mail file. It reads no mail files of others if no pattern can match them.
func (s *session) folders(patterns []string) ([]mailbox.Folder, error) {
	all, err := s.file.Folders(s.c.Context())
	if err != nil {
		return nil, err
	}
	if reach(patterns, mailbox.RecoverableName) {
		bins, err := s.bins()
		if err != nil {
			return nil, err
		}
		all = append(all, bins...)
	}
	if !reach(patterns, mailbox.OthersPrefix, mailbox.SharedPrefix) {
		return all, nil
	}
	list, err := s.shares()
	if err != nil {
		return nil, err
	}
	for _, root := range [...]string{mailbox.OthersPrefix, mailbox.SharedPrefix} {
		begun := false
		for i := range list {
			if !strings.HasPrefix(list[i].prefix, root) {
				continue
			}
			f := s.srv.backend.Mail().SharedFile(s.account.Who, list[i].ID, list[i].prefix)
			folders, err := mailbox.Visible(f.Folders(s.c.Context()))
			if err != nil {
				return nil, err
			}
			if len(folders) == 0 {
				continue
			}
			if !begun {
				all, begun = append(all, level(root)), true
			}
			all = append(append(all, level(list[i].prefix)), folders...)
		}
	}
	return all, nil
}

// level returns a folder for a name that is not a mailbox but has mailboxes below it.
func level(prefix string) mailbox.Folder {
	return mailbox.Folder{Name: strings.TrimSuffix(prefix, "/"), HasChildren: true, Rights: note.Lookup}
}

// reach reports whether patterns can match a mailbox whose name begins with one of the prefixes.
func reach(patterns []string, prefixes ...string) bool {
	for _, p := range patterns {
		fixed := p
		if i := strings.IndexAny(p, "*%"); i >= 0 {
			fixed = p[:i]
		}
		for _, prefix := range prefixes {
			if strings.HasPrefix(fixed, prefix) || strings.HasPrefix(prefix, fixed) {
				return true
			}
		}
	}
	return len(patterns) == 0
}
