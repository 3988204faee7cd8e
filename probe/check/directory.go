package check

import (
	"fmt"
	"strings"
	"time"

	"doublet/probe"
)

// Twice is a name or address that several documents of the directory have.
type Twice struct {
	Name string
	Of   []string
}

// Names reports names that are not unique.
var Names = probe.Check[[]Twice]{
	Kind: probe.Kind{Type: probe.Directory, Name: "Names",
		What:   "names of people, groups and mail-in databases that several documents have",
		Cause:  "Two servers added the same name before they replicated.",
		Remedy: "Rename or remove one of them: mail for the name goes to neither.",
		Every:  12 * time.Hour, Clear: time.Minute},
	Find: func(list []Twice, _ probe.Limits) (out []probe.Finding) {
		for _, t := range list {
			out = append(out, one(probe.WarningHigh, true, t.Name,
				fmt.Sprintf("%s is the name of %d documents: %s", t.Name, len(t.Of), strings.Join(t.Of, ", ")))...)
		}
		return out
	},
}

// Missing is a group with members that do not exist.
type Missing struct {
	Group   string
	Members []string
}

// Members reports members of groups that cannot be resolved.
var Members = probe.Check[[]Missing]{
	Kind: probe.Kind{Type: probe.Directory, Name: "Members",
		What:   "members of groups that the directory does not know (any more)",
		Cause:  "A person or group was removed and is still a member.",
		Remedy: "`group remove-member`, or bring the person back with `user undo`.",
		Every:  12 * time.Hour, Clear: time.Minute},
	Find: func(list []Missing, _ probe.Limits) (out []probe.Finding) {
		for _, g := range list {
			shown := g.Members[:min(len(g.Members), 5)]
			out = append(out, one(probe.WarningLow, len(shown) > 0, g.Group,
				fmt.Sprintf("%s of %s cannot be resolved: %s", plural(len(g.Members), "member"), g.Group,
					strings.Join(shown, ", ")))...)
		}
		return out
	},
}
