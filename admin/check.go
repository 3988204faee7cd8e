package admin

import (
	"context"
	"fmt"
	"strings"

	"doublet/note"
	"doublet/store/check"
)

// Check are the arguments of check.
type Check struct {
	Database []string `json:"database" arg:"rest" help:"only these databases: ids, titles or owners"`
	Deep     bool     `json:"deep" help:"read every message and compare it with its digest"`
	Repair   bool     `json:"repair" help:"put right what can be put right; what is lost is listed"`
}

// Checked is the result of check.
type Checked struct {
	Clean     bool     `json:"clean"`
	Findings  []string `json:"findings,omitempty"`
	More      int      `json:"more,omitempty"`
	Lost      []string `json:"lost,omitempty"`
	Applied   int      `json:"rows_written,omitempty"`
	Healed    int      `json:"segments_healed,omitempty"`
	Found     int      `json:"segments_found,omitempty"`
	Restart   bool     `json:"restart_needed,omitempty"`
	Databases uint64   `json:"databases"`
	Notes     uint64   `json:"notes"`
	Stubs     uint64   `json:"stubs"`
	Messages  uint64   `json:"messages"`
	Objects   uint64   `json:"objects"`
	Elsewhere uint64   `json:"objects_elsewhere,omitempty"`
	Locked    []string `json:"locked,omitempty"`
	Rows      uint64   `json:"rows"`
	Bytes     Size     `json:"bytes"`
}

// Text returns the report as text for people.
func (r Checked) Text() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s\n", f)
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "… and %d more\n", r.More)
	}
	for _, l := range r.Lost {
		fmt.Fprintf(&b, "lost: %s\n", l)
	}
	if r.Applied > 0 {
		fmt.Fprintf(&b, "repaired: %d rows written\n", r.Applied)
	}
	if r.Healed > 0 {
		fmt.Fprintf(&b, "repaired: %d damaged segments replaced by their copies\n", r.Healed)
	}
	if r.Found > 0 {
		fmt.Fprintf(&b, "repaired: the copies of %d segments were found again\n", r.Found)
	}
	if r.Restart {
		b.WriteString("start the server anew: the repaired databases serve again then\n")
	}
	if r.Elsewhere > 0 {
		fmt.Fprintf(&b, "%d objects are only at data.segments_archive: --deep reads them\n", r.Elsewhere)
	}
	for _, d := range r.Locked {
		fmt.Fprintf(&b, "database %s was not checked: it is locked, and without its key "+
			"nobody can tell what is damaged (doublet db unlock)\n", d)
	}
	word := "clean"
	if !r.Clean {
		word = fmt.Sprintf("%d findings", len(r.Findings)+r.More)
	}
	fmt.Fprintf(&b, "%s: %d databases, %d notes, %d messages, %d objects, %d rows (%s) read\n",
		word, r.Databases, r.Notes, r.Messages, r.Objects, r.Rows, r.Bytes)
	return b.String()
}

// Bad reports whether the check found problems, for the exit code.
func (r Checked) Bad() bool { return !r.Clean }

func checks() []*Verb {
	return []*Verb{
		define("check", "verify every reference, row, index and feed entry of the store", runCheck, changes,
			long("Works on a running server too: it checks the store as it stood at one moment. Exit code 1 says "+
				"that something was found.")),
	}
}

func runCheck(ctx context.Context, c *Call, a *Check) (Checked, error) {
	o := check.Options{Deep: a.Deep, Progress: func(p check.Progress) {
		text := ""
		if p.Database != 0 {
			text = p.Database.String()
		}
		c.Progress(Progress{Stage: p.Stage, Done: p.Rows, Bytes: p.Bytes, Text: text})
	}}
	for _, name := range a.Database {
		i, err := c.database(name)
		if err != nil {
			return Checked{}, err
		}
		o.Databases = append(o.Databases, i.ID)
	}
	found, err := check.Run(ctx, c.Store, o)
	if err != nil {
		return Checked{}, err
	}
	if a.Repair && !found.Clean() {
		c.Env.Log.Warn("repair begins", "findings", len(found.Findings)+found.More)
		if found, err = check.Repair(ctx, c.Store, found); err != nil {
			return Checked{}, err
		}
	}
	return ShowCheck(found), nil
}

// ShowCheck converts a report to the form of the verb's result.
func ShowCheck(r check.Report) Checked {
	out := Checked{
		Clean: r.Clean(), More: r.More, Applied: r.Applied, Healed: r.Healed, Found: r.Found, Restart: r.Reopen,
		Databases: r.Databases, Notes: r.Notes, Stubs: r.Stubs,
		Messages: r.Messages, Objects: r.Objects, Elsewhere: r.Elsewhere, Rows: r.Rows, Bytes: Size(r.Bytes),
	}
	for _, id := range r.Locked {
		out.Locked = append(out.Locked, id.String())
	}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, f.String())
	}
	for _, l := range r.Lost {
		if l.Note == 0 { // a range of notes was removed
			out.Lost = append(out.Lost, fmt.Sprintf("database %s: %s", l.Database, l.Reason))
			continue
		}
		out.Lost = append(out.Lost, fmt.Sprintf("database %s note %d %s: %s", l.Database, l.Note,
			unid(l.UNID), l.Reason))
	}
	return out
}

func unid(u note.UNID) string {
	if u.IsZero() {
		return "(UNID unknown)"
	}
	return u.String()
}

func control() []*Verb {
	return []*Verb{
		define("purge", "take away now what the nightly Purge would: what was removed long ago, unreferenced "+
			"messages", func(ctx context.Context, c *Call, _ *struct{}) (Purged, error) {
			return c.Purge(ctx)
		}, changes),
		onServer("stop", "stop the running server: commands finish, then it ends",
			func(_ context.Context, c *ServerCall, _ *struct{}) (Done, error) {
				c.Server.Stop()
				return Done{"server is stopping"}, nil
			}, changes, machine),
	}
}
