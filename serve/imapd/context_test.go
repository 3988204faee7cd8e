package imapd

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"doublet/wire/imap"
)

// contextClient maintains results from ADDTO and REMOVEFROM.
type contextClient struct {
	t      *testing.T
	c      net.Conn
	r      *bufio.Reader
	n      int
	uid    bool
	result map[string][]uint32 // by tag
	last   []uint32            // the latest SEARCH or SORT response
}

var contextLine = regexp.MustCompile(`^\* ESEARCH \(TAG "(\w+)"\)( UID)? (ADDTO|REMOVEFROM) \((.*)\)$`)

// command sends a command and processes the responses.
func (x *contextClient) command(text string) string {
	x.t.Helper()
	x.n++
	tag := fmt.Sprintf("t%d", x.n)
	if _, err := fmt.Fprintf(x.c, "%s %s\r\n", tag, text); err != nil {
		x.t.Fatal(err)
	}
	for {
		line, err := x.r.ReadString('\n')
		if err != nil {
			x.t.Fatal(text, err)
		}
		line = strings.TrimSuffix(line, "\r\n")
		if m := contextLine.FindStringSubmatch(line); m != nil {
			x.change(m[1], m[3], strings.Fields(m[4]))
		}
		if rest, ok := strings.CutPrefix(line, "* SEARCH"); ok {
			x.last = parseNumbers(rest)
		}
		if rest, ok := strings.CutPrefix(line, "* SORT"); ok {
			x.last = parseNumbers(rest)
		}
		if n, ok := strings.CutSuffix(line, " EXPUNGE"); ok && !x.uid {
			x.shift(n[2:])
		}
		if strings.HasPrefix(line, tag+" ") {
			if !strings.HasPrefix(line, tag+" OK") {
				x.t.Fatalf("%s: %s", text, line)
			}
			return tag
		}
	}
}

func parseNumbers(s string) (out []uint32) {
	for _, f := range strings.Fields(s) {
		n, _ := strconv.ParseUint(f, 10, 32)
		out = append(out, uint32(n))
	}
	return out
}

// shift renumbers the messages after an expunged one, which no result may contain any more.
func (x *contextClient) shift(number string) {
	n, _ := strconv.ParseUint(number, 10, 32)
	for tag, list := range x.result {
		for i, m := range list {
			if m == uint32(n) {
				x.t.Fatalf("%s: message %d is expunged and still in the result", tag, n)
			}
			if m > uint32(n) {
				list[i]--
			}
		}
	}
}

func (x *contextClient) change(tag, verb string, args []string) {
	list := x.result[tag]
	for i := 0; i+1 < len(args); i += 2 {
		at, _ := strconv.Atoi(args[i])
		set, err := imap.ParseSet(args[i+1], 1000)
		if err != nil {
			x.t.Fatal(err)
		}
		set.Each(func(n uint32) bool {
			switch old := slices.Index(list, n); {
			case verb == "REMOVEFROM" && (old < 0 || at > 0 && old != at-1):
				x.t.Fatalf("%s: %d is not at %d of %v", tag, n, at, list)
			case verb == "REMOVEFROM":
				list = slices.Delete(list, old, old+1)
			case old >= 0:
				x.t.Fatalf("%s: %d is there already", tag, n)
			case at == 0:
				list = append(list, n)
				slices.Sort(list)
			default:
				list = slices.Insert(list, at-1, n)
			}
			return true
		})
	}
	x.result[tag] = list
}

// TestContexts checks that a client that follows ADDTO and REMOVEFROM always has the result of a new search.
func TestContexts(t *testing.T) {
	t.Parallel()
	queries := []string{
		"SEARCH %sSEEN", "SORT %s(SUBJECT REVERSE ARRIVAL) UTF-8 NOT FLAGGED", "SEARCH %sOR SUBJECT b NOT KEYWORD work",
		"SORT %s(SIZE) UTF-8 UNDELETED",
	}
	for seed := range uint64(6) {
		h := open(t, settings{})
		random := rand.New(rand.NewPCG(seed, 11))
		c := h.connect(t)
		x := &contextClient{t: t, c: c, r: bufio.NewReader(c), uid: seed%2 == 1, result: map[string][]uint32{}}
		if _, err := x.r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		x.command("LOGIN alice demo")
		add := func() {
			text := fmt.Sprintf("Subject: %c\r\n\r\n%s\r\n", 'a'+random.IntN(4), strings.Repeat("x", random.IntN(20)))
			x.command(fmt.Sprintf("APPEND INBOX {%d+}\r\n%s", len(text), text))
		}
		for range 5 {
			add()
		}
		x.command("SELECT INBOX")
		uid := ""
		if x.uid {
			uid = "UID "
		}
		tags := make([]string, len(queries))
		for i, q := range queries {
			x.command(uid + fmt.Sprintf(q, ""))
			first := slices.Clone(x.last)
			tags[i] = x.command(uid + fmt.Sprintf(q, "RETURN (UPDATE) "))
			x.result[tags[i]] = first
		}
		for range 60 {
			switch random.IntN(8) {
			case 0:
				add()
			case 1:
				x.command("EXPUNGE")
			default:
				flags := []string{`\Seen`, `\Flagged`, `\Deleted`, "work"}
				x.command(fmt.Sprintf("STORE %d:* %cFLAGS.SILENT (%s)", 1+random.IntN(3), "+-"[random.IntN(2)],
					flags[random.IntN(4)]))
			}
			if random.IntN(3) > 0 {
				continue
			}
			for i, q := range queries {
				x.command(uid + fmt.Sprintf(q, ""))
				if !slices.Equal(x.last, x.result[tags[i]]) {
					t.Fatalf("seed %d: %s: %v, want %v", seed, q, x.result[tags[i]], x.last)
				}
			}
		}
	}
}
