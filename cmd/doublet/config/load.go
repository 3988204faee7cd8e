package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"doublet/mail/journal"

	"github.com/pelletier/go-toml/v2"
)

// maxFile is the size limit of a configuration file, in bytes.
const maxFile = 1 << 20

// Warning describes an oddity of the configuration that does not prevent a start.
type Warning string

// Error describes a mistake in the configuration, with the place where it was made.
type Error struct {
	Where string // "doublet.toml:12", "DOUBLET_LOG_LEVEL", "--imap"
	Key   string // "limits.message_size", or the unknown key as written
	Err   error
}

func (e *Error) Error() string {
	if e.Key == "" {
		return e.Where + ": " + e.Err.Error()
	}
	return e.Where + ": " + e.Key + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Load reads the configuration. It begins with base (Default or Demo) and applies, in this order, the TOML file path,
// the DOUBLET_… variables of environ ("NAME=value", as os.Environ returns them), and overrides, which maps keys such as
// "doors.imap" to the text of flags. An empty path means no file; if the file does not exist, the error matches
// fs.ErrNotExist. Load reports all mistakes at once, as joined values of type *Error.
func Load(base Config, path string, environ []string, overrides map[string]string) (Config, []Warning, error) {
	c := base
	var bad []error
	lines := map[string]string{} // key → where it was set last
	if path != "" {
		raw, err := readFile(path)
		if err != nil {
			return base, nil, fmt.Errorf("read configuration: %w", err)
		}
		if err := c.decode(path, raw, lines); err != nil {
			return base, nil, err
		}
	}
	warnings := c.fromEnvironment(environ, lines, &bad)
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		f, ok := fieldOf(key)
		if !ok {
			bad = append(bad, &Error{"flag", key, unknown(key)})
			continue
		}
		if err := f.parse(&c, overrides[key]); err != nil {
			bad = append(bad, &Error{"flag", key, err})
		}
		lines[key] = "flag"
	}
	if len(bad) == 0 {
		more, err := c.check(lines)
		warnings = append(warnings, more...)
		bad = append(bad, err)
	}
	if err := errors.Join(bad...); err != nil {
		return base, warnings, err
	}
	return c, warnings, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("larger than 1 MB")}
	}
	return raw, err
}

// decode applies the file to c and records the line of each key in lines.
func (c *Config) decode(path string, raw []byte, lines map[string]string) error {
	d := toml.NewDecoder(bytes.NewReader(raw)).DisallowUnknownFields()
	err := d.Decode(c)
	var strict *toml.StrictMissingError
	var one *toml.DecodeError
	switch {
	case errors.As(err, &strict):
		var all []error
		for i := range strict.Errors {
			e := &strict.Errors[i]
			line, _ := e.Position()
			key := strings.Join(e.Key(), ".")
			all = append(all, &Error{path + ":" + strconv.Itoa(line), key, unknown(key)})
		}
		return errors.Join(all...)
	case errors.As(err, &one):
		line, _ := one.Position()
		return &Error{path + ":" + strconv.Itoa(line), strings.Join(one.Key(), "."),
			errors.New(strings.TrimPrefix(one.Error(), "toml: "))}
	case err != nil:
		return &Error{path + ":" + strconv.Itoa(lineOf(err, raw)), "", err}
	}
	placeKeys(path, raw, lines)
	return nil
}

// lineOf returns the line of an error that the decoder reports without a position. The error is on the last line of the
// shortest prefix of the file that fails with the same message.
func lineOf(err error, raw []byte) int {
	var ends []int
	for line := range bytes.Lines(raw) {
		n := len(line)
		if len(ends) > 0 {
			n += ends[len(ends)-1]
		}
		ends = append(ends, n)
	}
	i := sort.Search(len(ends), func(i int) bool {
		var c Config
		short := toml.NewDecoder(bytes.NewReader(raw[:ends[i]])).DisallowUnknownFields().Decode(&c)
		return short != nil && short.Error() == err.Error()
	})
	return i + 1
}

// placeKeys records the line of every setting of a decoded file. The lines are used in messages only.
func placeKeys(path string, raw []byte, lines map[string]string) {
	for i, at := range written(raw) {
		if f, ok := fieldOf(at.section + "." + at.key); ok {
			lines[f.key] = path + ":" + strconv.Itoa(i+1)
		}
	}
}

// writtenLine is one line of a file: the header of a section (key is empty), or a key below it.
type writtenLine struct{ section, key string }

// written yields the index and content of each line in the ordinary form of a TOML file: a table's header, below it one
// key a line. It skips all other lines.
func written(raw []byte) iter.Seq2[int, writtenLine] {
	return func(yield func(int, writtenLine) bool) {
		section, i := "", -1
		for line := range bytes.Lines(raw) {
			i++
			s, key := strings.TrimSpace(string(line)), ""
			if strings.HasPrefix(s, "[") {
				name, _, _ := strings.Cut(s[1:], "]")
				section = strings.TrimSpace(name)
			} else if name, _, ok := strings.Cut(s, "="); ok {
				key = strings.TrimSpace(name)
			} else {
				continue
			}
			if !yield(i, writtenLine{section, key}) {
				return
			}
		}
	}
}

// fromEnvironment applies the DOUBLET_… variables to c.
func (c *Config) fromEnvironment(environ []string, lines map[string]string, bad *[]error) []Warning {
	byEnv := map[string]field{}
	names := make([]string, 0, len(fields))
	for _, f := range fields {
		byEnv[f.env()] = f
		names = append(names, f.env())
	}
	var warnings []Warning
	for _, pair := range environ {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "DOUBLET_") {
			continue
		}
		f, ok := byEnv[name]
		if !ok {
			// An unknown name is not an error: the variable may be for another program that starts the server.
			warnings = append(warnings, Warning(name+" is no setting"+nearest(name, names)))
			continue
		}
		if err := f.parse(c, text); err != nil {
			*bad = append(*bad, &Error{name, f.key, err})
		}
		lines[f.key] = name
	}
	return warnings
}

func unknown(key string) error {
	names := make([]string, 0, len(fields))
	for _, f := range fields {
		names = append(names, f.key)
	}
	for _, s := range Sections() {
		names = append(names, s.Name)
	}
	return errors.New("no such setting" + nearest(key, names))
}

// Check validates every value.
func (c Config) Check() ([]Warning, error) { return c.check(nil) }

func (c *Config) check(where map[string]string) ([]Warning, error) {
	var bad []error
	at := func(key string) string {
		if w := where[key]; w != "" {
			return w
		}
		return "configuration"
	}
	for _, f := range fields {
		if err := f.check(c); err != nil {
			bad = append(bad, &Error{at(f.key), f.key, err})
		}
	}
	if (c.TLS.Certificate == "") != (c.TLS.Key == "") {
		bad = append(bad, &Error{at("tls.key"), "tls", errors.New("set both certificate and key, or neither")})
	}
	if c.Data.Dir == "" {
		bad = append(bad, &Error{at("data.dir"), "data.dir", errors.New("data folder is not set")})
	}
	if m := c.Server.Memory; m != 0 && m < MinMemory {
		bad = append(bad, &Error{at("server.memory"), "server.memory",
			fmt.Errorf("%s is less than %s: choose more, or 0B", m, MinMemory)})
	}
	if _, err := journal.ParseRules(c.Journal.Rules); err != nil {
		bad = append(bad, &Error{at("journal.rules"), "journal.rules", err})
	}
	if _, _, err := journal.ParseKeys(c.Journal.Recipients); err != nil {
		bad = append(bad, &Error{at("journal.recipients"), "journal.recipients", err})
	}
	bad = append(bad, c.checkBackups(at)...)
	bad = append(bad, c.checkNetworks(at)...)
	warnings, more := c.checkDoors(at)
	return warnings, errors.Join(append(bad, more...)...)
}

func (c *Config) checkDoors(at func(key string) string) (warnings []Warning, bad []error) {
	taken := map[string]string{}
	open := 0
	for _, f := range fields {
		if !strings.HasPrefix(f.key, "doors.") {
			continue
		}
		address := f.text(c)
		if address == Off {
			continue
		}
		open++
		_, port, err := net.SplitHostPort(address)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil {
			bad = append(bad, &Error{at(f.key), f.key, fmt.Errorf("%q is neither host:port nor off", address)})
			continue
		}
		// Port 0 means any free port, so two doors may share the address.
		if other, twice := taken[address]; twice && n != 0 {
			bad = append(bad, &Error{at(f.key), f.key, fmt.Errorf("%s is already the address of %s", address, other)})
		}
		taken[address] = f.key
	}
	if open == 0 {
		warnings = append(warnings, "every door is off")
	}
	return warnings, bad
}

// nearest returns ", did you mean …?" if a known name is similar to the given one, else "".
func nearest(name string, known []string) string {
	best, least := "", max(2, len(name)/4)+1
	for _, k := range known {
		d := distance(name, k)
		// A setting in the wrong section is a more likely mistake than several wrong letters.
		if i := strings.LastIndexByte(name, '.'); i >= 0 && strings.HasSuffix(k, name[i:]) {
			d = min(d, 1)
		}
		if d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return ", did you mean " + best + "?"
}

// distance returns the Levenshtein distance of two names, of which it reads the first 200 bytes.
func distance(a, b string) int {
	a, b = a[:min(len(a), 200)], b[:min(len(b), 200)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
