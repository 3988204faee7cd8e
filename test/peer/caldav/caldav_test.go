// Package caldav compares the CalDAV server with Radicale: the same events, the same requests, in one run.
package caldav

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
)

func TestMain(m *testing.M) { program.Main(m) }

const (
	events = 1000
	before = 800 // of them, those that are there before the measurement
	lanes  = 4
	round  = time.Second
	rounds = 3
)

// server is one of the two, with a calendar.
type server struct {
	name, calendar string // calendar is its address
	password       string
	pid            int
	client         *http.Client
	// fill makes an event that is there before the measurement.
	fill func(i int) error
	// token is that of the calendar with all events.
	token string
	// rates and cpu hold requests a second, and processor milliseconds a request, of each round by what was asked.
	rates, cpu map[string][]float64
}

func newServer(name, calendar, password string, pid int) *server {
	s := &server{name: name, calendar: calendar, password: password, pid: pid, rates: map[string][]float64{},
		cpu: map[string][]float64{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: lanes}}}
	s.fill = s.put
	return s
}

// radicale starts Radicale as its documentation has it, with its files flushed (the default) and a password.
func radicale(t *testing.T) *server {
	t.Helper()
	command := external.Need(t, "radicale")[0]
	dir, port := t.TempDir(), program.FreePorts(t, 1)[0]
	for name, text := range map[string]string{"users": "alice:demo\n", "config": fmt.Sprintf("[server]\n"+
		"hosts = 127.0.0.1:%s\nmax_connections = 20\n[auth]\ntype = htpasswd\nhtpasswd_filename = %s\n"+
		"htpasswd_encryption = plain\ndelay = 0\n[storage]\nfilesystem_folder = %s\n[logging]\nlevel = error\n", port,
		filepath.Join(dir, "users"), filepath.Join(dir, "files"))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(command, "--config", filepath.Join(dir, "config"))
	out := &program.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	s := newServer("Radicale", "http://127.0.0.1:"+port+"/alice/bench/", "demo", cmd.Process.Pid)
	s.fill = func(i int) error { // it keeps an event as a file, and reads what others have written
		name := filepath.Join(dir, "files", "collection-root", "alice", "bench", fmt.Sprint(i, ".ics"))
		return os.WriteFile(name, []byte(event(i)), 0o600)
	}
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, _, err := s.do("OPTIONS", "", "", nil); err == nil {
			return s
		} else if time.Now().After(until) {
			t.Fatal(err, out)
		}
	}
}

// do sends a request to the calendar, or to an entry of it, and reads the answer.
func (s *server) do(method, entry, body string, header map[string]string) (status int, text []byte, err error) {
	r, err := http.NewRequest(method, s.calendar+entry, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.SetBasicAuth("alice", s.password)
	r.Header.Set("Content-Type", "application/xml; charset=utf-8")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	out, err := s.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer out.Body.Close()
	text, err = io.ReadAll(out.Body)
	return out.StatusCode, text, err
}

// event returns event i: over the year 2026, each tenth weekly.
func event(i int) string {
	rule := ""
	if i%10 == 0 {
		rule = "RRULE:FREQ=WEEKLY;COUNT=20\r\n"
	}
	start := time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(i) * 525 * time.Minute)
	return fmt.Sprintf("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Doublet//peer//EN\r\nBEGIN:VEVENT\r\n"+
		"UID:event-%d\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:%s\r\nDTEND:%s\r\nSUMMARY:Event %d\r\n"+
		"LOCATION:Room %d\r\nDESCRIPTION:%s\r\n%sEND:VEVENT\r\nEND:VCALENDAR\r\n", i, start.Format("20060102T150405Z"),
		start.Add(time.Hour).Format("20060102T150405Z"), i, i%7, strings.Repeat("Some words on it. ", 3), rule)
}

// put writes event i.
func (s *server) put(i int) error {
	status, text, err := s.do("PUT", fmt.Sprintf("%d.ics", i), event(i),
		map[string]string{"Content-Type": "text/calendar; charset=utf-8"})
	if err == nil && status != http.StatusCreated && status != http.StatusNoContent && status != http.StatusOK {
		err = fmt.Errorf("%s: PUT: %d %s", s.name, status, text)
	}
	return err
}

// month asks for the events of June with their texts.
const month = `<?xml version="1.0"?><c:calendar-query xmlns="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav">` +
	`<prop><getetag/><c:calendar-data/></prop><c:filter><c:comp-filter name="VCALENDAR"><c:comp-filter name="VEVENT">` +
	`<c:time-range start="20260601T000000Z" end="20260701T000000Z"/></c:comp-filter></c:comp-filter></c:filter>` +
	`</c:calendar-query>`

func changes(token string) string {
	return `<?xml version="1.0"?><sync-collection xmlns="DAV:"><sync-token>` + token + `</sync-token>` +
		`<sync-level>1</sync-level><prop><getetag/></prop></sync-collection>`
}

// report sends a REPORT. It returns the names of the entries in the answer, sorted, and the token.
func (s *server) report(body string) (names []string, token string, err error) {
	status, text, err := s.do("REPORT", "", body, map[string]string{"Depth": "1"})
	if err != nil {
		return nil, "", err
	}
	if status != http.StatusMultiStatus {
		return nil, "", fmt.Errorf("%s: REPORT: %d %s", s.name, status, text)
	}
	var answer struct {
		Response []struct {
			Href string `xml:"DAV: href"`
		} `xml:"DAV: response"`
		Token string `xml:"DAV: sync-token"`
	}
	if err := xml.Unmarshal(text, &answer); err != nil {
		return nil, "", err
	}
	for _, r := range answer.Response {
		names = append(names, path.Base(r.Href))
	}
	slices.Sort(names)
	return names, answer.Token, nil
}

// used returns the processor time that the server has used.
func (s *server) used(t *testing.T) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	sum := time.Duration(0)
	for _, f := range fields[11:13] { // utime and stime, in ticks of 10 ms
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}

// measure repeats a request over all lanes: most times, or for a round if most is 0.
func (s *server) measure(t *testing.T, what string, most int, request func(i int) error) {
	t.Helper()
	var next, done atomic.Int64
	var wg sync.WaitGroup
	used, began := s.used(t), time.Now()
	for range lanes {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if most > 0 && i >= most || most == 0 && time.Since(began) > round {
					return
				}
				if err := request(i); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	n := float64(max(1, done.Load()))
	s.rates[what] = append(s.rates[what], n/time.Since(began).Seconds())
	s.cpu[what] = append(s.cpu[what], (s.used(t)-used).Seconds()*1000/n)
}

// TestBesideRadicale writes and reads the same events at both servers in turn, and prints a table with the medians and
// their ratios. The figures of one run are comparable with each other only. Each answer is checked: both servers must
// return the same entries.
func TestBesideRadicale(t *testing.T) {
	theirs := radicale(t)
	demo := program.Demo(t)
	ours := newServer("Doublet",
		"http://127.0.0.1:"+demo.Port["http"]+"/dav/calendars/alice@example.com/bench/", "demo",
		demo.Cmd.Process.Pid)
	both := []*server{ours, theirs}
	for _, s := range both {
		if status, text, err := s.do("MKCALENDAR", "", "", nil); err != nil || status != http.StatusCreated {
			t.Fatal(s.name, status, string(text), err)
		}
		for i := range before {
			if err := s.fill(i); err != nil {
				t.Fatal(s.name, err)
			}
		}
		// What a server keeps for later reading is made here, and not by the first PUT.
		if _, _, err := s.report(month); err != nil {
			t.Fatal(err)
		}
		s.measure(t, "PUT of a new event", events-before, func(i int) error { return s.put(before + i) })
	}
	var found [2][]string
	for i, s := range both {
		var err error
		if found[i], _, err = s.report(month); err != nil {
			t.Fatal(err)
		}
		names, token, err := s.report(changes(""))
		if s.token = token; err != nil || len(names) != events || token == "" {
			t.Fatal(s.name, len(names), token, err)
		}
	}
	if !slices.Equal(found[0], found[1]) || len(found[0]) < events/12 {
		t.Fatalf("%s finds %q, and %s %q", ours.name, found[0], theirs.name, found[1])
	}
	for range rounds {
		for _, s := range both {
			asks := func(what, body string, want int) {
				s.measure(t, what, 0, func(int) error {
					names, _, err := s.report(body)
					if err == nil && len(names) != want {
						err = fmt.Errorf("%s: %s: %d entries, want %d", s.name, what, len(names), want)
					}
					return err
				})
			}
			asks("REPORT of a month, with texts", month, len(found[0]))
			asks("sync-collection of all", changes(""), events)
			asks("sync-collection, nothing changed", changes(s.token), 0)
			s.measure(t, "PUT of a known event", 0, func(i int) error { return s.put(i % events) })
			var err error
			if _, s.token, err = s.report(changes("")); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Log("\n" + table(ours, theirs))
}

// table prints the medians of both servers in Markdown: requests a second, and processor milliseconds a request.
func table(ours, theirs *server) string {
	median := func(v []float64) float64 {
		v = slices.Sorted(slices.Values(v))
		return v[len(v)/2]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s | %s | ratio |\n|---|---|---|---|\n", ours.name, theirs.name)
	for _, what := range []string{"PUT of a new event", "PUT of a known event", "REPORT of a month, with texts",
		"sync-collection of all", "sync-collection, nothing changed"} {
		x, y := median(ours.rates[what]), median(theirs.rates[what])
		fmt.Fprintf(&b, "| %s, a second | %.0f | %.0f | %.1f |\n", what, x, y, x/y)
		x, y = median(ours.cpu[what]), median(theirs.cpu[what])
		fmt.Fprintf(&b, "| %s, processor ms | %.2f | %.2f | 1/%.1f |\n", what, x, y, y/x)
	}
	return b.String()
}
