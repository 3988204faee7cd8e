package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"doublet/bench/record"
)

// Comparable returns the differences of runs that do not forbid a comparison, as marks. It returns ErrCompare if the
// runs do not measure the same, unless anyway is set; then those differences are marks too.
func Comparable(all []*record.Run, anyway bool) (marks []string, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	if marks, err = agree(all, anyway); err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for _, r := range all {
		for i := range r.Steps {
			if s := &r.Steps[i]; s.Outcome == record.Measured && !seen[s.Users] {
				seen[s.Users] = true
				if marks, err = registered(all, s.Users, anyway, marks); err != nil {
					return nil, err
				}
			}
		}
	}
	return marks, nil
}

// agree returns the differences of the runs, if anyway is set or they do not matter, and otherwise an error.
func agree(all []*record.Run, anyway bool) (marks []string, err error) {
	first := &all[0].Header
	for _, r := range all {
		if why := unknown(&first.Workload, &r.Header.Workload); why != "" {
			return nil, fmt.Errorf("%w: %s", ErrCompare, why)
		}
		for _, why := range differences(first, &r.Header) {
			if !anyway {
				return nil, refusal(why)
			}
			if !slices.Contains(marks, why) {
				marks = append(marks, why)
			}
		}
		why := fmt.Sprintf("they differ in seed: %d and %d", first.Seed, r.Header.Seed)
		if first.Seed != r.Header.Seed && !slices.Contains(marks, why) {
			marks = append(marks, why)
		}
	}
	return marks, nil
}

func refusal(why string) error {
	return fmt.Errorf("%w: %s (--anyway compares them, with a mark)", ErrCompare, why)
}

// registered adds a mark, or returns an error, if the steps with a number of users differ in the number of mailboxes.
func registered(all []*record.Run, users int, anyway bool, marks []string) ([]string, error) {
	list := steps(all, users)
	for _, s := range list {
		if n := list[0].step.Registered; s.step.Registered != n {
			why := fmt.Sprintf("they differ in registered people: %d and %d", n, s.step.Registered)
			switch {
			case !anyway:
				return nil, refusal(why)
			case slices.Contains(marks, why):
				return marks, nil
			}
			return append(slices.Clone(marks), why), nil
		}
	}
	return marks, nil
}

// unknown returns the reason why runs of two workloads say nothing about each other, "" for none: the sources do not
// tell in what one of them differs from others.
func unknown(a, b *record.Workload) string {
	for _, w := range []*record.Workload{a, b} {
		if w.Unknown != "" && a.Name != b.Name {
			return w.Name + " is not known well enough: " + w.Unknown
		}
	}
	return ""
}

// differences returns the reasons why two runs do not measure the same.
func differences(a, b *record.Header) []string {
	var out []string
	differ := func(what string, x, y any) {
		if x != y {
			out = append(out, fmt.Sprintf("they differ in %s: %v and %v", what, x, y))
		}
	}
	differ("workload", a.Workload.Name+" "+a.Workload.Hash, b.Workload.Name+" "+b.Workload.Hash)
	differ("protocol", a.Workload.Protocol, b.Workload.Protocol)
	differ("what is left out", leftOut(a), leftOut(b))
	differ("speed", a.Speed, b.Speed)
	differ("how far mailboxes were filled", a.InitScale, b.InitScale)
	differ("partitions of the server's machine", max(a.Target.Partitions, 1), max(b.Target.Partitions, 1))
	differ("doors", doorsOf(a), doorsOf(b))
	differ("number of drivers", max(a.Agents, 1), max(b.Agents, 1))
	if a.Settings != nil && b.Settings != nil { // files of older versions have none
		both := maps.Clone(a.Settings)
		maps.Copy(both, b.Settings)
		for _, name := range slices.Sorted(maps.Keys(both)) {
			differ(name, a.Settings[name], b.Settings[name])
		}
	}
	for _, m := range a.Marks {
		if !slices.Contains(b.Marks, m) {
			out = append(out, "only one is marked: "+m)
		}
	}
	for _, m := range b.Marks {
		if !slices.Contains(a.Marks, m) {
			out = append(out, "only one is marked: "+m)
		}
	}
	if a.Server != nil && b.Server != nil {
		differ("the server's machine", a.Server.Name, b.Server.Name)
		differ("the server's processors", a.Server.Processors(), b.Server.Processors())
	}
	differ("the driver's machine", a.Driver.Name, b.Driver.Name)
	return out
}

func leftOut(h *record.Header) string {
	if len(h.Workload.Left) == 0 {
		return "nothing"
	}
	return strings.Join(h.Workload.Left, ", ")
}

// doorsOf returns the names of the doors of a run. They and StartTLS tell what is encrypted.
func doorsOf(h *record.Header) string {
	out := strings.Join(slices.Sorted(maps.Keys(h.Target.Doors)), ", ")
	if h.Target.StartTLS {
		out += " with STARTTLS"
	}
	return out
}
