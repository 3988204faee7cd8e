package jmapd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/groupware"
	"doublet/note"
	"doublet/store/layout"
	"doublet/wire/jmap"
)

func ownedBy(person note.UNID) func(*layout.Info) {
	return func(i *layout.Info) {
		i.Owner = person
		i.ACL = i.ACL.With(note.Entry{ID: person, Level: note.Manager})
	}
}

// TestScenarios plays testdata/*.txt. A file consists of parts that begin with "== name". Each part is played in a new
// world, after the lines before the first part. The lines are:
//
//	# RFC 8620 §5.1                  a comment
//	@bob                             the user of the next requests (alice at first)
//	mail INBOX \Seen                 puts the message of the "| " lines into a folder; its id is ${mail1}, ${mail2} …
//	card contacts                    puts the vCard of the "| " lines into an address book, as CardDAV does; its id is
//	                                 ${card1}, ${card2} …; one with the UID of an earlier one replaces it
//	uncard contacts UID              removes the card with a UID, as CardDAV does; "restore" brings it back
//	vcard contacts UID               reads its vCard, for H: {"body":…}
//	upload text/plain                uploads the "| " lines; its id is ${blob1} …
//	get /jmap/session                asks for a path; "| Name: value" lines are fields of the request
//	post /jmap/api text/plain        sends the "| " lines to a path
//	wait 10s                         advances the clock; messages that become due are sent and delivered, or wake
//	share INBOX bob lrs              sets the rights of a user in a folder
//	C: [["Email/get",{…},"0"]]       method calls; JSON over any number of lines, with ${name}
//	R: {…}                           a whole request, as it is
//	S: [[…]]                         the method responses
//	P: {"status":400, …}             or the problem, as far as given here
//	J: {…}                           or the JSON of another resource
//	H: {"status":206,"Name":"value"} or the status and header fields, with the body as "body"
//
// In expected values "*" matches any value. "$name" sets a variable to a string, or must equal it if it is set. An
// object with "..." may have more members, and a list that ends with "..." more elements. {"$any":[…]} is a list in any
// order. ${account}, ${bob} and ${carol} are account ids.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, _ := strings.Cut("\n"+string(text), "\n== ")
		for i, part := range strings.Split(rest, "\n== ") {
			if rest == "" {
				part = fmt.Sprint(i)
			}
			name, body, _ := strings.Cut(part, "\n")
			line := strings.Count(head, "\n") + 1
			for _, before := range strings.Split(rest, "\n== ")[:i] {
				line += strings.Count(before, "\n") + 1
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+strings.TrimSpace(name), func(t *testing.T) {
				t.Parallel()
				p := &player{t: t, who: "alice", vars: map[string]string{}}
				o := settings{}
				switch {
				case strings.HasPrefix(filepath.Base(file), "small-"):
					o = settings{Limits: Limits{Upload: 1000, Request: 4100, Calls: 3, ObjectsInGet: 3, ObjectsInSet: 3,
						Response: 6000}, message: 2000, recipients: 2, quota: 6000}
				case strings.HasPrefix(filepath.Base(file), "quota-"):
					o.quota = 2000
				}
				p.w = open(t, o)
				p.vars["account"], p.vars["bob"], p.vars["carol"] = p.w.account("alice"), p.w.account("bob"),
					p.w.account("carol")
				p.folders()
				p.play(file, 0, head)
				p.play(file, line, body)
			})
		}
	}
}

type player struct {
	t      *testing.T
	w      *world
	who    string
	vars   map[string]string
	mails  int
	blobs  int
	cards  int
	got    []byte
	header http.Header
	status int
	file   string
	line   int
}

// folders sets the variables for the ids of the standard folders: ${INBOX}, ${Drafts} …
func (p *player) folders() {
	list, err := p.w.file("alice").Folders(bg)
	p.w.ok(err)
	for i := range list {
		p.vars[list[i].Name] = idOf(letterFolder, list[i].UNID)
	}
}

func (p *player) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s:%d: %s", p.file, p.line, fmt.Sprintf(format, args...))
}

func (p *player) play(file string, from int, text string) {
	p.t.Helper()
	lines := strings.Split(text, "\n")
	p.file = file
	for i := 0; i < len(lines); {
		p.line = from + i + 1
		line := strings.TrimRight(lines[i], "\r")
		i++
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		var more []string
		for i < len(lines) && (strings.HasPrefix(lines[i], "|") || strings.HasPrefix(lines[i], "\t") ||
			strings.HasPrefix(lines[i], "  ")) {
			more = append(more, lines[i])
			i++
		}
		p.step(line, more)
	}
}

func (p *player) expand(s string) string {
	for name, v := range p.vars {
		s = strings.ReplaceAll(s, "${"+name+"}", v)
	}
	for {
		at := strings.Index(s, "<repeat:")
		if at < 0 {
			return s
		}
		end := strings.IndexByte(s[at:], '>')
		var n int
		count, text, _ := strings.Cut(s[at+len("<repeat:"):at+end], ":")
		if _, err := fmt.Sscan(count, &n); err != nil {
			p.fail("%v", err)
		}
		s = s[:at] + strings.Repeat(text, n) + s[at+end+1:]
	}
}

func (p *player) text(more []string) string {
	var b strings.Builder
	for _, l := range more {
		b.WriteString(p.expand(strings.TrimPrefix(strings.TrimPrefix(l, "|"), " ")) + "\n")
	}
	return b.String()
}

func (p *player) step(line string, more []string) {
	p.t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case line[0] == '@':
		p.who = strings.TrimSpace(line[1:])
	case word == "mail":
		f := strings.Fields(rest)
		p.mails++
		p.vars[fmt.Sprint("mail", p.mails)] = p.w.append(p.who, f[0], p.text(more), f[1:]...)
	case word == "card":
		p.card(strings.TrimSpace(rest), p.text(more))
	case word == "uncard":
		f := strings.Fields(rest)
		p.w.ok(p.groupware().Remove(bg, groupware.AddressBook, f[0], f[1]+".vcf", groupware.Condition{}))
	case word == "vcard":
		f := strings.Fields(rest)
		e, err := p.groupware().Entry(bg, groupware.AddressBook, f[0], f[1]+".vcf")
		p.w.ok(err)
		p.got, p.status = e.Text, http.StatusOK
	case word == "restore":
		list, err := p.groupware().Removed(bg)
		p.w.ok(err)
		p.w.ok(p.groupware().Change(bg, func(c *groupware.Changing) error {
			return c.Restore(list[0].UNID, groupware.AddressBook, groupware.DefaultContacts)
		}))
	case word == "upload":
		out := p.w.do(p.who, "POST", "/jmap/upload/"+p.w.account(p.who)+"/", rest, []byte(p.text(more)))
		var v struct {
			BlobID string `json:"blobId"`
		}
		if err := json.Unmarshal(out.Body.Bytes(), &v); err != nil || out.Code != http.StatusCreated {
			p.fail("upload: %d %s", out.Code, out.Body)
		}
		p.blobs++
		p.vars[fmt.Sprint("blob", p.blobs)] = v.BlobID
	case word == "get":
		var fields []string
		for line := range strings.Lines(p.text(more)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			fields = append(fields, name, value)
		}
		out := p.w.do(p.who, "GET", p.expand(rest), "", nil, fields...)
		p.status, p.got, p.header = out.Code, out.Body.Bytes(), out.Header()
	case word == "post":
		path, kind, _ := strings.Cut(p.expand(rest), " ")
		out := p.w.do(p.who, "POST", path, kind, []byte(p.text(more)))
		p.status, p.got, p.header = out.Code, out.Body.Bytes(), out.Header()
	case word == "wait":
		d, err := time.ParseDuration(rest)
		p.w.ok(err)
		p.w.fix.Time.Advance(d)
		p.w.mail.Scheduled.ReleaseDue(bg)
		_, err = p.w.mail.Router.Route(bg)
		p.w.ok(err)
		p.w.ok(p.w.waker.Run(bg))
		p.w.ok(p.w.sources.Run(bg))
	case word == "purge":
		_, err := p.w.files.PurgeRecoverable(bg, p.w.who[p.who].Database, nil)
		p.w.ok(err)
	case word == "share":
		f := strings.Fields(rest)
		rights := note.Rights(0)
		for i, c := range "lrswipkxtea" {
			if strings.ContainsRune(f[2], c) {
				rights |= 1 << i
			}
		}
		p.w.ok(p.w.file(p.who).SetAccess(bg, f[0], p.w.who[f[1]].Who.Person,
			func(note.Rights) note.Rights { return rights }, false))
	case word == "C:":
		calls := p.expand(rest + "\n" + strings.Join(more, "\n"))
		using := jmap.AppendStrings(nil, capabilities)
		p.request(`{"using":` + string(using) + `,"methodCalls":` + calls + `}`)
	case word == "R:":
		p.request(p.expand(rest + "\n" + strings.Join(more, "\n")))
	case word == "H:":
		whole := map[string]any{"status": p.status, "body": string(p.got)}
		for name, values := range p.header {
			whole[name] = values[0]
		}
		got, err := json.Marshal(whole)
		p.w.ok(err)
		p.got = got
		p.expect(word, rest+"\n"+strings.Join(more, "\n"))
	case word == "S:", word == "P:", word == "J:":
		p.expect(word, rest+"\n"+strings.Join(more, "\n"))
	default:
		p.fail("%q is no line of a scenario", line)
	}
}

// groupware returns the calendars and address books of the person.
func (p *player) groupware() *groupware.File {
	c := p.w.who[p.who]
	return p.w.groupware.File(c.Who, c.Database)
}

// card puts a vCard into an address book of the person, or replaces the one with its UID.
func (p *player) card(book, text string) {
	p.t.Helper()
	f := p.groupware()
	p.w.ok(f.Ensure(bg, ""))
	uid := ""
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "UID:"); ok {
			uid = strings.TrimSpace(value)
		}
	}
	e, made, err := f.Put(bg, groupware.AddressBook, book, uid+".vcf", []byte(strings.ReplaceAll(text, "\n", "\r\n")),
		groupware.Condition{})
	p.w.ok(err)
	if made {
		p.cards++
		p.vars[fmt.Sprint("card", p.cards)] = idOf(letterCard, e.UNID)
	}
}

func (p *player) request(body string) {
	out := p.w.do(p.who, "POST", PathAPI, "application/json", []byte(body))
	p.status, p.got = out.Code, out.Body.Bytes()
}

func (p *player) expect(kind, text string) {
	p.t.Helper()
	var want, got any
	if err := json.Unmarshal([]byte(p.expand(text)), &want); err != nil {
		p.fail("what is expected is no JSON: %v", err)
	}
	if err := json.Unmarshal(p.got, &got); err != nil {
		p.fail("the answer is no JSON: %v\n%s", err, p.got)
	}
	if _, err := jmap.Parse(string(p.got), jmap.Bounds{}); err != nil {
		p.fail("the answer is no I-JSON: %v\n%s", err, p.got)
	}
	switch kind {
	case "S:":
		all, ok := got.(map[string]any)
		if !ok || p.status != http.StatusOK {
			p.fail("status %d: %s", p.status, p.got)
		}
		got = all["methodResponses"]
	case "P:":
		w, ok := want.(map[string]any)
		if !ok || w["status"] != float64(p.status) {
			p.fail("status %d: %s", p.status, p.got)
		}
		w["..."] = true
	case "H:":
		if w, ok := want.(map[string]any); ok {
			w["..."] = true
		}
	}
	if why := p.match("", want, got); why != "" {
		pretty, _ := json.MarshalIndent(got, "", " ")
		p.fail("%s\n%s", why, pretty)
	}
}

// match returns the first difference between got and want, or "".
func (p *player) match(at string, want, got any) string {
	switch w := want.(type) {
	case string:
		g, ok := got.(string)
		switch {
		case w == "*":
			return ""
		case strings.HasPrefix(w, "$") && !strings.HasPrefix(w, "$$"):
			name := w[1:]
			if have, known := p.vars[name]; known {
				if have != g {
					return fmt.Sprintf("%s is %v, want %s (%s)", at, got, have, w)
				}
				return ""
			}
			if !ok {
				return fmt.Sprintf("%s is no string for %s: %v", at, w, got)
			}
			p.vars[name] = g
			return ""
		case strings.HasPrefix(w, "~"):
			if !ok || !strings.Contains(g, w[1:]) {
				return fmt.Sprintf("%s is %v, which does not hold %q", at, got, w[1:])
			}
			return ""
		}
		w = strings.Replace(w, "$$", "$", 1)
		if !ok || g != w {
			return fmt.Sprintf("%s is %v, want %q", at, got, w)
		}
		return ""
	case []any:
		return p.matchList(at, w, got)
	case map[string]any:
		if any, ok := w["$any"].([]any); ok {
			return p.matchAny(at, any, got)
		}
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is no object: %v", at, got)
		}
		_, more := w["..."]
		for k, v := range w {
			if k == "..." {
				continue
			}
			k = p.expand(k) // with the variables set so far
			x, ok := g[k]
			if !ok {
				return fmt.Sprintf("%s/%s is missing", at, k)
			}
			if why := p.match(at+"/"+k, v, x); why != "" {
				return why
			}
		}
		known := map[string]bool{}
		for k := range w {
			known[p.expand(k)] = true
		}
		for k := range g {
			if !known[k] && !more {
				return fmt.Sprintf("%s/%s is not expected: %v", at, k, g[k])
			}
		}
		return ""
	}
	if want != got {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}

func (p *player) matchList(at string, w []any, got any) string {
	g, ok := got.([]any)
	if !ok {
		return fmt.Sprintf("%s is no list: %v", at, got)
	}
	if n := len(w); n > 0 && w[n-1] == "..." && len(g) >= n-1 {
		w, g = w[:n-1], g[:n-1]
	}
	if len(w) != len(g) {
		return fmt.Sprintf("%s has %d elements, want %d: %v", at, len(g), len(w), g)
	}
	for i := range w {
		if why := p.match(fmt.Sprintf("%s/%d", at, i), w[i], g[i]); why != "" {
			return why
		}
	}
	return ""
}

// matchAny compares two lists in any order.
func (p *player) matchAny(at string, w []any, got any) string {
	g, ok := got.([]any)
	if !ok || len(g) != len(w) {
		return fmt.Sprintf("%s has not %d elements: %v", at, len(w), got)
	}
	left := append([]any(nil), g...)
next:
	for _, x := range w {
		for i, y := range left {
			if p.match(at, x, y) == "" {
				left = append(left[:i], left[i+1:]...)
				continue next
			}
		}
		return fmt.Sprintf("%s holds no %v: %v", at, x, got)
	}
	return ""
}
