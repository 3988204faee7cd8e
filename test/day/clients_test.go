package day

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	imapclient "doublet/client/imap"
	popclient "doublet/client/pop3"
	client "doublet/client/smtp"
	"doublet/env"
	"doublet/wire/imap"
	"doublet/wire/sasl"
	"doublet/wire/smtp"
)

// crew holds all clients of the server: servers of strangers, and people's programs.
type crew struct {
	w    *town
	env  *env.Env
	over atomic.Bool // the day is over: nothing new begins
	wg   sync.WaitGroup

	mu      sync.Mutex
	fetched map[string]inFile // fetched by POP3
	did     map[string]int
}

func (c *crew) count(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did[what] += n
}

// go1 runs one client of the crew: it repeats act at random intervals of about every, until the day is over.
func (c *crew) go1(seed uint64, every time.Duration, act func(r *rand.Rand)) {
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		r := rand.New(rand.NewPCG(seed, 1))
		for !c.over.Load() {
			c.w.clock.Sleep(time.Duration(r.Int64N(int64(2 * every))))
			if c.over.Load() {
				return
			}
			act(r)
		}
	}()
}

// dialer returns the crew's environment with connections from a stranger's address, or from this machine (0).
func (c *crew) dialer(host byte) *env.Env {
	e := *c.env
	e.Dial = func(_, address string, _ time.Duration) (net.Conn, error) {
		if address == "" {
			return nil, errors.New("the server is down")
		}
		return c.w.net.from(host, address)
	}
	return &e
}

const patience = 4 * time.Hour

// letter writes the message of a sending.
func letter(s *sending, filler string) []byte {
	from, to := s.from, "undisclosed-recipients:;"
	if from == "" {
		from = "postmaster@good.example"
	}
	if len(s.to) > 0 {
		to = s.to[0].address
	}
	return fmt.Appendf(nil, "From: <%s>\r\nTo: %s\r\nSubject: day %s\r\nDate: Mon, 5 Jan 2026 09:00:00 +0000\r\n"+
		"Message-ID: <%s@day.example>\r\n"+
		"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n%s",
		from, to, s.token, s.token, body(s.token, filler))
}

// filler returns text of a size that real mail has.
func filler(r *rand.Rand, most int) string {
	n := 1 + r.IntN(30)
	if most > 10_000 && r.IntN(20) == 0 {
		n = most / 70
	}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of %d: %060x\r\n", i, n, r.Uint64())
	}
	if r.IntN(3) == 0 {
		b.WriteString("Grüße =20 \r\n")
	}
	b.WriteString(".\r\n..dots\r\n")
	return b.String()
}

// transaction sends a message and records its result; again reports that the server asked to retry later.
func (c *crew) transaction(k *client.Client, s *sending, raw []byte) (again bool) {
	m := client.Outgoing{From: pathOf(s.from), Message: raw}
	m.Params.Size = int64(len(raw))
	for _, to := range s.to {
		m.To = append(m.To, pathOf(to.address))
		m.RcptParams = append(m.RcptParams, smtp.RcptParams{Notify: to.notify})
	}
	res, err := k.Deliver(&m)
	s.said = append(s.said, fmt.Sprintf("%v: %v %v %v %v", c.w.clock.Now(), res.Mail, res.Rcpt, res.Final, err))
	of, later := rejected, false
	each := func(i int) fate {
		switch {
		case res.Accepted(i):
			return accepted
		case i < len(res.Rcpt) && !res.Rcpt[i].Positive(), err == nil:
			return rejected
		}
		k := 0 // the index of its reply, if each recipient has one
		for _, r := range res.Rcpt[:min(i, len(res.Rcpt))] {
			if r.Positive() {
				k++
			}
		}
		if k < len(res.Final) {
			return rejected
		}
		return unknown
	}
	for i := range s.to {
		of = max(of, each(i))
		later = later || i < len(res.Rcpt) && res.Rcpt[i].Temporary()
	}
	later = later || res.Mail != nil && res.Mail.Temporary() ||
		slices.ContainsFunc(res.Final, func(r *smtp.Reply) bool { return r != nil && r.Temporary() })
	c.w.book.end(s, of, each)
	return of == rejected && (later || err != nil)
}

func pathOf(address string) smtp.Path {
	local, domain, _ := cutLast(address, '@')
	if address == "" {
		return smtp.Path{}
	}
	return smtp.Path{Local: local, Domain: domain}
}

func (c *crew) to(r *rand.Rand, addresses ...string) []sendTo {
	var out []sendTo
	notify := []smtp.Notify{0, 0, 0, smtp.NotifyFailure, smtp.NotifySuccess | smtp.NotifyFailure, smtp.NotifyNever,
		smtp.NotifyFailure | smtp.NotifyDelay}[r.IntN(7)]
	for _, a := range addresses {
		if slices.ContainsFunc(out, func(t sendTo) bool { return t.address == a }) {
			continue
		}
		out = append(out, sendTo{address: a, notify: notify, ends: c.w.ends(a)})
	}
	return out
}

// stranger is a foreign server that sends mail to the town.
func (c *crew) stranger(host byte, seed uint64) {
	e := c.dialer(host)
	c.go1(seed, 15*time.Minute, func(r *rand.Rand) {
		from := fmt.Sprintf("s%d@%s", r.IntN(50), []string{"good.example", "good.example", "grey.example",
			"flaky.example", "forger.example", "nullmx.example"}[r.IntN(6)])
		var to []sendTo
		switch r.IntN(12) {
		case 0:
			from, to = "", c.to(r, name(r.IntN(people))+"@example.com")
		case 1:
			to = c.to(r, []string{"away", "moved", "round", "full", "crowd", "team", "talk"}[r.IntN(7)]+"@example.com")
		case 2:
			to = c.to(r, "nobody@example.com", name(r.IntN(people))+"@example.com", "x@good.example")
		default:
			for range 1 + r.IntN(4) {
				to = append(to, c.to(r, name(r.IntN(people))+"@example.com")...)
			}
			to = slices.CompactFunc(to, func(a, b sendTo) bool { return a.address == b.address })
		}
		s := c.w.book.begin(from, distinct(to))
		raw := letter(s, filler(r, 150_000))
		if r.IntN(40) == 0 {
			c.halfway(e, s, raw)
			return
		}
		for range 6 {
			k, err := c.reach(e, "smtp", r.IntN(3) == 0)
			if err == nil {
				again := c.transaction(k, s, raw)
				_ = k.Close()
				if !again {
					return
				}
			}
			c.w.clock.Sleep(10 * time.Minute)
		}
	})
}

// distinct removes duplicate addresses.
func distinct(list []sendTo) (out []sendTo) {
	for _, t := range list {
		if !slices.ContainsFunc(out, func(o sendTo) bool { return o.address == t.address }) {
			out = append(out, t)
		}
	}
	return out
}

// reach connects to a door and sends EHLO.
func (c *crew) reach(e *env.Env, door string, secure bool) (*client.Client, error) {
	k, err := client.Dial(e, "tcp", c.w.door(door), client.Options{Timeout: patience, LMTP: door == "lmtp"})
	if err != nil {
		return nil, err
	}
	if err = k.Hello("client.example"); err == nil && secure {
		if err = k.StartTLS(c.w.far.client()); err == nil {
			err = k.Hello("client.example")
		}
	}
	if err != nil {
		_ = k.Close()
	}
	return k, err
}

// halfway sends a part of a message and disconnects. The message must not arrive anywhere.
func (c *crew) halfway(e *env.Env, s *sending, raw []byte) {
	defer c.w.book.end(s, rejected, func(int) fate { return rejected })
	k, err := c.reach(e, "smtp", false)
	if err != nil {
		return
	}
	defer k.Close()
	if k.Mail(pathOf(s.from), smtp.MailParams{Size: -1}) != nil {
		return
	}
	for _, to := range s.to {
		_ = k.Rcpt(pathOf(to.address), smtp.RcptParams{})
	}
	if d, err := k.Data(); err == nil {
		_, _ = d.Write(raw[:len(raw)/2])
		_ = k.Send(nil)
		c.count("went away", 1)
	}
}

// writer is a person of the town who writes to the world.
func (c *crew) writer(person string, seed uint64) {
	e := c.dialer(0)
	c.go1(seed, 15*time.Minute, func(r *rand.Rand) {
		var list []string
		size := 150_000
		switch r.IntN(10) {
		case 0:
			list = []string{[]string{"away", "moved", "round", "full", "crowd", "team", "talk"}[r.IntN(7)] +
				"@example.com"}
		case 1:
			list = []string{name(r.IntN(people)) + "@example.com"}
		case 2:
			list, size = []string{"big@small.example"}, 0
		default:
			for range 1 + r.IntN(4) {
				d := c.w.far.all[r.IntN(len(c.w.far.all))]
				local := fmt.Sprintf("u%d", r.IntN(100))
				if d.name == "picky.example" && r.IntN(2) == 0 {
					local = "bad" + local
				}
				list = append(list, local+"@"+d.name)
				if d.name == "small.example" {
					size = 3000
				}
			}
			if r.IntN(3) == 0 {
				list = append(list, name(r.IntN(people))+"@example.com")
			}
		}
		s := c.w.book.begin(person+"@example.com", c.to(r, list...))
		text := filler(r, size)
		if size == 0 {
			text = strings.Repeat("too much for a small server\r\n", 500)
		}
		raw := letter(s, text)
		for range 6 {
			k, err := c.reach(e, "submission", r.IntN(4) == 0)
			if err == nil {
				again := true
				if k.Auth(sasl.NewPlainClient("", person, c.w.secrets[person])) == nil {
					again = c.transaction(k, s, raw)
				}
				_ = k.Close()
				if !again {
					return
				}
			}
			c.w.clock.Sleep(10 * time.Minute)
		}
	})
}

// local is a program on this machine that delivers by LMTP.
func (c *crew) local(seed uint64) {
	e := c.dialer(0)
	c.go1(seed, 15*time.Minute, func(r *rand.Rand) {
		var list []string
		for range 1 + r.IntN(6) {
			list = append(list, []string{name(r.IntN(people)), name(r.IntN(people)), "full", "nobody"}[r.IntN(4)]+
				"@example.com")
		}
		s := c.w.book.begin("s1@good.example", c.to(r, list...))
		k, err := c.reach(e, "lmtp", false)
		if err != nil {
			return
		}
		c.transaction(k, s, letter(s, filler(r, 150_000)))
		_ = k.Close()
	})
}

// loop sends a message back to the address from which it was forwarded, as a careless mailing list would.
func (w *town) loop(raw string) {
	token, _ := whole(raw)
	if isReport(raw) {
		return
	}
	w.crew.wg.Add(1)
	go func() {
		defer w.crew.wg.Done()
		at := arrival{token, "round@example.com"}
		e := w.crew.dialer(99)
		for range 20 {
			k, err := w.crew.reach(e, "smtp", false)
			if err == nil {
				res, err := k.Deliver(&client.Outgoing{From: pathOf("list@loop.example"),
					To: []smtp.Path{pathOf("round@example.com")}, Message: []byte(raw),
					Params: smtp.MailParams{Size: -1}})
				_ = k.Close()
				w.book.mu.Lock()
				switch {
				case res.Accepted(0):
					w.book.looped[at]++
				case err != nil && len(res.Rcpt) > 0 && res.Rcpt[0].Positive():
					w.book.maybeLooped[at]++
				default:
					w.book.mu.Unlock()
					w.clock.Sleep(10 * time.Minute)
					continue
				}
				w.book.mu.Unlock()
				return
			}
			w.clock.Sleep(10 * time.Minute)
		}
	}()
}

// reader is a person's mail program: it lists, flags, moves, appends and waits.
func (c *crew) reader(person string, seed uint64) {
	e := c.dialer(0)
	var k *imapclient.Client
	c.go1(seed, 10*time.Minute, func(r *rand.Rand) {
		if k == nil {
			var err error
			if k, err = imapclient.Dial(e.Dial, c.w.door("imap"),
				imapclient.Options{Timeout: patience, Clock: e.Clock}); err != nil {
				k = nil
				return
			}
			if k.Login(person, c.w.secrets[person]) != nil {
				_ = k.Close()
				k = nil
				return
			}
			c.count("IMAP sessions", 1)
		}
		if err := c.read(k, person, r); err != nil {
			var said *imapclient.StatusError
			if errors.As(err, &said) && said.Status == imap.NO {
				c.count("IMAP refusals", 1)
				return
			}
			c.count("IMAP sessions that broke", 1)
			_ = k.Close()
			k = nil
		}
	})
}

func (c *crew) read(k *imapclient.Client, person string, r *rand.Rand) error {
	sel, err := k.Select(&imap.Select{Mailbox: "INBOX"}, false)
	if err != nil {
		return err
	}
	if err := c.keep(k, person, r); err != nil || sel.Exists == 0 {
		return err
	}
	n := 1 + uint32(r.IntN(int(sel.Exists)))
	one := imap.Target{Set: imap.Set{{Start: n, Stop: n}}}
	err = k.Fetch(&imap.Fetch{Target: one, Items: []imap.FetchItem{{Kind: imap.ItemBodySection}}}, false,
		func(d *imap.FetchData) error {
			c.count("read", 1)
			if len(d.Sections) == 1 && !isReport(d.Sections[0].Data) {
				if _, ok := whole(d.Sections[0].Data); !ok {
					c.w.book.wrong("%s reads a damaged message:\n%.1000s", person, d.Sections[0].Data)
				}
			}
			return nil
		}, nil)
	if err != nil {
		return err
	}
	if _, err = k.Store(&imap.Store{Target: one, Op: imap.StoreAdd, Flags: []imap.Flag{imap.Flagged}}, false,
		nil); err != nil {
		return err
	}
	if r.IntN(3) == 0 {
		if _, err = k.Move(one, false, "Archive"); err != nil {
			return err
		}
		c.count("moved", 1)
	}
	if r.IntN(4) == 0 {
		stop := c.w.clock.AfterFunc(20*time.Minute, func() { _ = k.StopIdle() })
		defer stop()
		return k.Idle(nil)
	}
	return nil
}

// keep appends a copy of a message to Sent.
func (c *crew) keep(k *imapclient.Client, person string, r *rand.Rand) error {
	if r.IntN(3) != 0 {
		return nil
	}
	s := c.w.book.begin(person+"@example.com", nil)
	s.person, s.folder = person+"@example.com", "Sent" // not checked before the end
	raw := letter(s, filler(r, 30_000))
	_, err := k.Append("Sent", nil, time.Time{}, bytes.NewReader(raw), int64(len(raw)))
	var said *imapclient.StatusError
	of := unknown
	switch {
	case err == nil:
		of = accepted
	case errors.As(err, &said):
		of = rejected
	}
	c.w.book.end(s, of, nil)
	return err
}

// fetcher is a person who fetches mail by POP3.
func (c *crew) fetcher(person string, seed uint64) {
	e := c.dialer(0)
	c.go1(seed, 30*time.Minute, func(*rand.Rand) {
		k, err := popclient.Dial(e, c.w.door("pop3"), popclient.Options{Timeout: patience})
		if err != nil {
			return
		}
		defer k.Close()
		ids := map[uint32]string{}
		if k.Login(person, c.w.secrets[person]) != nil || k.Unique(func(n uint32, id string) { ids[n] = id }) != nil {
			c.count("POP3 sessions that broke", 1)
			return
		}
		for n, id := range ids {
			var b bytes.Buffer
			if k.Retrieve(n, &b) != nil || k.Delete(n) != nil {
				c.count("POP3 sessions that broke", 1)
				return
			}
			c.mu.Lock()
			file := c.fetched[person+"@example.com"]
			if old, ok := file[id]; ok && old != b.String() {
				c.w.book.wrong("%s: %s came twice and was not the same", person, id)
			}
			file[id] = b.String()
			c.mu.Unlock()
		}
		_ = k.Quit()
		c.count("fetched", len(ids))
	})
}
