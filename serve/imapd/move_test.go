package imapd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/test/door"
	"doublet/test/town"
)

// cluster is a town whose members serve IMAP.
type cluster struct {
	*town.Town
	t *testing.T
}

func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	return &cluster{t: t, Town: town.New(t, n, func(m *town.Member) (listen.Door, door.Options) {
		p := &people{mail: m.Mail, accounts: map[string]directory.Person{
			"alice": {ID: m.Town.Person, PersonFields: directory.PersonFields{FullName: []string{"alice"},
				MailDatabase: m.Town.Database}},
		}}
		p.in = signin.New(p, m.Env, signin.Options{Failures: -1})
		srv := New(m.Env, Config{Forward: m.Forward, Memory: m.Memory, MaxBad: 100}, p, m.Stats)
		return listen.Door{Name: "imap", Serve: srv.Serve, Busy: srv.Busy()}, door.Options{Left: func() {
			if n := srv.cfg.Memory.Used(); n != 0 {
				t.Errorf("%s: %d bytes of message memory leaked", m.Name, n)
			}
			if n := srv.stats.current.Value(); n != 0 {
				t.Errorf("%s: %d sessions are left", m.Name, n)
			}
		}}
	})}
}

func (w *cluster) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// wanderer is a client's connection.
type wanderer struct {
	t  *testing.T
	c  net.Conn
	in *bufio.Reader
	// leaving is set if BYE is expected.
	leaving bool
	// heard holds the lines since the last ask.
	heard []string
}

func (w *cluster) connect(to int) *wanderer {
	w.t.Helper()
	c, err := net.Dial("tcp", w.Members[to].Addr.String())
	w.must(err)
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(60 * time.Second))
	x := &wanderer{t: w.t, c: c, in: bufio.NewReader(c)}
	x.line()
	x.ask("l LOGIN alice demo")
	return x
}

func (x *wanderer) say(text string) {
	x.t.Helper()
	if _, err := io.WriteString(x.c, text); err != nil {
		x.t.Fatal(err)
	}
}

var literalEnd = regexp.MustCompile(`\{(\d+)\}\r\n$`)

// line reads one response, with its literals.
func (x *wanderer) line() string {
	x.t.Helper()
	var all strings.Builder
	for {
		s, err := x.in.ReadString('\n')
		all.WriteString(s)
		if err != nil {
			x.t.Fatalf("after %q: %v", append(x.heard, all.String()), err)
		}
		m := literalEnd.FindStringSubmatch(s)
		if m == nil {
			break
		}
		n, _ := strconv.Atoi(m[1])
		b := make([]byte, n)
		if _, err := io.ReadFull(x.in, b); err != nil {
			x.t.Fatal(err)
		}
		all.Write(b)
	}
	if strings.HasPrefix(all.String(), "* BYE") && !x.leaving {
		x.t.Fatalf("after %q: %s", x.heard, all.String())
	}
	x.heard = append(x.heard, all.String())
	return all.String()
}

// until reads up to a response with the given prefix.
func (x *wanderer) until(prefix string) (heard []string) {
	x.t.Helper()
	for !strings.HasPrefix(x.line(), prefix) {
	}
	heard, x.heard = x.heard, nil
	return heard
}

// ask sends a command and returns all responses up to the tagged one.
func (x *wanderer) ask(cmd string) []string {
	x.t.Helper()
	x.say(cmd + "\r\n")
	tag, _, _ := strings.Cut(cmd, " ")
	return x.until(tag + " ")
}

const moveLetter = "From: a@b.example\r\nSubject: moved\r\n\r\nbody\r\n"

// script is a client that performs random actions in a mailbox, while others change it too, and its home moves.
type script struct {
	w     *cluster
	x     *wanderer
	rng   *rand.Rand
	moves *rand.Rand // nil: the home stays
	n     int
	out   []string
}

// maybe hands the mail file over, with a probability of one half.
func (s *script) maybe() {
	if s.moves != nil && s.moves.IntN(2) == 0 {
		s.w.HandOver(s.moves.IntN(len(s.w.Members)))
	}
}

// others changes the mailbox like another session. In IDLE it makes one change only, because the client may get two
// changes separately.
func (s *script) others(idle bool) {
	f, ctx := s.w.File(), context.Background()
	folder := []string{"INBOX", "Archive"}[s.rng.IntN(2)]
	kinds := 3
	if idle {
		kinds = 2
	}
	switch s.rng.IntN(kinds) {
	case 0:
		_, _, err := f.Append(ctx, folder, []byte(moveLetter), mailbox.Flags{}, time.Unix(1_700_000_000, 0))
		s.w.must(err)
	case 1:
		v, _, err := f.Open(ctx, folder, false)
		s.w.must(err)
		if n := v.Exists(); n > 0 {
			k := uint32(s.rng.IntN(int(n))) + 1
			op := mailbox.StoreOp{Mode: mailbox.Add,
				Flags: mailbox.Flags{Keywords: []string{fmt.Sprint("k", s.rng.IntN(3))}}}
			_, err = v.Store(ctx, mailbox.Set{{Start: k, Stop: k}}, false, op, func(*mailbox.Message) {})
			s.w.must(err)
		}
	case 2:
		v, _, err := f.Open(ctx, folder, false)
		s.w.must(err)
		uids, err := v.UIDs(ctx)
		s.w.must(err)
		if len(uids) > 3 {
			uid := uids[s.rng.IntN(len(uids))]
			op := mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Deleted: true}}
			_, err = v.Store(ctx, mailbox.Set{{Start: uid, Stop: uid}}, true, op, func(*mailbox.Message) {})
			s.w.must(err)
			s.w.must(v.Expunge(ctx, mailbox.Set{{Start: uid, Stop: uid}}))
		}
	}
}

func (s *script) step() {
	s.n++
	tag := fmt.Sprint("t", s.n)
	k := 1 + s.rng.IntN(6)
	do := func(cmd string) { s.out = append(s.out, s.x.ask(tag+" "+cmd)...) }
	switch s.rng.IntN(17) {
	case 0, 1, 2:
		s.others(false)
	case 3:
		do(fmt.Sprintf("FETCH %d:* (UID FLAGS)", k))
	case 4:
		do(fmt.Sprintf("FETCH %d (BODY[] UID)", k))
	case 5:
		do(fmt.Sprintf(`STORE %d +FLAGS (\Flagged w%d)`, k, s.rng.IntN(3)))
	case 6:
		do(fmt.Sprintf(`UID STORE %d:* +FLAGS.SILENT (\Deleted)`, 20+s.rng.IntN(60)))
	case 7:
		do("EXPUNGE")
	case 8:
		do(fmt.Sprintf("COPY %d Archive", k))
	case 9:
		do(fmt.Sprintf("MOVE %d Archive", k))
	case 10: // the message follows the continuation request, and the home may move between them
		s.x.say(fmt.Sprintf("%s APPEND INBOX (\\Seen) \"14-Nov-2023 22:13:20 +0000\" {%d}\r\n", tag, len(moveLetter)))
		s.out = append(s.out, s.x.until("+")...)
		s.maybe()
		s.out = append(s.out, s.x.ask2(tag, moveLetter+"\r\n")...)
	case 11:
		do(fmt.Sprintf("APPEND Archive \"14-Nov-2023 22:13:20 +0000\" {%d+}\r\n"+
			"%s \"14-Nov-2023 22:13:20 +0000\" {%d+}\r\n%s",
			len(moveLetter), moveLetter, len(moveLetter), moveLetter))
	case 12:
		s.x.say(tag + " IDLE\r\n")
		s.out = append(s.out, s.x.until("+")...)
		s.maybe()
		s.others(true)
		s.maybe()
		s.out = append(s.out, s.x.ask2(tag, "DONE\r\n")...)
	case 13:
		do("SEARCH RETURN (SAVE) DELETED")
		s.maybe()
		s.out = append(s.out, s.x.ask(tag+"b FETCH $ (UID FLAGS)")...)
	case 14:
		do("SELECT " + []string{"INBOX", "Archive"}[s.rng.IntN(2)])
	case 15: // two commands at once, the second with a literal
		s.x.say(fmt.Sprintf("%s NOOP\r\n%sb STATUS {7+}\r\nArchive (MESSAGES UIDNEXT)\r\n", tag, tag))
		s.out = append(s.out, s.x.until(tag+"b ")...)
	case 16:
		do("NOOP")
	}
}

// ask2 sends the rest of a command.
func (x *wanderer) ask2(tag, rest string) []string {
	x.t.Helper()
	x.say(rest)
	return x.until(tag + " ")
}

var (
	modSeqs = regexp.MustCompile(`(MODSEQ \(?)(\d+)`)
	vary    = regexp.MustCompile(`(HIGHESTMODSEQ|UIDVALIDITY|COPYUID|APPENDUID) \d+`)
	// A member that never had a message with a keyword does not list the keyword.
	lists = regexp.MustCompile(`\* (FLAGS \(|OK \[PERMANENTFLAGS ).*\r\n`)
	ids   = regexp.MustCompile(`MAILBOXID \([^)]*\)|EMAILID \([^)]*\)`)
)

// normal removes the differences between two mail files from a transcript: MODSEQs are replaced by their order.
func normal(lines []string) string {
	text := ids.ReplaceAllString(vary.ReplaceAllString(lists.ReplaceAllString(strings.Join(lines, ""), ""), "$1 N"),
		"ID")
	order := map[string]int{}
	return modSeqs.ReplaceAllStringFunc(text, func(m string) string {
		p := modSeqs.FindStringSubmatch(m)
		if order[p[2]] == 0 {
			order[p[2]] = len(order) + 1
		}
		return p[1] + fmt.Sprint("#", order[p[2]])
	})
}

// TestMoves compares a session whose mail file is handed over between any two commands, and during some, with one that
// never moves: the client gets the same responses.
func TestMoves(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			run := func(moves *rand.Rand) (string, []string) {
				w := newCluster(t, 3)
				s := &script{w: w, x: w.connect(0), rng: rand.New(rand.NewPCG(seed, 1)), moves: moves}
				for range 12 {
					_, _, err := w.File().Append(context.Background(), "INBOX", []byte(moveLetter), mailbox.Flags{},
						time.Unix(1_700_000_000, 0))
					w.must(err)
				}
				enable := []string{"a NOOP", "a ENABLE CONDSTORE", "a ENABLE QRESYNC",
					"a ENABLE IMAP4rev2 QRESYNC"}[seed%4]
				s.out = append(s.x.ask(enable), s.x.ask("b SELECT INBOX")...)
				for range 150 {
					s.maybe()
					s.step()
				}
				s.maybe()
				s.out = append(s.out, s.x.ask("z FETCH 1:* (UID FLAGS)")...)
				s.x.leaving = true
				s.x.ask("y LOGOUT")
				if n := w.Moved(); moves != nil && n < 30 {
					t.Errorf("the session has moved %d times", n)
				}
				return normal(s.out), s.out
			}
			stayed, _ := run(nil)
			moved, raw := run(rand.New(rand.NewPCG(seed, 2)))
			if stayed != moved {
				a, b := strings.Split(stayed, "\n"), strings.Split(moved, "\n")
				i := 0
				for i < min(len(a), len(b)) && a[i] == b[i] {
					i++
				}
				lo := max(i-12, 0)
				t.Fatalf("line %d: a session that stayed heard\n%s\none that was moved\n%s\nraw\n%s", i,
					strings.Join(a[lo:min(i+6, len(a))], "\n"), strings.Join(b[lo:min(i+6, len(b))], "\n"),
					strings.Join(raw[lo:min(i+6, len(raw))], ""))
			}
		})
	}
}

// TestFrozen checks that a member that was frozen while another took over its databases continues its sessions there.
// The sessions get the changes made meanwhile, and changes that they made just before the member noticed are not lost.
func TestFrozen(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		w := newCluster(t, 3)
		x := w.connect(0)
		fill := func() {
			_, _, err := w.File().Append(context.Background(), "INBOX", []byte(moveLetter), mailbox.Flags{},
				time.Unix(1_700_000_000, 0))
			w.must(err)
		}
		for range 5 {
			fill()
		}
		x.ask("a ENABLE QRESYNC")
		x.ask("b SELECT INBOX")
		w.Send(w.Members[0], w.Members[1])
		w.TakeOver(1) // member 0 is frozen
		fill()
		if late { // the frozen member changes a flag for its client when it wakes
			x.ask("c STORE 2 +FLAGS (late)")
		}
		w.Wake(w.Members[0])
		heard := strings.Join(x.ask("d NOOP"), "")
		if !strings.Contains(heard, "* 6 EXISTS") || !strings.Contains(heard, "d OK") {
			t.Errorf("late %v: after it woke the client hears %s", late, heard)
		}
		heard = strings.Join(x.ask("e FETCH 1:* (UID FLAGS)"), "")
		if n := strings.Count(heard, " FETCH ("); n != 6 || late != strings.Contains(heard, "late") {
			t.Errorf("late %v: fetched %s", late, heard)
		}
		if n := w.Moved(); n != 1 {
			t.Errorf("late %v: moved %d times", late, n)
		}
		x.leaving = true
		x.ask("y LOGOUT")
	}
}

// TestParted checks a session that was told a UID which the surviving home does not know. It continues if the
// difference can be reported as an expunge and a new message.
func TestParted(t *testing.T) {
	t.Parallel()
	w := newCluster(t, 2)
	x := w.connect(0)
	x.ask("b SELECT INBOX")
	w.Send(w.Members[0], w.Members[1])
	w.TakeOver(1)
	heard := strings.Join(x.ask(fmt.Sprintf("c APPEND INBOX {%d+}\r\n%s", len(moveLetter), moveLetter)), "")
	if !strings.Contains(heard, "* 1 EXISTS") || !strings.Contains(heard, "APPENDUID") {
		t.Fatal(heard)
	}
	// Before the member learns of the other: its numbers are not void yet, and the session still uses them.
	w.must(w.Members[0].Store.Follow(context.Background(), w.Database))
	heard = strings.Join(x.ask("d NOOP"), "")
	if !strings.Contains(heard, "* 1 EXPUNGE") || !strings.Contains(heard, "d OK") {
		t.Errorf("moved, the client hears %s", heard)
	}
	w.Wake(w.Members[0])
	heard = strings.Join(x.ask("e NOOP"), "") + strings.Join(x.ask("f FETCH 1:* UID"), "")
	if !strings.Contains(heard, "* 1 EXISTS") || strings.Count(heard, "FETCH (") != 1 {
		t.Errorf("the message has not come: %s", heard)
	}
}

// TestRewritten checks a session whose mail file's ledger was rewritten, so that its numbers are void. The session must
// end with an explanation, and never return a number that means another message.
func TestRewritten(t *testing.T) {
	t.Parallel()
	w := newCluster(t, 2)
	x := w.connect(0)
	x.ask("b SELECT INBOX")
	w.Send(w.Members[0], w.Members[1])
	w.TakeOver(1)
	x.ask(fmt.Sprintf("c APPEND INBOX {%d+}\r\n%s", len(moveLetter), moveLetter))
	w.Wake(w.Members[0])
	x.leaving = true
	x.say("d FETCH 1 UID\r\n")
	if heard := x.line(); heard != "* BYE [UNAVAILABLE] The mail file has moved to another server, sign in again\r\n" {
		t.Error(heard)
	}
}
