package rules_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/mail/rules"
	"doublet/test/external"
)

// pigeonConf lets sieve-test run for any account; as root it becomes nobody.
const pigeonConf = `mail_location = maildir:%[1]s/mail
mail_uid = %[2]d
mail_gid = %[2]d
first_valid_uid = 1
plugin {
  sieve_extensions = +editheader +vacation-seconds
  recipient_delimiter = +
  sieve_max_redirects = 5
}
`

// apart lists words of scripts whose outcome depends on what surrounds the message, or on what one of the two lacks.
var apart = []string{"currentdate", "environment", "mailboxexists", "specialuse", "include", "duplicate", "vnd.example",
	"error", "quoteregex", "ereject", "julian", "notify_method_capability", "valid_notify_method", "index 4",
	"redirect \"6@", "spamtest"}

// pigeon runs sieve-test.
type pigeon struct{ program, dir, conf string }

func newPigeon(t *testing.T) *pigeon {
	t.Helper()
	p := &pigeon{program: external.Need(t, "sieve-test")[0]}
	var err error
	if p.dir, err = os.MkdirTemp("", "pigeonhole"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(p.dir) })
	uid := os.Getuid()
	if uid == 0 {
		uid = 65534
	}
	if err := os.Chmod(p.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	p.conf = p.write(t, "dovecot.conf", fmt.Sprintf(pigeonConf, p.dir, uid))
	return p
}

func (p *pigeon) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// compare runs a script over a message here and there. It reports whether the outcomes are the same, with both.
func (p *pigeon) compare(t *testing.T, name, script, message string) (same bool, got, want []string, theirs string) {
	t.Helper()
	program, err := rules.Compile("", script)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, script)
	}
	cmd := exec.Command(p.program, "-c", p.conf, "-f", "alice+news@example.org", "-a", "bob+lists@example.com",
		p.write(t, name+".sieve", script), p.write(t, name+".eml", message))
	cmd.Env = append(os.Environ(), "TZ=UTC")
	out, _ := cmd.CombinedOutput()
	o := rules.Run(program, &rules.Message{Raw: []byte(message), From: "alice+news@example.org",
		To: "bob+lists@example.com"}, &rules.World{Now: time.Date(2026, 11, 25, 22, 0, 0, 0, time.UTC)})
	got, want = summary(&o), pigeonSummary(string(out))
	return slices.Equal(got, want), got, want, string(out)
}

// TestPigeonhole runs the scripts of the scenarios over several messages, and compares the outcomes with those of
// Dovecot Pigeonhole.
func TestPigeonhole(t *testing.T) {
	t.Parallel()
	p := newPigeon(t)
	messages := map[string]string{"plain": "From: bob@example.com\r\nTo: carol@example.net\r\nSubject: [list] sea " +
		"7\r\n\r\nx\r\n",
		"bare": "Subject:\r\n\r\n", "many": "From: a@b.c, Alice <alice@example.org>\r\nTo: x:;\r\nX-Tag: " +
			"three\r\nX-Tag: one\r\n" +
			"X-Number: 7\r\nSubject: =?iso-8859-1?Q?Gr=FC=DFe?= from the sea *important*\r\nDate: Tue, 24 Nov " +
			"2026 23:30:00 -0500\r\n\r\nrich words\r\n"}
	var all []scenario
	for _, file := range []string{"testdata/5228.txt", "testdata/extensions.txt"} {
		list := scenarios(t, file)
		messages[filepath.Base(file)] = list[0].message
		all = append(all, list...)
	}
	compared := 0
	for i, s := range all {
		if slices.ContainsFunc(apart, func(w string) bool { return strings.Contains(s.script, w) }) {
			continue
		}
		if _, err := rules.Compile("", s.script); err != nil {
			continue
		}
		for name, message := range messages {
			compared++
			if same, got, want, theirs := p.compare(t, fmt.Sprintf("s%d", i), s.script, message); !same {
				t.Errorf("%s over %s:\n%s\ngot  %q\nwant %q\n%s", s.title, name, s.script, got, want, theirs)
			}
		}
	}
	if compared < 150 {
		t.Errorf("only %d outcomes are compared", compared)
	}
}

// summary returns the actions of an outcome, in the form of pigeonSummary.
func summary(o *rules.Outcome) (out []string) {
	for _, f := range o.Filings {
		folder := f.Folder
		if folder == "" {
			folder = "INBOX"
		}
		flags := strings.Fields(strings.ToLower(strings.Join(f.Flags, " ")))
		slices.Sort(flags)
		out = append(out, "store "+folder+" "+strings.Join(flags, " "))
	}
	for _, a := range o.Redirects {
		out = append(out, "redirect "+strings.ToLower(a))
	}
	if o.Rejected {
		out = append(out, "reject "+o.Reason)
	}
	if o.Vacation != nil {
		out = append(out, "vacation")
	}
	for range o.Notices {
		out = append(out, "notify")
	}
	if o.Err != nil {
		out = []string{"store INBOX "}
	}
	slices.Sort(out)
	return out
}

// pigeonSummary reads what sieve-test prints.
func pigeonSummary(text string) (out []string) {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if folder, ok := strings.CutPrefix(line, "* store message in folder: "); ok {
			out = append(out, "store "+folder+" ")
		} else if flags, ok := strings.CutPrefix(line, "+ add IMAP flags: "); ok && len(out) > 0 {
			list := strings.Fields(strings.ToLower(flags))
			slices.Sort(list)
			out[len(out)-1] += strings.Join(list, " ")
		} else if to, ok := strings.CutPrefix(line, "* redirect message to: "); ok {
			out = append(out, "redirect "+strings.ToLower(strings.Trim(to, "<>")))
		} else if why, ok := strings.CutPrefix(line, "* reject message with reason: "); ok {
			out = append(out, "reject "+why)
		} else if strings.HasPrefix(line, "* send vacation message") {
			out = append(out, "vacation")
		} else if strings.HasPrefix(line, "* send notification") {
			out = append(out, "notify")
		}
	}
	if strings.Contains(text, "resolved with successful implicit keep") {
		return []string{"store INBOX "}
	}
	slices.Sort(out)
	return slices.Compact(out) // it compares addresses with their case
}
