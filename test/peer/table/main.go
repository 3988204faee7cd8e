// Command table reads what the neutral driver printed for several servers, in several rounds, and prints one table in
// Markdown: for each figure the median and the range of each server, and how the first server compares with each other.
// A line "## NAME" begins the figures of one server; test/peer/compare writes it.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// figure is a row of the table: the lines that a pattern matches, and the number in its group.
type figure struct {
	name    string
	pattern *regexp.Regexp
}

func row(name, pattern string) figure { return figure{name, regexp.MustCompile(pattern)} }

const number = `([\d.]+)`

var figures = []figure{
	row("mailbox actions/s", `^WORK .* rate=`+number),
	row("CPU-s per 1,000 actions", `^WORK .* cpu_s_per_1000=`+number),
	row("KB written an action", `^WORK .* wKB/action=`+number),
	row("p99 of open, ms", `^ +open .* p99=`+number),
	row("p99 of read, ms", `^ +read .* p99=`+number),
	row("p99 of delete, ms", `^ +delete .* p99=`+number),
	row("p99 of send, ms", `^ +send .* p99=`+number),
	row("filling, CPU-s per 1,000", `^FILL .* cpu_s/1000=`+number),
	row("SMTP 1 KB to one, messages/s", `^SMTP .* size=1024 rcpt=1 .* delivered=`+number),
	row("SMTP 1 KB to one, CPU-s per 1,000", `^SMTP .* size=1024 rcpt=1 .* cpu_s/1000msg=`+number),
	row("SMTP 100 KB to three, messages/s", `^SMTP .* size=102400 rcpt=3 .* delivered=`+number),
	row("SMTP 100 KB to three, CPU-s per 1,000", `^SMTP .* size=102400 rcpt=3 .* cpu_s/1000msg=`+number),
	row("CPU-s in whole, with the rest", `^REST .* cpu_s=`+number),
	row("memory (PSS) after it, MB", `^BUSY .* pss_mb=`+number),
	row("memory (PSS) after rest, MB", `^REST .* pss_mb=`+number),
}

// results holds the values of each server and figure, in the order of the rounds.
type results struct {
	servers []string
	values  map[string]map[string][]float64
}

func read(in io.Reader) (*results, error) {
	r := &results{values: make(map[string]map[string][]float64)}
	server := ""
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "## "); ok {
			server = name
			if !slices.Contains(r.servers, server) {
				r.servers = append(r.servers, server)
				r.values[server] = make(map[string][]float64)
			}
			continue
		}
		for _, f := range figures {
			m := f.pattern.FindStringSubmatch(line)
			if m == nil || server == "" {
				continue
			}
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", line, err)
			}
			r.values[server][f.name] = append(r.values[server][f.name], v)
		}
	}
	return r, lines.Err()
}

// write prints the table. Figures that no server has are left out.
func (r *results) write(out io.Writer) {
	head, rule := "| |", "|---|"
	for i, s := range r.servers {
		head, rule = head+" "+s+" |", rule+"---|"
		if i > 0 {
			head, rule = head+" "+r.servers[0]+" ÷ "+s+" |", rule+"---|"
		}
	}
	fmt.Fprintln(out, head)
	fmt.Fprintln(out, rule)
	for _, f := range figures {
		if line, any := r.line(f.name); any {
			fmt.Fprintln(out, line)
		}
	}
}

func (r *results) line(name string) (line string, any bool) {
	line = "| " + name + " |"
	first := 0.0
	for i, s := range r.servers {
		v := slices.Sorted(slices.Values(r.values[s][name]))
		if len(v) == 0 {
			line += " – |"
			if i > 0 {
				line += " – |"
			}
			continue
		}
		any = true
		m := median(v)
		line += " " + show(m)
		if len(v) > 1 {
			line += " (" + show(v[0]) + "–" + show(v[len(v)-1]) + ")"
		}
		line += " |"
		switch {
		case i == 0:
			first = m
		case first == 0 || m == 0:
			line += " – |"
		default:
			line += fmt.Sprintf(" %.2f |", first/m)
		}
	}
	return line, any
}

// median returns the median of sorted values.
func median(v []float64) float64 {
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func show(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func main() {
	r, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
	r.write(os.Stdout)
}
