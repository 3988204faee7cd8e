package imapd

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// mirror is a client that maintains the UIDs of its mailbox from EXISTS, EXPUNGE and FETCH responses only. It reports
// an error if the server sends an impossible response.
//
// Implements: RFC 9051 §5.2, §7.5.1: every session sees the others' changes in an order that keeps its numbers right
type mirror struct {
	name string
	c    net.Conn
	r    *bufio.Reader
	uids []uint32 // 0: not known yet
	tag  int
	// byUID is set if expunges may come at any time, so that commands cannot use message numbers.
	byUID bool
}

// do sends a command and processes the responses.
func (m *mirror) do(format string, args ...any) error {
	m.tag++
	tag := fmt.Sprintf("t%d", m.tag)
	line := fmt.Sprintf(format, args...)
	if _, err := fmt.Fprintf(m.c, "%s %s\r\n", tag, line); err != nil {
		return err
	}
	quiet := slices.Contains([]string{"FETCH", "STORE", "SEARCH", "SORT", "THREAD"}, strings.Fields(line)[0])
	for {
		l, err := m.r.ReadString('\n')
		if err != nil {
			return fmt.Errorf("%s: %s: %w", m.name, line, err)
		}
		if strings.HasPrefix(l, tag+" ") {
			if !strings.HasPrefix(l, tag+" OK") && !strings.Contains(l, "[EXPUNGEISSUED]") {
				return fmt.Errorf("%s: %s: %s", m.name, line, l)
			}
			return nil
		}
		if err := m.follow(l, quiet); err != nil {
			return fmt.Errorf("%s: %s: %w: %s", m.name, line, err, l)
		}
	}
}

func (m *mirror) follow(l string, quiet bool) error {
	var n, uid uint32
	var word string
	if k, _ := fmt.Sscanf(l, "* %d %s", &n, &word); k != 2 {
		return nil
	}
	switch word {
	case "EXISTS":
		if int(n) < len(m.uids) {
			return fmt.Errorf("there were %d", len(m.uids))
		}
		for len(m.uids) < int(n) {
			m.uids = append(m.uids, 0)
		}
	case "EXPUNGE":
		if quiet || n == 0 || int(n) > len(m.uids) {
			return fmt.Errorf("no EXPUNGE of %d may come now", n)
		}
		m.uids = slices.Delete(m.uids, int(n)-1, int(n))
	case "FETCH":
		at := strings.Index(l, "UID ")
		if at < 0 {
			return nil
		}
		if _, err := fmt.Sscanf(l[at:], "UID %d", &uid); err != nil {
			return err
		}
		if n == 0 || int(n) > len(m.uids) {
			return fmt.Errorf("there are %d messages", len(m.uids))
		}
		if have := m.uids[n-1]; have != 0 && have != uid {
			return fmt.Errorf("message %d has the UID %d", n, have)
		}
		m.uids[n-1] = uid
		for i, u := range m.uids {
			if u != 0 && (i < int(n)-1 && u >= uid || i > int(n)-1 && u <= uid) {
				return fmt.Errorf("message %d has the UID %d", i+1, u)
			}
		}
	}
	return nil
}

// stepByUID performs one random action, with UIDs.
func (m *mirror) stepByUID(r *rand.Rand) error {
	n := len(m.uids)
	if n == 0 || r.IntN(5) == 0 {
		return m.do("APPEND INBOX {4+}\r\na: b")
	}
	uid := max(m.uids[r.IntN(n)], 1)
	switch r.IntN(6) {
	case 0:
		return m.do("UID STORE %d +FLAGS (\\Deleted)", uid)
	case 1:
		return m.do("EXPUNGE")
	case 2:
		return m.do("UID MOVE %d INBOX", uid)
	case 3:
		return m.do("UID SORT (REVERSE ARRIVAL) UTF-8 ALL")
	case 4:
		return m.do("UID FETCH 1:* UID (PARTIAL -1:-3)")
	}
	return m.do("UID FETCH %d (UID FLAGS)", uid)
}

// step performs one random action.
func (m *mirror) step(r *rand.Rand) error {
	if m.byUID {
		return m.stepByUID(r)
	}
	n := len(m.uids)
	if n == 0 || r.IntN(5) == 0 {
		return m.do("APPEND INBOX {4+}\r\na: b")
	}
	i := 1 + r.IntN(n)
	j := i + r.IntN(min(5, n-i+1))
	switch r.IntN(12) {
	case 10:
		return m.do("SORT (SUBJECT) UTF-8 ALL")
	case 11:
		return m.do("THREAD REFERENCES UTF-8 %d:%d", i, j)
	case 0:
		return m.do("NOOP")
	case 1:
		return m.do("STORE %d:%d +FLAGS (\\Deleted)", i, j)
	case 2:
		return m.do("EXPUNGE")
	case 3:
		return m.do("MOVE %d INBOX", i)
	case 4:
		return m.do("UID FETCH 1:* UID")
	case 5:
		return m.do("SEARCH ALL")
	case 6:
		return m.do("UID STORE 1:* FLAGS.SILENT (k%d)", r.IntN(3))
	case 7:
		return m.do("COPY %d INBOX", i)
	}
	return m.do("FETCH %d:%d (UID FLAGS)", i, j)
}

func TestMirrors(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	var all []*mirror
	var wg sync.WaitGroup
	for i := range 4 {
		c, r := h.raw(t)
		m := &mirror{name: fmt.Sprintf("session %d", i), c: c, r: r}
		all = append(all, m)
		if err := m.do("LOGIN alice demo"); err != nil {
			t.Fatal(err)
		}
		if err := m.do("SELECT INBOX"); err != nil {
			t.Fatal(err)
		}
		// One session gets all changes between its commands, one all but expunges.
		notify := map[int]string{2: "selected-delayed", 3: "selected"}[i]
		if m.byUID = notify == "selected"; notify != "" {
			if err := m.do("NOTIFY SET (%s (MessageNew (UID) MessageExpunge FlagChange)) (personal (MessageNew "+
				"MessageExpunge))", notify); err != nil {
				t.Fatal(err)
			}
		}
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 150 {
				if err := m.step(random); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	// At the end all sessions have the same state.
	for _, m := range all {
		for _, line := range []string{"NOOP", "UID FETCH 1:* UID"} {
			if err := m.do("%s", line); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(m.uids, all[0].uids) {
			t.Errorf("%s: %v, %s: %v", m.name, m.uids, all[0].name, all[0].uids)
		}
	}
}
