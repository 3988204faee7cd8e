package imapd

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
)

// witness is a person with a connection that records all responses of the server.
type witness struct {
	name string
	c    net.Conn
	r    *bufio.Reader
	tag  int
}

// rightsModel holds the rights by owner and folder, then by person; "anyone" applies to people without an entry.
type rightsModel map[string]map[string]string

func (m rightsModel) of(folder, owner, person string) string {
	if person == owner {
		return "lrswikxtea"
	}
	acl := m[folder]
	if r, ok := acl[person]; ok {
		return r
	}
	return acl["anyone"]
}

// rightsWorld is the state of the random test.
type rightsWorld struct {
	t      *testing.T
	h      *house
	rnd    *rand.Rand
	people map[string]*witness
	model  rightsModel
	log    []string
}

var rightsPeople = []string{"alice", "bob", "carol"}

// rightsFolder returns the name of a person's folder. Each name and each message contains a word that occurs nowhere
// else.
func rightsFolder(owner string, i int) string {
	name := fmt.Sprintf("fold-%s-%d", owner, i)
	if i == 2 {
		name = rightsFolder(owner, 1) + "/" + name
	}
	return name
}

const rightsFolders = 3

func annotation(owner string, i int) string { return fmt.Sprintf("shared-%s-%d-", owner, i) }

func secret(owner string, i int) string { return fmt.Sprintf("secret-%s-%d-", owner, i) }

func (w *rightsWorld) connect(name string) {
	c, r := w.h.raw(w.t)
	w.people[name] = &witness{name: name, c: c, r: r}
	w.say(name, "LOGIN "+name+" demo")
}

// say sends a command and returns the responses. It reconnects after the server has ended the session.
func (w *rightsWorld) say(name, command string) string {
	p := w.people[name]
	p.tag++
	tag := fmt.Sprintf("t%d", p.tag)
	w.log = append(w.log, name+": "+command)
	if _, err := fmt.Fprintf(p.c, "%s %s\r\n", tag, command); err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for {
		line, err := p.r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			w.connect(name)
			return b.String()
		}
		if strings.HasPrefix(line, tag+" ") {
			return b.String()
		}
	}
}

// fine reports whether the tagged response is OK.
func fine(got string) bool {
	last := got[strings.LastIndexByte(strings.TrimSuffix(got, "\r\n"), '\n')+1:]
	_, rest, _ := strings.Cut(last, " ")
	return strings.HasPrefix(rest, "OK ")
}

func (w *rightsWorld) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nafter:\n  %s", fmt.Sprintf(format, args...), strings.Join(w.log[max(0, len(w.log)-25):], "\n  "))
}

// check fails if the person was told anything without the right to it: words of messages that they may not read, names
// that they may not look up.
func (w *rightsWorld) check(name, told string) {
	w.t.Helper()
	for _, owner := range rightsPeople {
		if owner != name && strings.Contains(told, "private-"+owner) {
			w.fail("%s was told a private annotation of %s: %s", name, owner, told)
		}
		for i := range rightsFolders {
			folder := rightsFolder(owner, i)
			g := w.model.of(folder, owner, name)
			if !(strings.Contains(g, "l") && strings.ContainsAny(g, "rswi")) &&
				strings.Contains(told, annotation(owner, i)) {
				w.fail("%s (rights %q) was told an annotation of %s: %s", name, g, folder, told)
			}
			if !strings.Contains(g, "l") && strings.Contains(told, fmt.Sprintf("fold-%s-%d", owner, i)) &&
				!w.child(name, owner, i) {
				w.fail("%s (rights %q) was told of %s: %s", name, g, folder, told)
			}
			if !(strings.Contains(g, "l") && strings.Contains(g, "r")) && strings.Contains(told, secret(owner, i)) {
				w.fail("%s (rights %q) was told what stands in %s: %s", name, g, folder, told)
			}
		}
	}
}

// child reports whether a person may look up a child of a mailbox, and so learns the mailbox's name, which is part of
// the child's.
func (w *rightsWorld) child(name, owner string, i int) bool {
	return i == 1 && strings.Contains(w.model.of(rightsFolder(owner, 2), owner, name), "l")
}

// grant changes an access list as its owner.
func (w *rightsWorld) grant() {
	owner, i := rightsPeople[w.rnd.IntN(3)], w.rnd.IntN(rightsFolders)
	folder := rightsFolder(owner, i)
	who := append([]string{"anyone"}, rightsPeople...)[w.rnd.IntN(4)]
	if who == owner {
		return
	}
	rights, dense := "", w.rnd.IntN(4)
	for _, c := range "lrswite" {
		if w.rnd.IntN(4) < dense || c == 'l' && w.rnd.IntN(2) == 0 {
			rights += string(c)
		}
	}
	command := fmt.Sprintf("SETACL %s %s %q", folder, who, rights)
	if w.rnd.IntN(5) == 0 {
		command, rights = fmt.Sprintf("DELETEACL %s %s", folder, who), ""
		delete(w.model[folder], who)
	} else {
		w.model[folder][who] = rights
	}
	got := w.say(owner, command)
	if strings.Contains(got, "* BYE") { // the selected mailbox was no longer accessible: retry
		got = w.say(owner, command)
	}
	if !fine(got) {
		w.fail("%s", got)
	}
}

// look tries one random way to read data.
func (w *rightsWorld) look() {
	name, owner, i := rightsPeople[w.rnd.IntN(3)], rightsPeople[w.rnd.IntN(3)], w.rnd.IntN(rightsFolders)
	if name == owner {
		return
	}
	folder := rightsFolder(owner, i)
	g := w.model.of(folder, owner, name)
	may := func(rights string) bool {
		for _, c := range rights {
			if !strings.ContainsRune(g, c) {
				return false
			}
		}
		return true
	}
	box := `"Other Users/` + owner + "/" + folder + `"`
	expect := func(got string, ok bool) {
		w.t.Helper()
		w.check(name, got)
		if fine(got) != ok && !strings.Contains(got, "* BYE") {
			w.fail("%s with rights %q on %s: %s", name, g, folder, got)
		}
	}
	switch w.rnd.IntN(15) {
	case 13, 14:
		if !may("l") && !w.child(name, owner, i) {
			w.unknown(name, box)
		}
	case 0:
		got := w.say(name, `LIST "" "*"`)
		w.check(name, got)
		if strings.Contains(got, box) != may("l") && !w.child(name, owner, i) {
			w.fail("%s with rights %q on %s: %s", name, g, folder, got)
		}
	case 1:
		w.check(name,
			w.say(name,
				`LIST (SUBSCRIBED RECURSIVEMATCH) "" ("Other Users/*" "%") RETURN (CHILDREN STATUS (MESSAGES `+
					`UNSEEN) METADATA (/shared/comment /private/comment))`))
		w.check(name, w.say(name, `LSUB "" "*"`))
	case 2:
		expect(w.say(name, "STATUS "+box+" (MESSAGES UNSEEN SIZE DELETED-STORAGE)"), may("lr"))
	case 3:
		expect(w.say(name, "EXAMINE "+box), may("lr"))
		w.check(name, w.say(name, "UID FETCH 1:* (BODY.PEEK[] ENVELOPE PREVIEW BODYSTRUCTURE BINARY.PEEK[1])"))
	case 4:
		w.check(name, w.say(name, "SELECT "+box))
		w.check(name, w.say(name, `UID SEARCH TEXT secret`))
		w.check(name, w.say(name, `UID SORT (SUBJECT) UTF-8 TEXT secret`))
		w.check(name, w.say(name, `FETCH 1 (FLAGS BODY[HEADER])`))
	case 5: // a mailbox that was selected before the rights changed
		w.check(name, w.say(name, "UID FETCH 1:* (FLAGS BODY.PEEK[])"))
		w.check(name, w.say(name, "NOOP"))
	case 6:
		w.check(name, w.say(name, "SELECT "+box))
		if got := w.say(name, "COPY 1:* Drafts"); strings.Contains(got, "COPYUID") && !may("lr") {
			w.fail("%s copied with rights %q out of %s", name, g, folder)
		}
		w.check(name, w.say(name, "SELECT Drafts"))
		w.check(name, w.say(name, "FETCH 1:* BODY.PEEK[]"))
		w.say(name, `STORE 1:* +FLAGS (\Deleted)`)
		w.say(name, "CLOSE")
	case 7:
		expect(w.say(name, "MYRIGHTS "+box), may("l"))
		expect(w.say(name, "GETACL "+box), false)
		expect(w.say(name, "LISTRIGHTS "+box+" "+name), false)
		expect(w.say(name, "SETACL "+box+" "+name+" lrsa"), false)
	case 8:
		w.check(name, w.say(name, "GETMETADATA "+box+" (/shared/comment /private/comment)"))
		w.check(name, w.say(name, "GETQUOTAROOT "+box))
		expect(w.say(name, `GETQUOTA "Other Users/`+owner+`"`), false)
	case 9:
		w.check(name, w.say(name, `ESEARCH IN (subtree "Other Users" mailboxes `+box+`) TEXT secret`))
		w.check(name, w.say(name, `ESEARCH IN (personal subscribed) TEXT secret`))
	case 10:
		expect(w.say(name, "RENAME "+box+` "Other Users/`+owner+`/mine"`), false)
		expect(w.say(name, "DELETE "+box), false)
		expect(w.say(name, `CREATE "Other Users/`+owner+`/mine"`), false)
	case 11:
		w.check(name, w.say(name, "NOTIFY SET STATUS (subtree \"Other Users\" (MessageNew MessageExpunge "+
			"FlagChange)) (personal (MessageNew MessageExpunge))"))
		w.check(name, w.say(name, "NOOP"))
		w.check(name, w.say(name, "NOTIFY NONE"))
		w.check(name, w.say(name, "SUBSCRIBE "+box))
	case 12: // removing a message requires the rights to mark and to expunge it
		w.check(name, w.say(name, "SELECT "+box))
		command := [...]string{"UID MOVE * Drafts", "UID REPLACE * Drafts {4+}\r\na: b",
			"UID REPLACE * " + box + " {4+}\r\na: b"}[w.rnd.IntN(3)]
		need := "lrte"
		if strings.Contains(command, box) {
			need += "i"
		}
		got := w.say(name, command)
		expect(got, may(need))
		if fine(got) {
			msg := "Subject: " + secret(owner, i) + "more\r\n\r\nbody\r\n"
			w.say(owner, fmt.Sprintf("APPEND %s {%d+}\r\n%s", folder, len(msg), msg))
		}
		w.say(name, "SELECT Drafts")
		w.say(name, `STORE 1:* +FLAGS (\Deleted)`)
		w.say(name, "CLOSE")
	}
}

// unknownTo has a command for every verb that takes a mailbox name.
var unknownTo = []string{
	"STATUS %s (MESSAGES UNSEEN HIGHESTMODSEQ)", "SELECT %s", "EXAMINE %s (CONDSTORE)", "MYRIGHTS %s", "GETACL %s",
	"LISTRIGHTS %s bob",
	"SETACL %s bob lr", "DELETEACL %s bob", "GETMETADATA %s (/shared/comment /private/comment)",
	`SETMETADATA %s (/private/comment "x")`,
	"GETQUOTAROOT %s", "SUBSCRIBE %s", "UNSUBSCRIBE %s", "DELETE %s", "RENAME %s Mine", "CREATE %s", "CREATE %s/below",
	"APPEND %s {4+}\r\na: b",
	`LIST "" %s RETURN (CHILDREN STATUS (MESSAGES) METADATA (/shared/comment) MYRIGHTS)`, `LSUB "" %s`,
	`LIST (SUBSCRIBED) "" %s`,
	"ESEARCH IN (mailboxes %s) ALL", "ESEARCH IN (subtree %s) RETURN (COUNT) TEXT secret",
	"NOTIFY SET STATUS (mailboxes %s (MessageNew MessageExpunge FlagChange MailboxName))", "NOTIFY NONE",
	"UID COPY * %s", "UID MOVE * %s", "UID REPLACE * %s {4+}\r\na: b",
}

// unknown checks that for every verb, a mailbox that the person may not look up is answered like one that does not
// exist.
func (w *rightsWorld) unknown(name, box string) {
	w.t.Helper()
	ghost := box[:strings.LastIndex(box, "/")+1] + `fold-none-9"`
	w.say(name, "APPEND INBOX {4+}\r\na: b")
	plain := func(got, box string) string {
		lines := strings.SplitAfter(got, "\r\n")
		if last := len(lines) - 2; last >= 0 && !strings.HasPrefix(lines[last], "*") {
			_, lines[last], _ = strings.Cut(lines[last], " ") // the tag
		}
		return strings.ReplaceAll(strings.Join(lines, ""), strings.Trim(box, `"`), "BOX")
	}
	for _, format := range unknownTo {
		var got [2]string
		for k, b := range []string{box, ghost} {
			if strings.HasPrefix(format, "UID") || strings.HasPrefix(format, "SEL") ||
				strings.HasPrefix(format, "EXA") {
				w.say(name, "SELECT INBOX")
			}
			in := b
			if rest, below := strings.CutPrefix(format, "CREATE %s/"); below {
				format, in = "CREATE %s", strings.TrimSuffix(b, `"`)+"/"+rest+`"`
			}
			command := format
			if strings.Contains(format, "%s") {
				command = fmt.Sprintf(format, in)
			}
			got[k] = plain(w.say(name, command), b)
		}
		if got[0] != got[1] {
			w.fail("%s can tell %s from what is not there by %q: %q, %q", name, box, format, got[0], got[1])
		}
	}
	w.say(name, "UNSELECT")
}

// TestQuotaHidden checks that a person without the right to insert messages does not learn if a message would fit into
// the quota.
//
// Implements: RFC 4314 §4 the right i is asked before the quota
func TestQuotaHidden(t *testing.T) {
	t.Parallel()
	w := &rightsWorld{t: t, h: open(t, settings{Config: Config{MaxBad: 1000}}), people: map[string]*witness{}}
	w.connect("carol") // her mail file has a quota of 2,000 bytes
	w.connect("bob")
	big := "Subject: big\r\n\r\n" + strings.Repeat("x", 3000)
	w.say("carol", "CREATE plans")
	w.say("carol", "SETACL plans bob lr")
	w.say("bob", fmt.Sprintf("APPEND INBOX {%d+}\r\n%s", len(big), big))
	w.say("bob", "SELECT INBOX")
	for _, i := range []bool{false, true} {
		want := "NO [NOPERM]"
		if i {
			w.say("carol", "SETACL plans bob lri")
			want = "NO [OVERQUOTA]"
		}
		for _, command := range []string{
			`UID COPY * "Other Users/carol/plans"`, `UID MOVE * "Other Users/carol/plans"`,
			fmt.Sprintf("APPEND \"Other Users/carol/plans\" {%d+}\r\n%s", len(big), big),
			fmt.Sprintf("APPEND \"Other Users/carol/plans\" {%d+}\r\n%s {%d+}\r\n%s", len(big), big, len(big), big),
			fmt.Sprintf("UID REPLACE * \"Other Users/carol/plans\" {%d+}\r\n%s", len(big), big),
		} {
			if got := w.say("bob", command); !strings.Contains(got, want) {
				t.Errorf("%.40s: %q, want %s", command, got, want)
			}
		}
	}
}

// TestRights checks that no verb reveals anything that the access lists do not grant, and that everything granted is
// accessible. The model holds only the grants.
//
// Implements: RFC 4314 §4 Rights required to perform commands
func TestRights(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		w := &rightsWorld{t: t, h: open(t, settings{Config: Config{MaxBad: 1000}, quota: 0}),
			rnd: rand.New(rand.NewPCG(seed, 1)), people: map[string]*witness{}, model: rightsModel{}}
		for _, name := range rightsPeople {
			w.connect(name)
			for i := range rightsFolders {
				folder := rightsFolder(name, i)
				w.model[folder] = map[string]string{}
				w.say(name, "CREATE "+folder)
				for n := range 2 {
					msg := fmt.Sprintf("Subject: %s%d\r\n\r\n%sbody\r\n", secret(name, i), n, secret(name, i))
					if got := w.say(name, fmt.Sprintf("APPEND %s {%d+}\r\n%s", folder, len(msg), msg)); !fine(got) {
						w.fail("%s", got)
					}
				}
				w.say(name, fmt.Sprintf("SETMETADATA %s (/shared/comment %q /private/comment %q)", folder,
					annotation(name, i), "private-"+name))
			}
		}
		for range 500 {
			if w.rnd.IntN(3) == 0 {
				w.grant()
			} else {
				w.look()
			}
		}
	}
}
