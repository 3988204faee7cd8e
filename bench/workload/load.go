package workload

import (
	"os"
	"strconv"
	"strings"

	"doublet/bench"
)

// Load returns the built-in workload with the given name, or else reads the file of that name. text is the file's text.
func Load(name string) (w *Workload, text []byte, err error) {
	if text, err = Text(name); err != nil {
		var ferr error
		if text, ferr = os.ReadFile(name); ferr != nil {
			return nil, nil, bench.Usage("%w, and no such file (list: doublet bench workloads)", err)
		}
	}
	if w, err = Parse(name, text); err != nil {
		return nil, nil, bench.Usage("%w", err)
	}
	return w, text, nil
}

// ParseSet parses changes of parameters, each NAME=NUMBER.
func (w *Workload) ParseSet(changes []string) (map[string]int, error) {
	out := make(map[string]int)
	for _, s := range changes {
		name, value, _ := strings.Cut(s, "=")
		n, err := strconv.Atoi(value)
		if _, ok := w.Parameters[name]; !ok || err != nil || n < 0 || n > 10_000 {
			return nil, bench.Usage("--set %s: %s has no such parameter, or the value is not 0 to 10,000 (see doublet "+
				"bench show %s)", s, w.Name, w.Name)
		}
		out[name] = n
	}
	return out, nil
}
