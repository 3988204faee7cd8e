package day

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// ledger records every message from outside the server: the replies to its clients, and the mail that other servers
// received.
type ledger struct {
	mu     sync.Mutex
	serial int
	sent   map[string]*sending
	copies map[arrival][]copied // at other servers
	epoch  int                  // number of lives of the server so far
	crash  map[int]bool         // epochs that ended by a crash
	// looped counts messages that came back to an address on their path, maybeLooped those that possibly did.
	looped, maybeLooped map[arrival]int
	bad                 []string
}

// fate is a client's knowledge of the result of a message that it has sent.
type fate uint8

const (
	rejected fate = iota // the server rejected it, or did not receive all of it
	unknown              // the connection broke: the server may have it or not
	accepted             // the server accepted it
)

func (f fate) String() string { return [...]string{"no", "nothing", "yes"}[f] }

// sending is one message of a client, with a unique token.
type sending struct {
	token string
	from  string // empty for the null sender
	to    []sendTo
	fate  fate
	said  []string // replies to the client
	appended
}

// sendTo is a recipient as the client named it, and the final recipients that it expands to.
type sendTo struct {
	address string
	notify  smtp.Notify
	fate    fate
	ends    []end
}

// end is the destination of one copy: a mail file of the town, or an address elsewhere.
type end struct {
	address string
	local   bool
	// reportAs is the recipient named in a failure report.
	reportAs string
	// may means that delivery may fail; elsewhere no failure is expected.
	may bool
}

// appended is a message that a mail program put into a folder.
type appended struct {
	person, folder string
}

// unreachable is the domain at which no report arrives.
const unreachable = "@nullmx.example"

// arrival is a message at an address elsewhere. Reports are identified by their Message-ID.
type arrival struct{ what, address string }

type copied struct {
	epoch int
	// sure means that the other server sent a positive reply, although our server may have been down by then.
	sure bool
	// at is the start of the transaction.
	at  time.Time
	raw string
}

func newLedger() *ledger {
	return &ledger{sent: map[string]*sending{}, copies: map[arrival][]copied{}, crash: map[int]bool{},
		looped: map[arrival]int{}, maybeLooped: map[arrival]int{}}
}

func (l *ledger) wrong(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad = append(l.bad, fmt.Sprintf(format, args...))
}

var tokenPattern = regexp.MustCompile(`\bT[0-9]{6}\b`)

// begin registers a message and gives it a token.
func (l *ledger) begin(from string, to []sendTo) *sending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serial++
	s := &sending{token: fmt.Sprintf("T%06d", l.serial), from: from, to: to}
	l.sent[s.token] = s
	return s
}

// end records the reply to the client.
func (l *ledger) end(s *sending, of fate, each func(i int) fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.fate = of
	for i := range s.to {
		s.to[i].fate = each(i)
	}
}

// body returns the text of a message, with a checksum that proves that it is complete.
func body(token string, filler string) string {
	text := "message " + token + "\r\n" + filler
	sum := sha256.Sum256([]byte(text))
	return text + "sum " + hex.EncodeToString(sum[:8]) + "\r\n"
}

// whole checks a message whose text is from body.
func whole(raw string) (token string, ok bool) {
	head, text, found := strings.Cut(raw, "\r\n\r\n")
	if _, encoding, _ := strings.Cut(head, "Content-Transfer-Encoding: "); encoding != "" {
		word, _, _ := strings.Cut(encoding, "\r\n")
		b, _ := mime.AppendDecoded(nil, []byte(text), mime.EncodingOf(word), -1)
		text = string(b)
	}
	i := strings.LastIndex(text, "sum ")
	if !found || i < 0 || !strings.HasPrefix(text, "message T") {
		return tokenPattern.FindString(raw), false
	}
	sum := sha256.Sum256([]byte(text[:i]))
	return tokenPattern.FindString(text), strings.TrimRight(text[i:], "\r\n") == "sum "+hex.EncodeToString(sum[:8])
}

// report is a delivery status notification.
type report struct {
	id     string
	token  string
	action map[string]string // address → "failed", "delayed", "delivered", "relayed"
}

var (
	idField    = regexp.MustCompile(`(?mi)^Message-ID: <([^>]*)>`)
	finalField = regexp.MustCompile(`(?m)^Final-Recipient: rfc822;(\S*)\r\nAction: (\S+)|^Action: (\S+)`)
)

func isReport(raw string) bool {
	head, _, _ := strings.Cut(raw, "\r\n\r\n")
	return strings.Contains(head, "report-type=delivery-status")
}

func parseReport(raw string) report {
	r := report{action: map[string]string{}}
	if m := idField.FindStringSubmatch(raw); m != nil {
		r.id = m[1]
	}
	// The returned message is the last part; its subject has the token.
	if i := strings.LastIndex(raw, "Subject: day T"); i >= 0 {
		r.token = tokenPattern.FindString(raw[i:])
	}
	for _, m := range finalField.FindAllStringSubmatch(raw, -1) {
		r.action[m[1]] = m[2]
	}
	return r
}

// life returns the number of the server's current life.
func (l *ledger) life() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// took records that another server has received a message for an address.
func (l *ledger) took(address string, c copied) {
	what, raw := "", c.raw
	if isReport(raw) {
		what = "report " + parseReport(raw).id
	} else if token, ok := whole(raw); ok {
		what = token
	} else {
		l.wrong("%s got what nobody has sent so:\n%.1500s", address, raw)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := arrival{what, strings.ToLower(address)}
	l.copies[k] = append(l.copies[k], c)
}

// inFile maps the id of each message of a person's mail file to its text; it includes messages fetched by POP3.
type inFile map[string]string

// account holds the totals of a day.
type account struct {
	accepted, rejected, unknown, delivered, reported, again, delayed int
	failed                                                           map[string]int // failure reports by address
}

// said returns the replies to the client of a message.
func (l *ledger) said(token string) []string {
	if s := l.sent[token]; s != nil {
		return s.said
	}
	return nil
}

// audit compares the received messages with the sent ones. way returns the server's trace of a message.
func (l *ledger) audit(t *testing.T, files map[string]inFile, way func(token string) string) account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &auditor{l: l, t: t, way: way, here: map[arrival]int{}, reports: map[arrival]map[string]int{},
		sum: account{failed: map[string]int{}}}
	for _, text := range l.bad {
		t.Error(text)
	}
	a.readFiles(files)
	a.readCopies()
	for _, token := range slices.Sorted(maps.Keys(l.sent)) {
		a.judge(l.sent[token])
	}
	return a.sum
}

type auditor struct {
	l   *ledger
	t   *testing.T
	way func(token string) string
	// here counts the copies of a message in a mail file; reports counts the reports of each kind about a message and a
	// recipient.
	here    map[arrival]int
	reports map[arrival]map[string]int
	sum     account
}

func (a *auditor) readFiles(files map[string]inFile) {
	for person, file := range files {
		for _, raw := range file {
			if isReport(raw) {
				a.reported(person, raw)
				continue
			}
			token, ok := whole(raw)
			if !ok || a.l.sent[token] == nil {
				a.t.Errorf("%s has a message that nobody has sent so:\n%.1500s", person, raw)
				continue
			}
			a.here[arrival{token, person}]++
		}
	}
}

// reported records the content of a report that reached an address.
func (a *auditor) reported(to, raw string) {
	r := parseReport(raw)
	s := a.l.sent[r.token]
	switch {
	case s == nil || len(r.action) == 0:
		a.t.Errorf("%s has a report about nothing:\n%.3000s", to, raw)
		return
	case !strings.EqualFold(s.from, to):
		a.t.Errorf("%s has a report about a message of %s:\n%.1500s", to, s.from, raw)
		return
	}
	for address, action := range r.action {
		k := arrival{r.token, strings.ToLower(address)}
		if a.reports[k] == nil {
			a.reports[k] = map[string]int{}
		}
		a.reports[k][action]++
		switch action {
		case "failed":
			a.sum.reported++
			a.sum.failed[address]++
		case "delayed":
			a.sum.delayed++
		}
	}
}

// readCopies checks the messages that other servers received. A second copy is permitted only if the server could not
// know of the first one: its life had ended, or the reply was lost.
func (a *auditor) readCopies() {
	for k, list := range a.l.copies {
		// A copy that was abandoned because it was slow can arrive after the next one.
		slices.SortStableFunc(list, func(a, b copied) int { return a.at.Compare(b.at) })
		for i := 1; i < len(list); i++ {
			before, this := list[i-1], list[i]
			a.sum.again++
			if before.sure && !(before.epoch < this.epoch && a.l.crash[before.epoch]) {
				a.t.Errorf("%s got %s again at %s, after it had answered 250 at %s (lives %d and %d); %v:\n%s\n"+
					"%.900s\n%.900s", k.address, k.what, this.at, before.at, before.epoch, this.epoch, a.l.said(k.what),
					a.way(k.what), before.raw, this.raw)
			}
		}
		if isReport(list[0].raw) {
			a.reported(k.address, list[0].raw)
		}
	}
}

// judge checks one message. Each recipient of an accepted message has it once, or its sender has exactly one report. A
// rejected message is nowhere. A message with an unknown result is there complete or not at all.
func (a *auditor) judge(s *sending) {
	if s.person != "" {
		a.judgeAppended(s)
		return
	}
	switch s.fate {
	case accepted:
		a.sum.accepted++
	case rejected:
		a.sum.rejected++
	default:
		a.sum.unknown++
	}
	type wanted struct {
		end
		n      int
		notify smtp.Notify
		fate   fate
	}
	ends := map[string]*wanted{}
	for _, to := range s.to {
		for _, e := range to.ends {
			w := ends[e.address]
			if w == nil || w.fate < to.fate {
				ends[e.address] = &wanted{end: e, n: 1, notify: to.notify, fate: to.fate}
			}
		}
	}
	shared := map[string]bool{} // recipients for whom some copy may fail
	for _, w := range ends {
		shared[w.reportAs] = shared[w.reportAs] || w.may
	}
	there, missing := 0, 0
	for _, address := range slices.Sorted(maps.Keys(ends)) {
		w := ends[address]
		at := arrival{s.token, strings.ToLower(address)}
		n, sure := a.here[at]-a.l.looped[at], true
		if !w.local {
			list := a.l.copies[at]
			n = min(len(list), 1)
			sure = n == 0 || list[len(list)-1].sure
		}
		told := a.reports[arrival{s.token, strings.ToLower(w.reportAs)}]
		fault := func(text string) {
			a.t.Errorf("%s from <%s> to %s (answered %v, notify %v): %s; there %d times (sure %v), reports %v\n%s",
				s.token, s.from, address, w.fate, w.notify, text, n, sure, told, strings.Join(s.said, "\n")+"\n"+
					a.way(s.token))
		}
		silent := s.from == "" || strings.HasSuffix(s.from, unreachable) || w.notify != 0 &&
			w.notify&smtp.NotifyFailure == 0
		excused := w.may && (silent || told["failed"] > 0)
		switch {
		case n > 1+a.l.maybeLooped[at], n < 0:
			fault("more than once")
		case told["failed"] > 1:
			fault("reported more than once")
		case told["delayed"] > 1:
			fault("told more than once that it takes long")
		case w.fate == rejected && (n > 0 || len(told) > 0):
			fault("was refused")
		case n > 0 && told["failed"] > 0 && sure && w.reportAs == w.address:
			fault("delivered, and reported as failed")
		case silent && told["failed"] > 0:
			fault("a report that nobody wants")
		case told["failed"] > 0 && !shared[w.reportAs]:
			fault("nothing should have failed")
		case w.fate == accepted && n == 0 && !excused:
			fault("neither delivered nor reported")
		case w.notify&smtp.NotifySuccess != 0 && w.local && w.reportAs == w.address && n == 1 &&
			!strings.HasSuffix(s.from, unreachable) && s.from != "" && told["delivered"] != 1:
			fault("its sender wanted to hear of the delivery once")
		}
		a.sum.delivered += n
		switch {
		case w.fate == rejected:
		case n > 0 || told["failed"] > 0:
			there++
		case !w.may: // if each recipient has a reply, it may have been negative
			missing++
		}
	}
	if s.fate == unknown && there > 0 && missing > 0 {
		a.t.Errorf("%s from <%s> to %d, of which nobody knows, is there for %d and not for %d\n%s", s.token, s.from,
			len(ends), there, missing, strings.Join(s.said, "\n"))
	}
}

func (a *auditor) judgeAppended(s *sending) {
	n := a.here[arrival{s.token, s.person}]
	switch {
	case n > 1, s.fate == accepted && n != 1, s.fate == rejected && n != 0:
		a.t.Errorf("%s, put into %s of %s (answered %v): there %d times", s.token, s.folder, s.person, s.fate, n)
	}
}
