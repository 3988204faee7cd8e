package e2e

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/client/imap"
	"doublet/env"
	"doublet/test/external"
	"doublet/test/program"
	wire "doublet/wire/imap"
)

// copied is a Maildir that mbsync synchronises with anna's INBOX, at one member of a cluster after another.
type copied struct {
	*cabled
	dir    string
	names  []string // of the members, as in the cluster
	rounds int
	said   string            // the output of mbsync in all rounds
	want   map[string]string // subject → flags, as expected at the end
}

const mbsyncrc = `IMAPStore far
Host 127.0.0.1
Port %s
User anna
Pass secret
SSLType None
AuthMechs LOGIN

MaildirStore near
Inbox %s/INBOX

Channel inbox
Far :far:
Near :near:
Expunge Both
SyncState *
`

// sync runs mbsync at a member until it succeeds: while a mail file has no home, or moves, the server asks it to retry.
func (c *copied) sync(at int) {
	c.t.Helper()
	c.rounds++
	rc := filepath.Join(c.dir, "mbsyncrc")
	if err := os.WriteFile(rc, fmt.Appendf(nil, mbsyncrc, c.members[at].Port["imap"], c.dir), 0o600); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, fmt.Sprintf("round %d, at member %d", c.rounds, at+1), func() string {
		out, err := program.Command("timeout", "20", "mbsync", "-c", rc, "inbox")
		c.said += fmt.Sprintf("round %d: %s", c.rounds, out)
		if err != nil {
			return fmt.Sprint(err, out)
		}
		return ""
	})
	c.near() // at no time is a message there twice
}

// deliver delivers messages at a member.
func (c *copied) deliver(at int, subjects ...string) {
	c.t.Helper()
	for _, s := range subjects {
		c.members[at].deliver(s)
		c.want[s] = ""
	}
}

// far lists the INBOX at a member: flags and UIDs by subject.
func (c *copied) far(at int) (flags map[string]string, uids map[string]uint32, client *imap.Client, err error) {
	e := env.Real(slog.New(slog.DiscardHandler))
	client, err = imap.Dial(e.Dial, "127.0.0.1:"+c.members[at].Port["imap"],
		imap.Options{Timeout: 10 * time.Second, Clock: e.Clock})
	if err != nil {
		return nil, nil, nil, err
	}
	open := client
	c.t.Cleanup(func() { _ = open.Close() })
	if err = client.Login("anna", "secret"); err != nil {
		return nil, nil, nil, err
	}
	sel, err := client.Select(&wire.Select{Mailbox: "INBOX"}, false)
	flags, uids = map[string]string{}, map[string]uint32{}
	if err != nil || sel.Exists == 0 {
		return flags, uids, client, err
	}
	subject := wire.Section{Text: wire.TextHeaderFields, Fields: []string{"Subject"}}
	all := wire.Fetch{Target: wire.Target{Set: wire.Set{{Start: 1, Stop: 0}}},
		Items: []wire.FetchItem{{Kind: wire.ItemUID}, {Kind: wire.ItemFlags},
			{Kind: wire.ItemBodySection, Peek: true, Section: subject}}}
	err = client.Fetch(&all, false, func(d *wire.FetchData) error {
		s := ""
		if b := d.Section(wire.ItemBodySection); b != nil {
			s = strings.TrimSpace(strings.TrimPrefix(b.Data, "Subject: "))
		}
		if _, there := flags[s]; there {
			c.t.Errorf("member %d has %q twice", at+1, s)
		}
		text := ""
		for _, f := range d.Flags {
			switch strings.ToLower(string(f)) {
			case `\seen`:
				text += "S"
			case `\flagged`:
				text += "F"
			case `\answered`:
				text += "R"
			}
		}
		flags[s], uids[s] = sorted(text), d.UID
		return nil
	}, nil)
	return flags, uids, client, err
}

// mark sets a flag of a message at a member: S, F, R, or T, which also expunges it.
func (c *copied) mark(at int, subject, flag string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("mark %s at member %d", subject, at+1), func() string {
		_, uids, client, err := c.far(at)
		if err != nil {
			return err.Error()
		}
		uid, there := uids[subject]
		if !there {
			return "it is not there"
		}
		name := map[string]string{"S": `\Seen`, "F": `\Flagged`, "R": `\Answered`, "T": `\Deleted`}[flag]
		_, err = client.Raw(fmt.Sprintf("a UID STORE %d +FLAGS.SILENT (%s)", uid, name))
		if err == nil && flag == "T" {
			_, err = client.Raw(fmt.Sprintf("b UID EXPUNGE %d", uid))
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	c.marked(subject, flag)
}

func (c *copied) marked(subject, flag string) {
	if flag == "T" {
		delete(c.want, subject)
	} else if !strings.Contains(c.want[subject], flag) {
		c.want[subject] = sorted(c.want[subject] + flag)
	}
}

func sorted(flags string) string {
	b := []byte(flags)
	slices.Sort(b)
	return string(b)
}

// near lists the Maildir: flags and files by subject.
func (c *copied) near() (flags, files map[string]string) {
	c.t.Helper()
	flags, files = map[string]string{}, map[string]string{}
	list, err := filepath.Glob(filepath.Join(c.dir, "INBOX", "*", "*"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range list {
		if sub := filepath.Base(filepath.Dir(f)); sub != "new" && sub != "cur" ||
			strings.HasPrefix(filepath.Base(f), ".") {
			continue
		}
		raw, err := os.ReadFile(f)
		if err != nil {
			c.t.Fatal(err)
		}
		_, text, _ := strings.Cut("\n"+string(raw), "\nSubject: ")
		s, _, _ := strings.Cut(text, "\n")
		s = strings.TrimSpace(s)
		if _, there := files[s]; there {
			c.t.Errorf("round %d: %q is in the Maildir twice", c.rounds, s)
		}
		_, info, _ := strings.Cut(filepath.Base(f), ":2,")
		flags[s], files[s] = sorted(info), f
	}
	return flags, files
}

// nearMark sets a flag of a message in the Maildir, as a mail program does.
func (c *copied) nearMark(subject, flag string) {
	c.t.Helper()
	flags, files := c.near()
	file, there := files[subject]
	if !there {
		c.t.Fatalf("%s is not in the Maildir: %v", subject, flags)
	}
	name, _, _ := strings.Cut(filepath.Base(file), ":")
	if err := os.Rename(file, filepath.Join(c.dir, "INBOX", "cur",
		name+":2,"+sorted(flags[subject]+flag))); err != nil {
		c.t.Fatal(err)
	}
	c.marked(subject, flag)
}

// nearAdd adds a message to the Maildir.
func (c *copied) nearAdd(subject string) {
	c.t.Helper()
	text := "From: anna@cluster.example\nSubject: " + subject + "\nMessage-ID: <" + subject +
		"@near.example>\n\nHello.\n"
	if err := os.WriteFile(filepath.Join(c.dir, "INBOX", "new", "1700000000."+subject+".host"), []byte(text),
		0o600); err != nil {
		c.t.Fatal(err)
	}
	c.want[subject] = ""
}

// home returns the member that leads anna's mail file, in the view of a running one.
func (c *copied) home(asked int) (home int) {
	c.t.Helper()
	eventually(c.t, "a home of anna's mail file", func() string {
		for _, d := range c.members[asked].placed() {
			if home = slices.Index(c.names, d.Home); strings.HasPrefix(d.Title, "Anna") && home >= 0 {
				return ""
			}
		}
		return fmt.Sprintf("%+v", c.members[asked].placed())
	})
	return home
}

// TestClusterMbsync: mbsync synchronises a Maildir with a mailbox of a cluster, at a different member in each round.
// Meanwhile mail arrives and flags change at others, the home is killed and comes back, and the cluster is split and
// heals. No message may be lost or doubled, and UIDVALIDITY must stay.
func TestClusterMbsync(t *testing.T) {
	t.Parallel()
	external.Need(t, "mbsync", "curl")
	c := &copied{cabled: newCabled(t, "sync", "198.18.51.", []string{"one", "two", "three"}), dir: t.TempDir(),
		want: map[string]string{}}
	for _, sub := range []string{"new", "cur", "tmp"} {
		if err := os.MkdirAll(filepath.Join(c.dir, "INBOX", sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	all := func() {
		t.Helper()
		for i := range c.members {
			c.hears(i, 2)
		}
	}
	all()
	for _, m := range c.members {
		for _, x := range m.status().Members {
			if x.Self {
				c.names = append(c.names, x.Name)
			}
		}
	}
	c.deliver(0, "m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7")
	c.sync(0)
	c.said = "" // the first sync, without a UIDVALIDITY yet
	c.deliver(1, "b0")
	c.mark(2, "m0", "S")
	c.nearMark("m1", "F")
	c.nearAdd("n0")
	c.sync(1)
	c.deliver(2, "c0")
	c.mark(0, "m2", "T")
	c.nearMark("m3", "T")
	c.sync(2)

	for round := range 2 { // a home is killed, its mates continue, and it comes back
		home := c.home(0)
		next, last := (home+1)%3, (home+2)%3
		c.members[home].Stop(syscall.SIGKILL)
		c.deliver(next, fmt.Sprint("without", round))
		c.nearAdd(fmt.Sprint("n-without", round))
		c.nearMark(fmt.Sprint("m", 4+round), "F")
		c.sync(next)
		c.mark(last, fmt.Sprint("m", 4+round), "S")
		c.members[home].serve()
		c.deliver(home, fmt.Sprint("back", round))
		c.sync(home)
		all()
	}

	home := c.home(0)
	next, last := (home+1)%3, (home+2)%3
	c.cutOff(home)
	c.deliver(home, "split-home")
	c.deliver(next, "split-next")
	c.sync(home)
	c.mark(next, "m6", "S")
	c.mark(home, "m6", "F")
	c.nearAdd("n-split")
	c.sync(next) // not at home: see doc/cluster.md, "What it does not promise"
	c.mark(last, "split-next", "S")
	c.mark(home, "split-home", "R")
	c.heal()
	all()
	c.nearMark("m7", "R")

	for i := range c.members { // the waiting messages arrive and are synchronised
		c.sync(i)
	}
	at := 0
	eventually(t, "all are equal", func() string {
		at++
		c.sync(at % 3)
		near, _ := c.near()
		for i := range c.members {
			far, _, client, err := c.far(i)
			if err != nil {
				return err.Error()
			}
			_ = client.Close()
			if !maps.Equal(far, c.want) || !maps.Equal(near, c.want) {
				return fmt.Sprintf("wanted  %v\nmember %d %v\nMaildir  %v", c.want, i+1, far, near)
			}
		}
		return ""
	})
	if strings.Contains(strings.ToUpper(c.said), "UIDVALIDITY") {
		t.Errorf("mbsync says:\n%s", c.said)
	}
}
