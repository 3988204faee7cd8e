// Package retention holds the rules of a retention policy, and chooses the policy that decides about a message. It is
// pure: the directory keeps policies as documents, and mailbox carries them out.
package retention

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Action names the change of a message when its time is over.
type Action string

// The actions. A message that is deleted can be recovered as any other. Keep does nothing itself: it defers what other
// policies would do, and the purge of what the person deletes.
const (
	Trash  Action = "trash"
	Delete Action = "delete"
	Keep   Action = "keep"
)

// Removes reports whether messages leave their folders by the action. One of a later release, which is not known here,
// does not: it keeps.
func (a Action) Removes() bool { return a == Trash || a == Delete }

// Limits of a policy: days, values of one list, and bytes of one value.
const (
	MaxDays   = 36_500
	maxValues = 100
	maxValue  = 1000
)

// Policy selects messages by their folder and labels, and names an action and the days after which it follows.
type Policy struct {
	// Folders lists folders by full name, or by the special use of a standard folder (INBOX, Sent, Archive, Junk,
	// Trash; in any case), which it has under another name too. Empty: all folders.
	Folders []string
	// Below includes the folders below Folders.
	Below bool
	// Labels lists keywords; a message has one of them. Empty: with or without.
	Labels []string
	// Days is the age in days at which Action follows, from 1 to MaxDays.
	Days   int
	Action Action
	// Flagged includes flagged messages. Without it a flagged message that the policy selects stays, whatever other
	// policies say.
	Flagged bool
}

// Check normalizes a policy. It returns an error if the policy is invalid.
func (p *Policy) Check() error {
	if p.Days < 1 || p.Days > MaxDays {
		return fmt.Errorf("%d days, want 1 to %d", p.Days, MaxDays)
	}
	switch p.Action {
	case Trash, Delete, Keep:
	default:
		return fmt.Errorf("action %.40q, want %s, %s or %s", string(p.Action), Trash, Delete, Keep)
	}
	if p.Below && len(p.Folders) == 0 {
		return errors.New("subfolders of no folder: name the folder")
	}
	for i, k := range p.Labels {
		p.Labels[i] = strings.ToLower(k)
	}
	if err := checkList("label", &p.Labels, notKeyword); err != nil {
		return err
	}
	return checkList("folder", &p.Folders, isControl)
}

// checkList sorts a list without doubles. bad reports characters that no value contains.
func checkList(what string, list *[]string, bad func(rune) bool) error {
	slices.Sort(*list)
	*list = slices.Compact(*list)
	if len(*list) > maxValues {
		return fmt.Errorf("%d values of %s, at most %d", len(*list), what, maxValues)
	}
	for _, s := range *list {
		if s == "" || len(s) > maxValue || strings.ContainsFunc(s, bad) {
			return fmt.Errorf("%.80q is no %s", s, what)
		}
	}
	return nil
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

// notKeyword reports whether a keyword cannot contain c (RFC 9051 section 9, atom).
func notKeyword(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`(){%*"\]`, c) }
