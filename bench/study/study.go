// Package study measures a matrix of configurations: each of them several times, in random order. A run that says
// nothing about its configuration, because the driver was late or the machine was busy, is set aside and repeated. A
// study that was stopped, or whose machine crashed, goes on where it was.
//
// The package knows the files, the order and what counts; doublet study (cmd/doublet) sets the servers up and measures.
package study

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"

	"doublet/bench"

	"github.com/pelletier/go-toml/v2"
)

// The bounds of a study.
const (
	maxFile    = 1 << 20
	maxAxes    = 6
	maxCells   = 16
	maxRepeats = 100
)

// Study is a study as its file describes it.
type Study struct {
	Title string `toml:"title"`
	// Repeat is the number of runs of each configuration that count.
	Repeat int `toml:"repeat"`
	// Seed decides the order of the runs.
	Seed uint64 `toml:"seed"`
	// Strangers is the share of the machine's processors that other programs may use in a run that counts.
	Strangers float64 `toml:"strangers"`
	// Common holds the flags of doublet bench lab that all configurations share.
	Common map[string]any `toml:"run"`
	// Axes list the differences: the configurations are all combinations of a value of each axis.
	Axes []Axis `toml:"axis"`

	// Hash identifies the text of the file.
	Hash  string `toml:"-"`
	cells []Cell
}

// Axis is one thing that differs between configurations. Each of its values has a name, and flags of doublet bench lab.
type Axis struct {
	Name   string           `toml:"name"`
	Values []map[string]any `toml:"value"`
}

// Cell is one configuration: the flags of doublet bench lab, and Lab, the name of the lab, "" where a flag names a
// script.
type Cell struct {
	Name  string
	Lab   string
	Flags []Flag
}

// Flag is a flag of doublet bench lab. One that may be given again is in the list once for each value.
type Flag struct{ Name, Value string }

//go:embed builtin/*.toml
var builtin embed.FS

// Names returns the names of the studies that come with the program.
func Names() (out []string) {
	list, err := builtin.ReadDir("builtin")
	if err != nil {
		return nil // the folder is part of the program
	}
	for _, f := range list {
		out = append(out, strings.TrimSuffix(f.Name(), ".toml"))
	}
	return out
}

// Load reads the study with the given name, built-in or a file, and returns it with its text.
func Load(name string) (*Study, []byte, error) {
	text, err := builtin.ReadFile(path.Join("builtin", name+".toml"))
	if errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(name, `/\`) {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, nil, bench.Usage("study %s: %w (built in: %s)", name, err, strings.Join(Names(), ", "))
	}
	s, err := Parse(name, text)
	return s, text, err
}

// Parse reads the text of a study's file. Errors name the file and, where they are about a line, the line.
func Parse(name string, text []byte) (*Study, error) {
	if len(text) > maxFile {
		return nil, bench.Usage("%s: over %d bytes: this is no study", name, maxFile)
	}
	s := &Study{Repeat: 3, Strangers: 0.15}
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(s); err != nil {
		return nil, bench.Usage("%s: %w", name, placed(err))
	}
	sum := sha256.Sum256(text)
	s.Hash = hex.EncodeToString(sum[:])
	if err := s.check(); err != nil {
		return nil, bench.Usage("%s: %w", name, err)
	}
	return s, nil
}

// placed returns a parser's error with its line.
func placed(err error) error {
	var strict *toml.StrictMissingError
	var one *toml.DecodeError
	switch {
	case errors.As(err, &strict) && len(strict.Errors) > 0:
		line, _ := strict.Errors[0].Position()
		return fmt.Errorf("line %d: unknown key %s", line, strings.Join(strict.Errors[0].Key(), "."))
	case errors.As(err, &one):
		line, column := one.Position()
		return fmt.Errorf("line %d, column %d: %w", line, column, err)
	}
	return err
}

// short are the values of flags in a short form, in place of those of the file.
var short = map[string]any{"speed": int64(60), "window": "15s", "init-scale": "0.5%", "max-settle": "25s"}

// Short makes the short form of a study, for a first look: two runs of each configuration at most, of 15 s at 60 times
// the speed, with smaller mailboxes. Its runs are not those of the study, and their reports are marked.
func (s *Study) Short() error {
	common := maps.Clone(s.Common)
	if common == nil {
		common = map[string]any{}
	}
	maps.Copy(common, short)
	s.Common, s.Repeat = common, min(s.Repeat, 2)
	s.Title += ", short form"
	s.Hash += "-short"
	return s.check()
}

// check refuses a study that cannot be run, and lists its configurations.
func (s *Study) check() error {
	switch {
	case s.Title == "":
		return errors.New("no title")
	case s.Repeat < 1 || s.Repeat > maxRepeats:
		return fmt.Errorf("repeat is %d: want 1 to %d", s.Repeat, maxRepeats)
	case !(s.Strangers > 0 && s.Strangers <= 1):
		return fmt.Errorf("strangers is %g: want a share above 0, at most 1", s.Strangers)
	case len(s.Axes) == 0 || len(s.Axes) > maxAxes:
		return fmt.Errorf("%d axes: want 1 to %d", len(s.Axes), maxAxes)
	}
	cells, err := s.product()
	if err != nil {
		return err
	}
	if len(cells) < 2 {
		return errors.New("one configuration: a study compares two or more")
	}
	for i := range cells {
		if err := cells[i].check(); err != nil {
			return err
		}
		if slices.ContainsFunc(cells[:i], func(c Cell) bool { return c.Name == cells[i].Name }) {
			return fmt.Errorf("two configurations have the name %q", cells[i].Name)
		}
	}
	s.cells = cells
	return nil
}

// check refuses a configuration that has both a lab and a script, or none of them.
func (c *Cell) check() error {
	script := slices.ContainsFunc(c.Flags, func(f Flag) bool { return f.Name == "script" })
	switch {
	case c.Lab == "" && !script:
		return fmt.Errorf("%s: no lab (list: doublet bench lab --list) and no script", c.Name)
	case c.Lab != "" && script:
		return fmt.Errorf("%s: a lab and a script: want one of them", c.Name)
	}
	return nil
}

// product returns all combinations of a value of each axis.
func (s *Study) product() ([]Cell, error) {
	cells := []Cell{{}}
	if err := cells[0].add(s.Common); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	for _, a := range s.Axes {
		if a.Name == "" || len(a.Values) == 0 {
			return nil, fmt.Errorf("axis %q: it needs a name and values", a.Name)
		}
		var next []Cell
		for _, c := range cells {
			for _, v := range a.Values {
				one, err := c.with(v)
				if err != nil {
					return nil, fmt.Errorf("axis %s: %w", a.Name, err)
				}
				next = append(next, one)
			}
		}
		if cells = next; len(cells) > maxCells {
			return nil, fmt.Errorf("%d configurations: at most %d", len(cells), maxCells)
		}
	}
	return cells, nil
}

// Cells returns the configurations, in the order of the file.
func (s *Study) Cells() []Cell { return s.cells }

// shared are the flags that configurations cannot differ in: nothing could be compared.
var shared = []string{"users", "step", "speed", "window", "init-scale"}

// with returns the cell with the flags of a value.
func (c Cell) with(value map[string]any) (Cell, error) {
	name, ok := value["name"].(string)
	if !ok || name == "" {
		return c, errors.New("value without a name")
	}
	for _, flag := range shared {
		if value[flag] != nil {
			return c, fmt.Errorf("%s: configurations that differ in it cannot be compared: set it in [run]", flag)
		}
	}
	c.Flags = slices.Clone(c.Flags)
	if c.Name != "" {
		name = c.Name + ", " + name
	}
	c.Name = name
	return c, c.add(value)
}

// own are the flags that the study sets itself, or that make no sense in it.
var own = []string{"dir", "out", "json", "list", "live", "label", "repeat", "seed", "agent", "secret", "fail-if"}

// add adds the flags of a table. A flag has one value, or a list of them; lists of two tables are joined.
func (c *Cell) add(table map[string]any) error {
	for _, name := range sortedKeys(table) {
		if name == "name" {
			continue
		}
		if slices.Contains(own, name) {
			return fmt.Errorf("%s is not a flag of a study", name)
		}
		values, isList := table[name].([]any)
		if !isList {
			values = []any{table[name]}
		}
		given := slices.ContainsFunc(c.Flags, func(f Flag) bool { return f.Name == name })
		if given && !isList || name == "lab" && c.Lab != "" {
			return fmt.Errorf("%s is given twice", name)
		}
		for _, v := range values {
			text, err := scalar(v)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if name == "lab" {
				c.Lab = text
				continue
			}
			c.Flags = append(c.Flags, Flag{name, text})
		}
	}
	return nil
}

// scalar returns a value of TOML as the text of a flag.
func scalar(v any) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case int64, float64, bool:
		return fmt.Sprint(x), nil
	}
	return "", fmt.Errorf("want a text, a number, true or false, or a list of them, not a %T", v)
}

func sortedKeys(table map[string]any) []string {
	var out []string
	for k := range table {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Job is one run of a configuration.
type Job struct {
	Cell
	// Index numbers the configuration, Repeat its runs, both from 0.
	Index, Repeat int
}

// order returns the jobs in the order in which they run: each configuration once, in random order, then each of them
// again, so that a machine that slows down does not look like a difference between configurations.
func (s *Study) order() (out []Job) {
	r := rand.New(rand.NewPCG(s.Seed, uint64(len(s.cells))))
	for n := range s.Repeat {
		for _, i := range r.Perm(len(s.cells)) {
			out = append(out, Job{s.cells[i], i, n})
		}
	}
	return out
}
