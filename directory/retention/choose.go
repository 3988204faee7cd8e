package retention

import "strings"

// day is a day, in seconds.
const day = 24 * 60 * 60

// Folder is a folder of a mail file.
type Folder struct {
	// Name is the full name, Use the special use ("INBOX" for the INBOX), or "".
	Name, Use string
	// Trash marks the Trash and the folders below it. Spared marks a folder of which no message is touched.
	Trash, Spared bool
}

// Place is a folder that a message is in. Since is the time at which it came there, in Unix seconds.
type Place struct {
	Folder int // number in the folders of the Chooser, or Gone
	Since  int64
}

// Gone is the Place.Folder of a folder that was deleted. Its name is not known, so KeptUntil takes it for covered by
// every policy. Choose does not accept it.
const Gone = -1

// Message holds the properties of a message that policies test. Delivered is its time of delivery, in Unix seconds.
type Message struct {
	Delivered int64
	Flagged   bool
	Labelled  func(keyword string) bool
	Places    []Place
}

// Choice names the policy that acts on a message, and the time at which it does.
type Choice struct {
	Policy int   // number in the policies of the Chooser
	Due    int64 // Unix seconds
}

// Chooser chooses among the policies for one mail file.
type Chooser struct {
	policies []Policy
	folders  []Folder
	covers   [][]int // the policies that cover each folder
	every    []int   // all policies
	shortest int64   // days of the first policy that could act, in seconds
}

// NewChooser returns the Chooser for a mail file with these folders. Of two policies that act at the same time, the one
// that comes first decides, those that move to the Trash before those that delete.
func NewChooser(policies []Policy, folders []Folder) *Chooser {
	c := &Chooser{policies: policies, folders: folders, covers: make([][]int, len(folders)), shortest: MaxDays * day}
	for i := range policies {
		p := &policies[i]
		c.every = append(c.every, i)
		if p.Action.Removes() {
			c.shortest = min(c.shortest, int64(p.Days)*day)
		}
		for k, in := range p.covered(folders) {
			if in {
				c.covers[k] = append(c.covers[k], i)
			}
		}
	}
	return c
}

// covered returns for each folder whether the policy covers it.
func (p *Policy) covered(folders []Folder) []bool {
	out := make([]bool, len(folders))
	for _, name := range p.Folders {
		for _, base := range based(name, folders) {
			for i := range folders {
				n := folders[i].Name
				out[i] = out[i] || n == base || p.Below && strings.HasPrefix(n, base+"/")
			}
		}
	}
	for i := range out {
		out[i] = out[i] || len(p.Folders) == 0
	}
	return out
}

// based returns the names of the folders with a special use; if there are none, the name itself.
func based(name string, folders []Folder) (list []string) {
	for i := range folders {
		if strings.EqualFold(folders[i].Use, name) {
			list = append(list, folders[i].Name)
		}
	}
	if list == nil {
		list = []string{name}
	}
	return list
}

// Newest returns the latest time of delivery, in Unix seconds, at which a message can be due now. It depends on no
// folder, so that younger messages need no further look.
func (c *Chooser) Newest(now int64) int64 { return now - c.shortest }

// Choose returns the policy that acts on a message, and the latest time of all policies that select it. ok is false if
// none acts: if the message is in a folder that no policy empties, in a spared folder, or flagged.
func (c *Chooser) Choose(m *Message) (out Choice, ok bool) {
	var last int64
	for i := range m.Places {
		at := &m.Places[i]
		if c.folders[at.Folder].Spared {
			return out, false
		}
		choice, latest, acts := c.in(m, at)
		if !acts {
			return out, false
		}
		if !ok || c.before(out, choice) {
			out = choice
		}
		last, ok = max(last, latest), true
	}
	out.Due = max(out.Due, last)
	return out, ok
}

// in returns the policy that acts last on a message in one folder, and the latest time of all that select it there.
func (c *Chooser) in(m *Message, at *Place) (out Choice, latest int64, acts bool) {
	f := &c.folders[at.Folder]
	for _, i := range c.covers[at.Folder] {
		p := &c.policies[i]
		if !p.labelled(m) || p.Action == Trash && f.Trash {
			continue
		}
		if p.Action.Removes() && m.Flagged && !p.Flagged {
			return out, 0, false
		}
		choice := Choice{i, p.due(m, at, f)}
		latest = max(latest, choice.Due)
		if p.Action.Removes() && (!acts || c.before(out, choice)) {
			out, acts = choice, true
		}
	}
	return out, latest, acts
}

// before reports whether b decides rather than a.
func (c *Chooser) before(a, b Choice) bool {
	if a.Due != b.Due {
		return a.Due < b.Due
	}
	return c.policies[a.Policy].Action == Delete && c.policies[b.Policy].Action == Trash
}

// KeptUntil returns the time until which policies keep a message that the person has deleted from m.Places, in Unix
// seconds; 0 if none keeps it.
func (c *Chooser) KeptUntil(m *Message) (until int64) {
	for i := range m.Places {
		at := &m.Places[i]
		f, covers := &Folder{}, c.every
		if at.Folder != Gone {
			f, covers = &c.folders[at.Folder], c.covers[at.Folder]
		}
		for _, n := range covers {
			if p := &c.policies[n]; !p.Action.Removes() && p.labelled(m) {
				until = max(until, p.due(m, at, f))
			}
		}
	}
	return until
}

func (p *Policy) labelled(m *Message) bool {
	for _, k := range p.Labels {
		if m.Labelled(k) {
			return true
		}
	}
	return len(p.Labels) == 0
}

// due returns the time at which a message has the age of the policy. Days count from the delivery; those of a policy
// that names the Trash count from the time at which the message came there, if that is later.
func (p *Policy) due(m *Message, at *Place, f *Folder) int64 {
	from := m.Delivered
	if f.Trash && len(p.Folders) > 0 {
		from = max(from, at.Since)
	}
	return from + int64(p.Days)*day
}
