package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Statistics are the statistics of a server by name.
type Statistics struct {
	Server string
	Values map[string]float64
}

// maxStatistics bounds the statistics that are kept of a file.
const maxStatistics = 100000

// ReadStatistics reads statistics: lines "Name = value" as show stat prints them, "name value" as Prometheus has them,
// or an object of JSON. Lines whose value is no number are left out.
func ReadStatistics(r io.Reader, server string) (*Statistics, error) {
	in := bufio.NewReader(r)
	s := &Statistics{Server: server, Values: map[string]float64{}}
	if head, err := in.Peek(1); err == nil && head[0] == '{' {
		return s, s.object(in)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(text, "=")
		if !ok || strings.Contains(name, "{") {
			at := strings.LastIndexAny(text, " \t")
			if at < 0 {
				continue
			}
			name, value = strings.TrimSuffix(strings.TrimSpace(text[:at]), ":"), text[at+1:]
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(value), ",", ""), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if len(s.Values) >= maxStatistics {
			return nil, fmt.Errorf("%s: more than %d statistics", server, maxStatistics)
		}
		s.Values[strings.TrimSpace(name)] = v
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", server, err)
	}
	if len(s.Values) == 0 {
		return nil, fmt.Errorf(
			"%s: no statistics: want lines such as \"Server.Users = 617\" (doublet show stat)",
			server,
		)
	}
	return s, nil
}

func (s *Statistics) object(r io.Reader) error {
	var all map[string]any
	if err := json.NewDecoder(io.LimitReader(r, 64<<20)).Decode(&all); err != nil {
		return fmt.Errorf("%s: %w", s.Server, err)
	}
	for name, v := range all {
		if x, ok := v.(float64); ok {
			s.Values[name] = x
		}
	}
	switch n := len(s.Values); {
	case n == 0:
		return fmt.Errorf("%s: no statistics: want an object such as {\"Server.Users\": 617}", s.Server)
	case n > maxStatistics:
		return fmt.Errorf("%s: more than %d statistics", s.Server, maxStatistics)
	}
	return nil
}

// view finds the statistics of a server by any of their names: Domino's (Database.DbCache.MaxEntries) in any case, and
// that of Prometheus (doublet_database_db_cache_max_entries, counters with _total).
type view struct {
	*Statistics
	names map[string]string // by key
}

func viewOf(s *Statistics) *view {
	v := &view{s, map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		if k := key(name); v.names[k] == "" {
			v.names[k] = name
		}
	}
	return v
}

// key returns what the names of a statistic have in common: small letters without dots and underscores.
func key(name string) string {
	k := strings.NewReplacer(".", "", "_", "").Replace(strings.ToLower(name))
	if exported, is := strings.CutPrefix(k, "doublet"); is {
		return strings.TrimSuffix(exported, "total")
	}
	return k
}

// value returns a statistic, and the name under which the server has it.
func (v *view) value(name string) (x float64, full string, ok bool) {
	full, ok = v.names[key(name)]
	return v.Values[full], full, ok
}

// hasAny reports whether the server has one of the statistics.
func (v *view) hasAny(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return v.names[key(n)] != "" })
}

// ending returns the names of the statistics that end so, such as those of each disk.
func (v *view) ending(end string) (names []string) {
	for k, name := range v.names {
		if strings.HasSuffix(k, key(end)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
