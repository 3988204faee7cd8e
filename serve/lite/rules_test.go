package lite

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"doublet/mail/scripts"
	"doublet/mailbox"
)

// script returns the text of the active script of a person.
func (w *world) script(name string) (text string) {
	w.t.Helper()
	f := w.file(name)
	w.ok(f.Read(bg, func(d *mailbox.Reading) error {
		l, err := scripts.Read(f, d)
		if err != nil || l.Active() == nil {
			return err
		}
		text, err = scripts.Text(d, l.Active())
		return err
	}))
	return text
}

// TestRules makes a rule, switches, moves, edits, tries and removes rules, and writes the script as text.
func TestRules(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.put("alice", "INBOX", "From: ann@example.com\nSubject: One\n\nx\n")
	w.put("alice", "INBOX", "From: bob@example.com\nSubject: Two\n\nx\n")
	b := w.signed("alice")
	b.follow("Settings")
	b.follow("Rules apply to new mail")
	b.want(200, "There are no rules.")
	b.follow("New rule")
	rule := []string{"name", "Work", "match", "any", "field0", "from", "how0", "contains", "value0", "ann\nanna",
		"field1", "size", "how1", "over", "value1", "1.5", "not1", "yes", "action0", "move", "to0", "Archive",
		"action1", "read", "stop", "yes"}
	b.send("rname", nil, append(rule, "do", "try")...)
	b.want(200, "This rule applies to 2 of the newest 2 messages in Inbox.", "Two · bob@example.com", `value="Work"`)
	if s := w.script("alice"); s != "" {
		t.Fatalf("a test stores %s", s)
	}
	b.send("rname", nil, "do", "save")
	b.want(200, "Saved", "Work", "Sender contains “ann” or “anna” or Size is not over 2 KB"+
		" → mark as read, move to Archive, apply no further rules")
	want := "require [\"fileinto\", \"imap4flags\"];\n# rule:[Work]\n" +
		"if anyof (header :contains \"from\" [\"ann\", \"anna\"]," +
		" not size :over 1536) {\n    addflag \"\\\\Seen\";\n    fileinto \"Archive\";\n    stop;\n}\n"
	if s := w.script("alice"); s != want {
		t.Fatalf("the script is %s", s)
	}
	b.follow("New rule")
	b.send("rname", nil, "name", "Second", "field0", "attachment", "action0", "star", "to0", "", "do", "save")
	b.want(200, "Second", "Attachment is there → flag")
	b.send("rules", nil, "do", "up:1")
	if s := w.script("alice"); strings.Index(s, "Second") > strings.Index(s, "Work") {
		t.Errorf("the rule did not rise: %s", s)
	}
	b.send("rules", nil, "do", "down:0")
	b.send("rules", nil, "do", "off:0")
	b.want(200, "(off)")
	if s := w.script("alice"); !strings.Contains(s, "# rule:[Work]\nif allof (false, anyof (") {
		t.Errorf("the rule is not off: %s", s)
	}
	b.follow("Work")
	b.want(200, `value="any" selected`, "ann\nanna", "1.5", `name="not1" value="yes" checked`)
	b.send("rname", nil, "on", "yes", "field1", "", "do", "save")
	b.lacks("(off)", "Size")
	b.send("rules", nil, "do", "remove:1")
	b.lacks("Second")
	b.follow("Edit as text")
	b.send("name=\"text\"", nil, "text", "keep;\nexplode;", "do", "script")
	b.want(422, "Line 2: unknown command", "explode;")
	b.send("name=\"text\"", nil, "do", "script", "text",
		"require \"vacation\";\nif true { vacation \"Away\"; }\nif header \"a\" \"b\" { keep; }\n")
	b.want(200, "Saved", "if true { vacation")
	b.follow("Rule 1")
	b.want(200, "No form can show this part")
	b.send("name=\"text\"", nil, "text", "if true { vacation \"Still away\"; }", "do", "save")
	b.want(200, "Still away")
	want = "require \"vacation\";\nif true { vacation \"Still away\"; }\nif header \"a\" \"b\" { keep; }\n"
	if s := w.script("alice"); s != want {
		t.Errorf("the script is %q", s)
	}
}

// TestRuleOfMessage makes a rule from a message, of the person's own mail file alone.
func TestRuleOfMessage(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.put("alice", "INBOX", "From: Ann <ann@example.com>\nSubject: Re: One\nList-Id: <dev.example.com>\n\nx\n")
	b := w.signed("alice")
	b.follow("Re: One")
	b.follow("Make a rule from this message")
	b.want(200, `value="dev.example.com"`, "This rule applies to 1 of the newest 1 messages in Inbox.", "Re: One · Ann")
	b.send("rname", nil, "to0", "Archive", "do", "save")
	b.want(200, "Mailing list contains “dev.example.com” → move to Archive")
	b.get(pathRules + "?m=" + strings.Repeat("0", 32))
	b.want(404)
}

// TestRulesRefused checks that bad forms change nothing and say why.
func TestRulesRefused(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.get(pathRules + "?edit=new")
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{[]string{"field0", "", "action0", ""}, "no action"},
		{[]string{"action0", "move", "to0", ""}, "no folder"},
		{[]string{"action0", "forward", "to0", "nobody"}, "invalid address"},
		{[]string{"field0", "from", "how0", "over", "value0", "x"}, "unknown condition"},
		{[]string{"field0", "size", "how0", "over", "value0", "big"}, "write it in KB"},
		{[]string{"field0", "subject", "how0", "regex", "value0", "("}, "missing closing"},
		{[]string{"field0", "subject", "how0", "is", "value0", " "}, "needs texts"},
	} {
		b.get(pathRules + "?edit=new")
		fields := append([]string{"name", "N", "action0", "keep", "to0", "", "do", "save"}, c.fields...)
		b.send("rname", nil, fields...)
		b.want(422, c.want, `value="N"`)
	}
	if s := w.script("alice"); s != "" {
		t.Fatalf("a refused rule is stored: %s", s)
	}
	for _, do := range []string{"up:0", "remove:7", "off:-1", "on:x", "explode", "activate", "save"} {
		b.get(pathRules)
		_, values := b.form("rules")
		values.Set("do", do)
		values.Set("at", "4")
		b.post(pathRules, values, nil)
		if b.status < 400 {
			t.Errorf("%s is %d", do, b.status)
		}
	}
	b.get(pathRules + "?edit=4")
	b.want(404)
	// Rules that changed meanwhile are not overwritten.
	b.get(pathRules + "?edit=new")
	_, values := b.form("rname")
	other := w.signed("alice")
	other.get(pathRules + "?edit=new")
	other.send("rname", nil, "name", "Other", "action0", "keep", "to0", "", "do", "save")
	other.want(200, "Other")
	for k, v := range map[string]string{"name": "Mine", "action0": "keep", "to0": "", "do": "save"} {
		values.Set(k, v)
	}
	b.post(pathRules, values, nil)
	b.want(409, "The rules were changed elsewhere", "Other")
	b.lacks("Mine")
	b.post(pathRules, url.Values{"do": {"remove:0"}, "state": values["state"]}, nil)
	if b.status == 200 || !strings.Contains(w.script("alice"), "Other") {
		t.Error("a form without the token is carried out")
	}
}

// TestRulesPages checks long lists, long rules and scripts that are switched off or broken.
func TestRulesPages(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	var long strings.Builder
	for i := range 40 {
		fmt.Fprintf(&long, "# rule:[%s%d]\nif header :contains [\"from\"] [%s\"x\"] { keep; }\n",
			strings.Repeat("&", 60), i, strings.Repeat("\"<&>\",", 30))
	}
	long.WriteString("# rule:[Long]\nif allof (true" + strings.Repeat(", header \"a\" \"b\"", 9) + ") { keep; }\n")
	long.WriteString("# rule:[Wide]\nif allof (header \"a\" \"b\"" + strings.Repeat(", header \"a\" \"b\"", 9) +
		") { keep; }\n")
	b.get(pathRules + "?text=1")
	b.send("name=\"text\"", nil, "text", long.String(), "do", "script")
	b.want(200, "Rules 1 to 15 of 42")
	b.follow("Next")
	b.want(200, "Rules 16 to 30 of 42")
	b.follow("Next")
	b.want(200, "Rules 31 to 42 of 42")
	b.send("rules", nil, "do", "down:40")
	b.want(200, "Rules 31 to 42 of 42")
	b.follow("Wide")
	b.want(200, "too large for this page")
	b.get(pathRules + "?text=1")
	b.want(200, "too large for this page")
	b.get(pathRules + "?from=-5")
	b.want(200, "Rules 1 to 15 of 42")
	f := w.file("alice")
	_, err := f.Change(bg, 1, func(c *mailbox.Changing, _ int) error {
		e, err := scripts.Edit(f, c)
		if err != nil {
			return err
		}
		return e.Activate("")
	})
	w.ok(err)
	b.get(pathRules)
	b.want(200, "is switched off")
	b.send("activate", nil, "do", "activate")
	b.lacks("is switched off")
}
