package mailbox_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/test/external"
	"doublet/wire/imap"
	"doublet/wire/mime"
)

// container is a node of the reference implementation of RFC 5256, which uses pointers and recursion and ignores cost.
type container struct {
	l        *letter
	parent   *container
	children []*container
}

func (c *container) under(p *container) bool {
	for ; c != nil; c = c.parent {
		if c == p {
			return true
		}
	}
	return false
}

func (c *container) move(p *container) {
	if c.parent != nil {
		c.parent.children = slices.DeleteFunc(c.parent.children, func(x *container) bool { return x == c })
	}
	if c.parent = p; p != nil {
		p.children = append(p.children, c)
	}
}

func (c *container) head() *letter {
	if c.l != nil {
		return c.l
	}
	return c.children[0].head()
}

func byDate(list []*container) {
	for _, c := range list {
		byDate(c.children)
	}
	slices.SortStableFunc(list, func(a, b *container) int {
		return cmp.Or(a.head().sent.Truncate(time.Second).Compare(b.head().sent.Truncate(time.Second)),
			cmp.Compare(a.head().seq, b.head().seq))
	})
}

func prune(list []*container, top bool) (out []*container) {
	for _, c := range list {
		c.children = prune(c.children, false)
		if c.l == nil && (!top || len(c.children) < 2) {
			out = append(out, c.children...)
			continue
		}
		out = append(out, c)
	}
	return out
}

// naiveThreads implements RFC 5256 section 3, THREAD=REFERENCES, step by step.
func naiveThreads(all []letter) []imap.ThreadNode {
	ids := map[string]*container{}
	var order []*container
	get := func(id string) *container {
		if ids[id] == nil {
			ids[id] = &container{}
			order = append(order, ids[id])
		}
		return ids[id]
	}
	for i := range all {
		own, refs := mime.ThreadIDs(all[i].e)
		var last *container
		for k, id := range refs {
			if k > 0 && k <= len(refs)-100 {
				continue
			}
			c := get(id)
			if last != nil && c.parent == nil && !last.under(c) {
				c.move(last)
			}
			last = c
		}
		c := &container{l: &all[i]}
		if own != "" && (ids[own] == nil || ids[own].l == nil) {
			c = get(own)
			c.l = &all[i]
		} else {
			order = append(order, c)
		}
		c.move(nil)
		if last != nil && !last.under(c) {
			c.move(last)
		}
	}
	var roots []*container
	for _, c := range order {
		if c.parent == nil {
			roots = append(roots, c)
		}
	}
	roots = prune(roots, true)
	byDate(roots)
	roots = naiveMerge(roots)
	byDate(roots)
	return nodes(roots)
}

func naiveMerge(roots []*container) []*container {
	subject := func(c *container) (string, bool) {
		s := mime.DecodeWords(c.head().e.Subject)
		return mime.Casemap(mime.BaseSubject(s)), mime.IsReply(s)
	}
	table := map[string]*container{}
	for _, c := range roots {
		s, reply := subject(c)
		if s == "" {
			continue
		}
		if t := table[s]; t == nil {
			table[s] = c
		} else if _, was := subject(t); t.l != nil && (c.l == nil || was && !reply) {
			table[s] = c
		}
	}
	for _, c := range slices.Clone(roots) {
		s, reply := subject(c)
		t := table[s]
		if s == "" || t == c {
			continue
		}
		roots = slices.DeleteFunc(roots, func(x *container) bool { return x == c })
		_, was := subject(t)
		switch {
		case t.l == nil && c.l == nil:
			t.children = append(t.children, c.children...)
		case t.l == nil, reply && !was:
			t.children = append(t.children, c)
		default:
			both := &container{children: []*container{t, c}}
			roots[slices.Index(roots, t)] = both
			table[s] = both
		}
	}
	return roots
}

func nodes(list []*container) (out []imap.ThreadNode) {
	for _, c := range list {
		n := imap.ThreadNode{Children: nodes(c.children)}
		if c.l != nil {
			n.Number = c.l.seq
		}
		out = append(out, n)
	}
	return out
}

func threadText(list []imap.ThreadNode) string {
	return strings.TrimSuffix(strings.TrimPrefix(string(imap.AppendThread(nil, list)), "* THREAD"), "\r\n")
}

// TestThreadCorpus threads real messages and compares the result with naiveThreads.
//
// Implements: RFC 5256 §3 THREAD, checked against brute force
func TestThreadCorpus(t *testing.T) {
	t.Parallel()
	messages := external.Corpus(t, 600)
	w := newWorld(t, 0)
	all := w.post(messages)
	got, err := w.open("INBOX").Thread(w.ctx, &mailbox.Criteria{}, mailbox.References, false, mailbox.SearchOptions{})
	w.must(err)
	if a, b := threadText(got), threadText(naiveThreads(all)); a != b {
		t.Errorf("%s\nwant\n%s", a, b)
	}
	deep := 0
	for _, n := range got {
		if len(n.Children) > 0 {
			deep++
		}
	}
	if deep < 50 {
		t.Errorf("%d threads of more than one message", deep)
	}
}

// TestThreadRandom threads messages whose ids and references come from a small set. So loops, duplicate ids, missing
// messages and common subjects are frequent.
func TestThreadRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 7))
		var messages []string
		for range 30 {
			var b strings.Builder
			fmt.Fprintf(&b, "Date: Mon, 5 Jan 2026 09:%02d:00 +0000\r\n", random.IntN(60))
			if random.IntN(8) > 0 {
				fmt.Fprintf(&b, "Message-ID: <%d@x>\r\n", random.IntN(25))
			}
			switch random.IntN(4) {
			case 0:
				fmt.Fprintf(&b, "In-Reply-To: <%d@x>\r\n", random.IntN(25))
			case 1, 2:
				fmt.Fprintf(&b, "References: <%d@x> <%d@x> <%d@x>\r\n", random.IntN(25), random.IntN(25),
					random.IntN(25))
			}
			switch random.IntN(5) {
			case 0:
				fmt.Fprintf(&b, "Subject: Re: s%d\r\n", random.IntN(3))
			case 1:
				fmt.Fprintf(&b, "Subject: S%d\r\n", random.IntN(3))
			case 2, 3:
				fmt.Fprintf(&b, "Subject: other %d\r\n", random.IntN(1000))
			}
			messages = append(messages, b.String()+"\r\n")
		}
		w := newWorld(t, 0)
		all := w.post(messages)
		got, err := w.open("INBOX").Thread(w.ctx, &mailbox.Criteria{}, mailbox.References, false,
			mailbox.SearchOptions{})
		w.must(err)
		if a, b := threadText(got), threadText(naiveThreads(all)); a != b {
			t.Fatalf("seed %d: %s, want %s\n%s", seed, a, b, strings.Join(messages, "-----\n"))
		}
	}
}

// TestThreadDeep threads a chain of 5,000 replies. It must not need a deep stack, and starts a new thread at the
// maximum depth.
func TestThreadDeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	var messages []string
	for i := range 2500 {
		messages = append(messages,
			fmt.Sprintf("Message-ID: <%d@x>\r\nIn-Reply-To: <%d@x>\r\nDate: Mon, 5 Jan 2026 09:00:00 +0000\r\n"+
				"Subject: s%d\r\n\r\n", i, i-1, i))
	}
	w.post(messages)
	got, err := w.open("INBOX").Thread(w.ctx, &mailbox.Criteria{}, mailbox.References, true, mailbox.SearchOptions{})
	w.must(err)
	count := 0
	for list := got; len(list) > 0; list = list[0].Children {
		count++
	}
	if len(got) < 2 || len(got) > 4 || count < 800 {
		t.Errorf("%d threads, the first %d deep", len(got), count)
	}
}

// TestOrderedSubject checks RFC 5256 section 3: the first message is the root, all others are its children, and threads
// are sorted by their first date.
func TestOrderedSubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	var messages []string
	for i, s := range []string{"b", "Re: a", "A (fwd)", "fw: B", "c", "[list] b", ""} {
		messages = append(messages, fmt.Sprintf("Date: Mon, 5 Jan 2026 09:%02d:00 +0000\r\nSubject: %s\r\n\r\n", 30-i,
			s))
	}
	w.post(messages)
	got, err := w.open("INBOX").Thread(w.ctx, &mailbox.Criteria{Test: mailbox.TestNot,
		All: []mailbox.Criteria{{Test: mailbox.TestSeq, Set: mailbox.Set{{Start: 5, Stop: 5}}}}},
		mailbox.OrderedSubject, false, mailbox.SearchOptions{})
	w.must(err)
	if text := threadText(got); text != " (7)(6 (4)(1))(3 2)" {
		t.Error(text)
	}
}
