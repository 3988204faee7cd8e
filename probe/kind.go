package probe

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/wire/size"
)

// Kind describes a probe: what it looks at, how often, and from which values on it reports.
type Kind struct {
	Type Type
	// Name is the probe's name in the settings: one word.
	Name string
	// What describes the subject of the probe, Cause the usual cause of a finding, Remedy the usual remedy.
	What, Cause, Remedy string
	// Every is the time between two runs. A problem opens an event when it has lasted for Hold, and closes it when it
	// was absent for Clear.
	Every, Hold, Clear time.Duration
	Limits             []Limit
}

// Unit is the unit of a threshold.
type Unit int

// The units of thresholds.
const (
	Number Unit = iota
	Percent
	Time // seconds; written as a duration such as 90m, or 14d
	Bytes
)

// Limit is a threshold of a probe with its default. The names low, high, failure and fatal are those of the severity
// that a value at the threshold has.
type Limit struct {
	Name    string
	Default float64
	Unit    Unit
}

// Limits holds the thresholds of one probe by name.
type Limits map[string]float64

// severities maps the names of thresholds to severities, the most severe first.
var severities = []struct {
	name     string
	severity Severity
}{{"fatal", Fatal}, {"failure", Failure}, {"high", WarningHigh}, {"low", WarningLow}}

// Above returns the severity of a value that is bad when it is large, and false if it is below every threshold.
func (l Limits) Above(v float64) (Severity, bool) {
	for _, s := range severities {
		if limit, ok := l[s.name]; ok && v >= limit {
			return s.severity, true
		}
	}
	return Normal, false
}

// Below returns the severity of a value that is bad when it is small.
func (l Limits) Below(v float64) (Severity, bool) {
	for _, s := range severities {
		if limit, ok := l[s.name]; ok && v <= limit {
			return s.severity, true
		}
	}
	return Normal, false
}

// Older returns the severity of an age.
func (l Limits) Older(d time.Duration) (Severity, bool) { return l.Above(d.Seconds()) }

// Check is a kind of probe with its rule: the findings that follow from a reading. Find is pure.
type Check[R any] struct {
	Kind
	Find func(reading R, l Limits) []Finding
}

// Probe is a probe that runs: a check with the function that reads what it looks at.
type Probe struct {
	*Kind
	find func(ctx context.Context, l Limits) ([]Finding, error)
}

// Bind makes a check a probe that reads by a function. An error of read is no finding of the probe: what it reported
// before stays open.
func Bind[R any](c *Check[R], read func(ctx context.Context) (R, error)) *Probe {
	return &Probe{Kind: &c.Kind, find: func(ctx context.Context, l Limits) ([]Finding, error) {
		r, err := read(ctx)
		if err != nil {
			return nil, err
		}
		return c.Find(r, l), nil
	}}
}

// Settings are the texts of the settings file that choose the probes, their intervals and thresholds.
type Settings struct {
	// Run is all, or the names of the probes that run; all -NAME leaves out single ones. none: no probe runs.
	Run string
	// Every has words NAME=TIME, Limits has words NAME.LIMIT=VALUE.
	Every, Limits string
}

// Plan holds parsed settings.
type Plan struct {
	on     map[string]bool
	every  map[string]time.Duration
	limits map[string]Limits
}

// shortest and longest bound the time between two runs of a probe.
const (
	shortest = Tick
	longest  = 30 * 24 * time.Hour
)

// ParsePlan parses settings for the kinds of probes that exist.
func ParsePlan(kinds []*Kind, s Settings) (*Plan, error) {
	p := &Plan{on: map[string]bool{}, every: map[string]time.Duration{}, limits: map[string]Limits{}}
	byName := map[string]*Kind{}
	for _, k := range kinds {
		byName[strings.ToLower(k.Name)] = k
		p.every[k.Name] = k.Every
		l := Limits{}
		for _, x := range k.Limits {
			l[x.Name] = x.Default
		}
		p.limits[k.Name] = l
	}
	find := func(name string) (*Kind, error) {
		if k := byName[strings.ToLower(name)]; k != nil {
			return k, nil
		}
		return nil, fmt.Errorf("no probe is called %q", name)
	}
	if err := p.parseRun(kinds, find, s.Run); err != nil {
		return nil, fmt.Errorf("probes.run: %w", err)
	}
	for _, word := range strings.Fields(s.Every) {
		name, text, _ := strings.Cut(word, "=")
		k, err := find(name)
		if err != nil {
			return nil, fmt.Errorf("probes.every: %w", err)
		}
		d, err := parseDuration(text)
		if err != nil || d < shortest || d > longest {
			return nil, fmt.Errorf("probes.every: %q: the time must be %s to %s", word, shortest, longest)
		}
		p.every[k.Name] = d
	}
	for _, word := range strings.Fields(s.Limits) {
		if err := p.parseLimit(find, word); err != nil {
			return nil, fmt.Errorf("probes.limits: %q: %w", word, err)
		}
	}
	return p, nil
}

func (p *Plan) parseRun(kinds []*Kind, find func(string) (*Kind, error), text string) error {
	for _, word := range strings.Fields(text) {
		switch strings.ToLower(word) {
		case "all":
			for _, k := range kinds {
				p.on[k.Name] = true
			}
			continue
		case "none":
			clear(p.on)
			continue
		}
		name, off := strings.CutPrefix(word, "-")
		k, err := find(name)
		if err != nil {
			return err
		}
		p.on[k.Name] = !off
	}
	return nil
}

// parseLimit parses PROBE.LIMIT=VALUE.
func (p *Plan) parseLimit(find func(string) (*Kind, error), word string) error {
	name, text, ok := strings.Cut(word, "=")
	probe, limit, dot := strings.Cut(name, ".")
	if !ok || !dot {
		return fmt.Errorf("it is not PROBE.LIMIT=VALUE")
	}
	k, err := find(probe)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(k.Limits, func(l Limit) bool { return strings.EqualFold(l.Name, limit) })
	if i < 0 {
		var names []string
		for _, l := range k.Limits {
			names = append(names, l.Name)
		}
		return fmt.Errorf("%s has the limits %s", k.Name, strings.Join(names, ", "))
	}
	v, err := k.Limits[i].Unit.parse(text)
	if err != nil {
		return err
	}
	p.limits[k.Name][k.Limits[i].Name] = v
	return nil
}

// parse parses a value of the unit.
func (u Unit) parse(text string) (v float64, err error) {
	switch u {
	case Time:
		d, err := parseDuration(text)
		return d.Seconds(), err
	case Bytes:
		n, err := size.Parse(text)
		return float64(n), err
	default:
		v, err = strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
		if err == nil && !(v >= 0 && v < 1e15) {
			err = fmt.Errorf("value %q is not 0 or more", text)
		}
		return v, err
	}
}

// Format returns a value of the unit as the settings have it.
func (u Unit) Format(v float64) string {
	switch u {
	case Time:
		d := time.Duration(v * float64(time.Second))
		if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
			return strconv.Itoa(int(d/(24*time.Hour))) + "d"
		}
		text := d.String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
		return text
	case Bytes:
		return size.Rounded(uint64(v))
	case Percent:
		return strconv.FormatFloat(v, 'g', -1, 64) + "%"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// parseDuration parses a duration, with d for days.
func parseDuration(text string) (time.Duration, error) {
	factor := time.Duration(1)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		text, factor = days+"h", 24
	}
	d, err := time.ParseDuration(text)
	if err == nil && (d < 0 || d > 100*365*24*time.Hour/factor) {
		err = fmt.Errorf("time %q is out of range", text)
	}
	return d * factor, err
}
