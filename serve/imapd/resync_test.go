package imapd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/note"
)

// errCutOff means that the test has closed the connection.
var errCutOff = errors.New("cut off")

// keeper is a client with a cache and QRESYNC whose connection is cut after any line of any response. Its MODSEQ is the
// last HIGHESTMODSEQ, or the highest MODSEQ after that. MODSEQs in the responses to a command count when the command
// has ended, others at once.
type keeper struct {
	h   *house
	rnd *rand.Rand
	log []string

	cache    map[uint32]string // flags by UID
	contig   uint32            // the cache holds everything up to this UID
	mod      uint64            // MODSEQ of the cache
	validity string

	c      net.Conn
	r      *bufio.Reader
	tag    int
	left   int // lines until the connection is cut
	exists int
	next   uint64 // MODSEQ after the current command
	silent string // the keyword of the current STORE
	byUID  bool
	notify bool
	// moving is set if NOTIFY may send expunges at any time, so commands must not use message numbers (RFC 5465 section
	// 5).
	moving bool
}

var (
	keeperFetch   = regexp.MustCompile(`^\* (\d+) (UID)?FETCH \((.*)\)\r\n$`)
	keeperUID     = regexp.MustCompile(`UID (\d+)`)
	keeperFlags   = regexp.MustCompile(`FLAGS \(([^)]*)\)`)
	keeperModSeq  = regexp.MustCompile(`MODSEQ \(?(\d+)`)
	keeperHighest = regexp.MustCompile(`^\S+ OK \[HIGHESTMODSEQ (\d+)\]`)
	keeperGone    = regexp.MustCompile(`^\* VANISHED (?:\(EARLIER\) )?(\S+)\r\n$`)
	keeperExists  = regexp.MustCompile(`^\* (\d+) EXISTS`)
	keeperValid   = regexp.MustCompile(`\[UIDVALIDITY (\d+)\]`)
)

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

// line reads a line and updates the cache.
func (k *keeper) line() (string, error) {
	if k.left--; k.left < 0 {
		_ = k.c.Close()
		return "", errCutOff
	}
	l, err := k.r.ReadString('\n')
	if err != nil {
		return l, err
	}
	k.log = append(k.log, "S: "+strings.TrimSpace(l))
	if m := keeperValid.FindStringSubmatch(l); m != nil {
		k.validity = m[1]
	}
	if m := keeperExists.FindStringSubmatch(l); m != nil {
		k.exists = int(number(m[1]))
	}
	if m := keeperGone.FindStringSubmatch(l); m != nil {
		for part := range strings.SplitSeq(m[1], ",") {
			from, to, both := strings.Cut(part, ":")
			if !both {
				to = from
			}
			for uid := number(from); uid <= number(to); uid++ {
				if delete(k.cache, uint32(uid)); !strings.Contains(l, "(EARLIER)") {
					k.exists--
				}
			}
		}
	}
	if m := keeperHighest.FindStringSubmatch(l); m != nil {
		k.next = number(m[1])
	} else if m := keeperModSeq.FindStringSubmatch(l); m != nil {
		k.next = max(k.next, number(m[1]))
	}
	if m := keeperFetch.FindStringSubmatch(l); m != nil {
		k.fetched(m)
	}
	return l, nil
}

func (k *keeper) fetched(m []string) {
	uid := uint32(number(m[1]))
	if m[2] == "" {
		uid = uint32(number(keeperUID.FindStringSubmatch(m[3])[1]))
	}
	flags := keeperFlags.FindStringSubmatch(m[3])
	if flags != nil {
		words := slices.DeleteFunc(strings.Fields(flags[1]), func(w string) bool { return w == `\Recent` })
		slices.Sort(words)
		k.cache[uid] = strings.Join(words, " ")
	} else if have, ok := k.cache[uid]; ok && k.silent != "" {
		words := append(strings.Fields(have), k.silent)
		slices.Sort(words)
		k.cache[uid] = strings.Join(slices.Compact(words), " ")
	}
}

// do sends a command and reads its responses. It updates the MODSEQ if the command succeeds.
func (k *keeper) do(format string, args ...any) error {
	k.tag++
	tag := fmt.Sprintf("t%d", k.tag)
	line := fmt.Sprintf(format, args...)
	k.log = append(k.log, fmt.Sprintf("C: %s %s", tag, line))
	k.next = k.mod
	if _, err := fmt.Fprintf(k.c, "%s %s\r\n", tag, line); err != nil {
		return err
	}
	for {
		l, err := k.line()
		if err != nil {
			return err
		}
		if strings.HasPrefix(l, tag+" ") {
			if strings.HasPrefix(l, tag+" BAD") {
				return fmt.Errorf("%s: %s", line, l)
			}
			k.mod = k.next
			return nil
		}
	}
}

// connect starts a session that lasts for a given number of lines, and resynchronises.
func (k *keeper) connect(lines int) error {
	c, err := net.Dial("tcp", k.h.Addr.String())
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	k.c, k.r, k.left = c, bufio.NewReader(c), 1000
	if _, err = k.line(); err == nil {
		err = k.do("LOGIN alice demo")
	}
	if err == nil {
		err = k.do("ENABLE QRESYNC")
	}
	if k.byUID = k.rnd.IntN(4) == 0; k.byUID && err == nil {
		err = k.do("ENABLE UIDONLY")
	}
	if err != nil {
		return err
	}
	k.left = lines
	known := ""
	if k.contig > 0 && k.rnd.IntN(2) == 0 {
		known = fmt.Sprintf(" 1:%d", max(k.contig, slices.Max(append(slices.Collect(maps.Keys(k.cache)), 1))))
	}
	if k.validity == "" {
		err = k.do("SELECT INBOX")
	} else {
		err = k.do("SELECT INBOX (QRESYNC (%s %d%s))", k.validity, max(k.mod, 1), known)
	}
	if err == nil {
		err = k.fetchNew()
	}
	k.moving = false
	if k.notify = k.rnd.IntN(3) == 0; k.notify && err == nil {
		events := "(MessageNew MessageExpunge FlagChange)"
		groups := []string{"(selected " + events + ")", "(selected-delayed " + events + ")",
			"(selected (MessageNew MessageExpunge))",
			"(inboxes " + events + ")"}[k.rnd.IntN(4)]
		k.moving = strings.HasPrefix(groups, "(selected ")
		err = k.do("NOTIFY SET %s", groups)
	}
	return err
}

func (k *keeper) fetchNew() error {
	if err := k.do("UID FETCH %d:* (FLAGS)", k.contig+1); err != nil {
		return err
	}
	for uid := range k.cache {
		k.contig = max(k.contig, uid)
	}
	return nil
}

// unasked reads responses without a command; each line counts at once.
func (k *keeper) unasked(within time.Duration) error {
	for {
		if k.r.Buffered() == 0 {
			_ = k.c.SetReadDeadline(time.Now().Add(within))
			_, err := k.r.Peek(1)
			_ = k.c.SetReadDeadline(time.Now().Add(30 * time.Second))
			var late net.Error
			if errors.As(err, &late) && late.Timeout() {
				return nil
			}
		}
		k.next = k.mod
		if _, err := k.line(); err != nil {
			return err
		}
		k.mod = k.next
	}
}

func (k *keeper) idle() error {
	k.tag++
	k.log = append(k.log, "C: IDLE")
	k.next = k.mod
	if _, err := fmt.Fprintf(k.c, "t%d IDLE\r\n", k.tag); err != nil {
		return err
	}
	for begun := false; !begun; { // with NOTIFY, events may come before it
		l, err := k.line()
		if err != nil {
			return err
		}
		k.mod, begun = k.next, strings.HasPrefix(l, "+")
	}
	if err := k.unasked(3 * time.Millisecond); err != nil {
		return err
	}
	if _, err := fmt.Fprint(k.c, "DONE\r\n"); err != nil {
		return err
	}
	for {
		l, err := k.line()
		if err != nil || strings.HasPrefix(l, "t") {
			k.mod = k.next
			return err
		}
	}
}

// step sends a random command.
func (k *keeper) step() error {
	uids := slices.Sorted(maps.Keys(k.cache))
	if len(uids) == 0 || k.exists == 0 {
		return k.fetchNew()
	}
	uid, seq := uids[k.rnd.IntN(len(uids))], 1+k.rnd.IntN(k.exists)
	word := fmt.Sprintf("w%d", k.rnd.IntN(5))
	byUID := []func() error{
		k.fetchNew, k.idle,
		func() error { return k.unasked(2 * time.Millisecond) },
		func() error { return k.do("NOOP") },
		func() error { return k.do("UID FETCH %d (FLAGS)", uid) },
		func() error { return k.do("UID FETCH 1:* (FLAGS) (CHANGEDSINCE %d VANISHED)", max(k.mod, 1)) },
		func() error { return k.do("UID STORE %d -FLAGS (%s)", uid, word) },
		func() error { return k.do("UID SEARCH MODSEQ 1") },
		func() error { return k.do(`UID STORE %d +FLAGS (\Deleted)`, uid) },
		func() error { return k.do("EXPUNGE") },
		func() error { return k.do("UID MOVE %d INBOX", uid) },
		func() error { return k.do("UID COPY %d Drafts", uid) },
		func() error { return k.do("STATUS INBOX (HIGHESTMODSEQ)") },
		func() error { return k.do("APPEND INBOX {4+}\r\na: b") },
		func() error { return k.do("UID REPLACE %d INBOX {4+}\r\na: b", uid) },
		func() error {
			defer func() { k.silent = "" }()
			k.silent = word
			return k.do("UID STORE %d +FLAGS.SILENT (%s)", uid, word)
		},
	}
	bySeq := []func() error{
		func() error { return k.do("FETCH %d (FLAGS)", seq) },
		func() error { return k.do("FETCH 1:%d (FLAGS)", seq) },
		func() error { return k.do("STORE %d +FLAGS (%s)", seq, word) },
		func() error { return k.do("SEARCH RETURN (MAX) MODSEQ 1") },
		func() error { return k.do("SORT (ARRIVAL) UTF-8 MODSEQ 1") },
	}
	if k.byUID || k.moving || k.rnd.IntN(2) == 0 {
		return byUID[k.rnd.IntN(len(byUID))]()
	}
	return bySeq[k.rnd.IntN(len(bySeq))]()
}

// churn changes alice's INBOX like other sessions.
func (k *keeper) churn(rnd *rand.Rand, f *mailbox.File) error {
	ctx := context.Background()
	v, _, err := f.Open(ctx, "INBOX", false)
	if err != nil {
		return err
	}
	if v.Exists() < 40 {
		_, _, err = f.Append(ctx, "INBOX", []byte("a: b\r\n\r\n"), mailbox.Flags{}, time.Unix(1_700_000_000, 0))
		return err
	}
	n := 1 + rnd.Uint32N(v.Exists())
	one := mailbox.Set{{Start: n, Stop: n}}
	op := mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Keywords: []string{fmt.Sprintf("w%d", rnd.IntN(5))}}}
	switch rnd.IntN(6) {
	case 0:
		_, err = v.Move(ctx, one, false, "Trash")
		return err
	case 1:
		op.Flags = mailbox.Flags{Deleted: true}
		if _, err = v.Store(ctx, one, false, op, func(*mailbox.Message) {}); err == nil {
			err = v.Expunge(ctx, nil)
		}
		return err
	case 2:
		op.Mode = mailbox.Remove
	}
	_, err = v.Store(ctx, one, false, op, func(*mailbox.Message) {})
	return err
}

// truth returns the actual state of the mailbox.
func (k *keeper) truth(f *mailbox.File) (map[uint32]string, error) {
	v, _, err := f.Open(context.Background(), "INBOX", true)
	if err != nil || v.Exists() == 0 {
		return nil, err
	}
	all := map[uint32]string{}
	return all, v.Fetch(context.Background(), mailbox.Set{{Start: 1}}, true, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			words := strings.Fields(string(m.Flags().AppendIMAP(nil)))
			slices.Sort(words)
			all[m.UID] = strings.Join(words, " ")
			return false, nil
		}, func() error { return nil })
}

// session runs random commands until the connection is cut.
func (k *keeper) session() error {
	err := k.connect(1 + k.rnd.IntN(40))
	for err == nil {
		err = k.step()
	}
	_ = k.c.Close()
	if errors.Is(err, errCutOff) {
		return nil
	}
	return err
}

// compare resynchronises while nothing changes the mailbox: it waits for the end of sessions that were cut.
func (k *keeper) compare(f *mailbox.File) error {
	for k.h.server.stats.current.Value() > 0 {
		time.Sleep(time.Millisecond)
	}
	err := k.connect(1000)
	_ = k.c.Close()
	if err != nil {
		return err
	}
	want, err := k.truth(f)
	if err == nil && !maps.Equal(want, k.cache) {
		for uid, has := range k.cache {
			if is, ok := want[uid]; !ok || is != has {
				err = errors.Join(err, fmt.Errorf("%d: has %q, is there %v with %q", uid, has, ok, is))
			}
		}
		err = errors.Join(err, fmt.Errorf("%d messages, are %d", len(k.cache), len(want)))
	}
	return err
}

// TestKeepers checks clients that use MODSEQs and lose their connection after any line of any response. After
// reconnecting with its cache, a client must have the actual mailbox, whatever others expunged, changed and added
// meanwhile.
//
// Implements: RFC 7162 §3.2 a client loses no change with its connection
func TestKeepers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		h := open(t, settings{Config: Config{MaxBad: 1000}})
		a := h.people.accounts["alice"]
		f := h.people.mail.File(note.Who{Person: a.ID}, a.MailDatabase)
		k := &keeper{h: h, rnd: rand.New(rand.NewPCG(seed, 1)), cache: map[uint32]string{}}
		var still sync.RWMutex
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(2+i)))
				for {
					select {
					case <-stop:
						return
					default:
					}
					still.RLock()
					err := k.churn(rnd, f)
					still.RUnlock()
					if err != nil && !errors.Is(err, mailbox.ErrExpunged) { // another session was faster
						t.Error(err)
						return
					}
				}
			})
		}
		for round := 0; round < 60 && !t.Failed(); round++ {
			k.log = nil
			var err error
			for n := 1 + k.rnd.IntN(3); n > 0 && err == nil; n-- {
				err = k.session()
			}
			still.Lock()
			if err == nil {
				err = k.compare(f)
			}
			still.Unlock()
			if err != nil {
				t.Errorf("seed %d, round %d: %v\n%s", seed, round, err, strings.Join(k.log, "\n"))
			}
		}
		close(stop)
		wg.Wait()
	}
}
