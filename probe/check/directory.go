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

// Unreachable is another directory that does not serve requests.
type Unreachable struct{ Name, Error string }

// Assistance reports other directories that cannot be used.
var Assistance = probe.Check[[]Unreachable]{
	Kind: probe.Kind{Type: probe.Directory, Name: "Assistance",
		What: "other directories (directory assistance) that cannot be reached, refuse the bind DN, or lack the " +
			"base; groups there whose members cannot be read for an access group here",
		Cause: "The directory or the network is down, its certificate has expired, or the password of the bind DN " +
			"has changed. People whose password it keeps cannot sign in.",
		Remedy: "`doublet assistance test NAME` shows the step that fails, `group show` why a group is not followed.",
		Every:  time.Minute, Clear: 15 * time.Second},
	Find: func(list []Unreachable, _ probe.Limits) (out []probe.Finding) {
		for _, d := range list {
			out = append(out, one(probe.Failure, true, d.Name,
				fmt.Sprintf("the directory %s cannot be used: %s", d.Name, d.Error))...)
		}
		return out
	},
}
