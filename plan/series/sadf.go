package series

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// restart matches the line of sysstat about a start of the system, which names the number of processors.
var restart = regexp.MustCompile(`LINUX-RESTART\s*\((\d+) CPU\)`)

// sections are the columns of sadf -d that become measures: a share of the machine, or rates.
var sections = []struct {
	column string
	spec   spec
}{
	{"%idle", spec{name: "cpu", kind: amount, scale: 1}},
	{"rtps", spec{name: "disk_reads", kind: amount, perSec: 1, scale: 1}},
	{"wtps", spec{name: "disk_writes", kind: amount, perSec: 1, scale: 1}},
}

// ReadSadf reads the output of sadf -d, the database form of sysstat's files: "sadf -d -U /var/log/sysstat/sa25 -- -u
// -b". Processor seconds are the share of the machine that was neither idle nor waiting for disks, nor taken by the
// hypervisor.
func (s *Set) ReadSadf(r io.Reader, file string) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 64<<10), maxLine)
	t := &sadf{set: s, file: file, cores: s.Processors, clock: clock{zone: s.Zone}}
	for in.Scan() {
		t.line++
		if err := t.read(strings.TrimRight(in.Text(), "\r")); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", file, t.line+1, err)
	}
	if t.used == 0 {
		return fmt.Errorf("%s: no processor or disk rows: make it with sadf -d -U FILE -- -u -b", file)
	}
	return s.finish(file)
}

type sadf struct {
	set   *Set
	file  string
	line  int
	cores int
	clock clock
	head  []string
	used  int
}

func (t *sadf) fail(column int, format string, args ...any) error {
	return fmt.Errorf("%s:%d:%d: %w", t.file, t.line, column+1, fmt.Errorf(format, args...))
}

func (t *sadf) read(line string) error {
	if head, is := strings.CutPrefix(line, "# "); is {
		t.head = strings.Split(head, ";")
		return nil
	}
	if m := restart.FindStringSubmatch(line); m != nil {
		n, err := strconv.Atoi(m[1])
		if err == nil && t.set.Processors == 0 {
			t.cores = n
		}
		return nil
	}
	fields := strings.Split(line, ";")
	if line == "" || len(fields) < 4 || strings.Contains(fields[3], "COM") {
		return nil
	}
	if len(t.head) == 0 {
		return t.fail(0, "a row before the first line of names (# hostname;interval;timestamp;…), which sadf -d prints")
	}
	if len(fields) != len(t.head) {
		return t.fail(len(fields)-1, "%d fields, the head has %d", len(fields), len(t.head))
	}
	at, err := t.clock.parse(fields[2])
	if err != nil {
		return t.fail(2, "%w", err)
	}
	length, err := strconv.ParseFloat(fields[1], 64)
	if err != nil || !(length > 0 && length <= 86400) {
		return t.fail(1, "interval %q is no number of seconds", clip(fields[1]))
	}
	if cpu := slices.Index(t.head, "CPU"); cpu >= 0 && fields[cpu] != "-1" && fields[cpu] != "all" {
		return nil // one processor; the row of all is enough
	}
	for _, x := range sections {
		if i := slices.Index(t.head, x.column); i >= 0 {
			if err := t.value(x.spec, fields, i, at, length); err != nil {
				return err
			}
		}
	}
	return nil
}

// value adds the value of column i, whose row measures length seconds until at.
func (t *sadf) value(sp spec, fields []string, i int, at int64, length float64) error {
	v, err := strconv.ParseFloat(fields[i], 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return t.fail(i, "%q is no number of %s: run sadf with LC_ALL=C", clip(fields[i]), t.head[i])
	}
	if t.head[i] == "%idle" {
		if v, err = t.busy(fields, v, length); err != nil {
			return err
		}
	}
	st, err := t.set.begin(t.file, fields[0], []spec{sp}, []int{i + 1})
	if err != nil {
		return t.fail(0, "%w", err)
	}
	t.used++
	return t.set.row(st, t.file, t.line, at, []float64{v})
}

// busy returns the processor seconds of a row.
func (t *sadf) busy(fields []string, idle, length float64) (float64, error) {
	if t.cores <= 0 {
		return 0, t.fail(3, "file does not tell the number of processors: give --processors")
	}
	share := 100 - idle
	for _, name := range []string{"%iowait", "%steal"} {
		if i := slices.Index(t.head, name); i >= 0 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
				return 0, t.fail(i, "%q is no number of %s", clip(fields[i]), name)
			}
			share -= v
		}
	}
	if share < -0.5 || share > 100.5 {
		return 0, t.fail(3, "shares add up to %.1f %%: are columns swapped?", share)
	}
	return max(0, share) / 100 * length * float64(t.cores), nil
}
