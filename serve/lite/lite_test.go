package lite

import (
	"fmt"
	"mime"
	"net/url"
	"strings"
	"testing"
	"time"

	"doublet/directory/totp"
	"doublet/mailbox"
	"doublet/note"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.browser()
	b.get(Path + "?f=&q=cake")
	b.want(200, `name="to" value="/lite/?f=&amp;q=cake"`)
	b.submit("user", "alice", "password", "wrong")
	b.want(401, "Incorrect name or password", `value="alice"`)
	b.submit("password", "secret-alice")
	b.want(200, "Nothing found", "Alice Example")
	b.send("sign-out", nil)
	b.want(200, `name="password"`)
	b.get(Path)
	b.want(200, `name="password"`)
	for _, to := range []string{"//evil.example/", "https://evil.example/", "/lite/../admin", `/lite/\evil`, "/jmap/"} {
		b.get(pathSignIn + "?to=" + url.QueryEscape(to))
		if to != "/lite/../admin" { // also a path of this server
			b.lacks(`value="` + to)
		}
	}
	b.foreign = true
	b.submit("user", "alice", "password", "secret-alice")
	b.want(403)
	b.foreign = false

	secret := totp.NewSecret(w.fix.Env)
	alice := w.people["alice"]
	who, err := w.dir.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	_, err = w.dir.SecondFactors.Set(bg, who, alice.ID, secret)
	w.ok(err)
	b.get(Path)
	b.submit("user", "alice", "password", "secret-alice")
	b.want(401, "second factor")
	b.submit("user", "alice", "password", "secret-alice", "code", totp.Code(secret, w.fix.Clock.Now()))
	b.want(200, "Sign out")
}

func TestListAndRead(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	for i := range 65 {
		w.put("alice", "INBOX", simple(fmt.Sprintf("Message %02d", i), "Text "+strings.Repeat("of it ", 40)))
	}
	b := w.signed("alice")
	b.want(200, "Message 64", "Message 40", "1–25 of 65", "<b>65</b>")
	b.lacks("Message 39")
	b.follow("Older")
	b.want(200, "Message 39", "26–50 of 65")
	b.follow("Older")
	b.want(200, "51–65 of 65")
	b.follow("Newer")
	b.follow("Newer")
	b.follow("Message 64")
	b.want(200, "<h1><bdi>Message 64</bdi></h1>", "eve@far.example", "dan@far.example", "bob@example.com", "Text of it")
	b.follow("Message source")
	b.want(200, "Message-ID: <Message.64@far.example>")
	if b.header.Get("Content-Security-Policy") != policyForeign ||
		b.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%v", b.header)
	}
	b.get(Path)
	b.want(200, "<b>64</b>") // it is now read
	b.follow("Message 63")
	b.follow("Print")
	b.want(200, "Message 63")
	b.lacks("<nav", "<button")
}

func TestThread(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.put("alice", "INBOX", simple("Plan", "One"))
	w.put("alice", "INBOX", "From: Bob <bob@example.com>\nTo: alice@example.com\nSubject: Re: Plan\n"+
		"In-Reply-To: <Plan@far.example>\nReferences: <Plan@far.example>\nMessage-ID: <2@x>\n\nTwo\n")
	b := w.signed("alice")
	b.follow("Re: Plan")
	b.want(200, "conversation of 2")
	b.follow("One")
	b.want(200, "<h1><bdi>Plan</bdi></h1>", "conversation of 2")
}

func TestSearch(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.put("alice", "INBOX", simple("Cake", "The annual report of cakes"))
	w.put("alice", "Archive", simple("Bread", "No report annual here"))
	w.put("alice", "Trash", simple("Old cake", "thrown away cakes"))
	b := w.signed("alice")
	for q, found := range map[string]string{
		"cakes": "Cake", `"annual report"`: "Cake", "report annual": "Bread Cake", "subject:bread": "Bread",
		"in:trash cakes": "Old cake", "from:eve -cakes": "Bread",
		"is:unread in:archive": "Bread", "is:read": "", "has:attachment": "", "cakes OR subject:bread": "Bread Cake",
		"larger:1MB": "", "before:2020-01-01": "", "nobody": "",
	} {
		b.get(Path + "?q=" + url.QueryEscape(q))
		for _, subject := range []string{"Cake", "Bread", "Old cake"} {
			has := strings.Contains(b.page, `<bdi>`+subject+`<`)
			if want := strings.Contains(" "+found+" ", " "+subject+" ") &&
				(subject == "Old cake") == (found == "Old cake"); has != want {
				t.Errorf("%s: %s %v", q, subject, has)
			}
		}
	}
	b.get(Path + "?q=" + url.QueryEscape("before:yesterday-ish"))
	b.want(200, `role="alert"`, "Not understood: before:yesterday-ish")
	b.get(Path + "?q=" + url.QueryEscape(`cakes -from:bob in:nowhere is:starred "annual report" larger:2K category:x`))
	b.want(200, "<bdi>cakes</bdi>", "not From: bob", "Flagged", "“annual report”", "Larger than 2", "Folder: nowhere",
		"Not understood: category:x", "in:nowhere: there is no folder with this name")
	b.get(Path + "?q=" + strings.Repeat("%28", 60) + "cakes")
	b.want(200, "This search is too long or too complex", "Nothing found")
}

func TestBulk(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	for i := range 4 {
		w.put("alice", "INBOX", simple(fmt.Sprintf("M%d", i), "x"))
	}
	b := w.signed("alice")
	b.send("M1", nil, "do", "delete")
	b.want(200, "Nothing was selected")
	b.send("M1", nil, "+m", b.pick("M1"), "+m", b.pick("M2"), "do", "delete")
	b.want(200, "2 moved to Trash", "M0", "M3")
	b.lacks("<bdi>M1", "<bdi>M2")
	b.send("undo", nil, "do", "undo")
	b.want(200, "Undone", "<bdi>M1", "<bdi>M2")
	b.send("M1", nil, "+m", b.pick("M1"), "do", "flag")
	b.want(200, "⚑")
	b.send("M1", nil, "+m", b.pick("M1"), "+m", b.pick("M3"), "do", "read")
	b.want(200, "<b>2</b>")
	b.send("M1", nil, "+m", b.pick("M1"), "do", "unread")
	b.want(200, "<b>3</b>")
	b.send("M1", nil, "+m", b.pick("M1"), "do", "archive")
	b.want(200, "1 archived")
	b.follow("Archive")
	_, v := b.form("M1")
	b.send("M1", nil, "+m", b.pick("M1"), "do", "move", "to", v.Get("to"))
	b.want(200, "1 moved to")
	b.get(Path)
	b.follow("M0")
	b.send(`name="back"`, nil, "do", "flag")
	b.want(200, "Remove flag")
	b.send(`name="back"`, nil, "do", "junk")
	b.want(200, "1 moved to Junk")
	b.follow("Junk")
	b.follow("M0")
	b.send(`name="back"`, nil, "do", "notjunk")
	b.want(200, "1 moved to Inbox")
	b.get(Path)
	b.send("M0", nil, "+m", b.pick("M0"), "do", "delete")
	b.follow("Trash")
	b.send("M0", nil, "+m", b.pick("M0"), "do", "delete")
	b.want(200, "1 deleted for good")
	b.lacks("<bdi>M0")
}

func TestFolders(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.follow("Manage folders")
	b.send("new", nil, "name", "Projects <b>", "do", "new")
	b.want(200, "Projects &lt;b&gt;")
	b.send("new", nil, "name", "Projects <b>", "do", "new")
	b.want(409, "A folder with this name already exists")
	_, v := b.form(`value="Projects`)
	b.send("new", nil, "name", "Inner", "f", v.Get("f"), "do", "new")
	b.want(200, "Projects &lt;b&gt;/Inner")
	b.send(`value="Projects`, nil, "do", "delete")
	b.want(400)
	b.get(pathFolders)
	b.want(200, "Projects &lt;b&gt;/Inner")
	b.send(`value="Inner"`, nil, "name", "a/b", "do", "rename")
	b.want(400)
	b.send(`value="Inner"`, nil, "name", "Größer", "do", "rename")
	b.want(200, "Projects &lt;b&gt;/Größer")
	w.put("alice", "Projects <b>/Größer", simple("Kept letter", "x"))
	ask := func(name string, wants ...string) {
		t.Helper()
		b.get(pathFolders)
		_, v := b.form(`value="` + name)
		b.get(pathFolders + "?delete=" + v.Get("f"))
		b.want(200, wants...)
	}
	ask("Projects", "Move the folder “Projects &lt;b&gt;” and the 0 messages in it to Trash?")
	b.send("notice", nil, "do", "trash")
	b.want(200, "Trash/Projects &lt;b&gt;/Größer")
	b.get(Path + "?q=letter")
	b.lacks("Kept letter") // nothing in Trash is found
	b.get(Path + "?f=" + w.folder("alice", "Trash/Projects <b>/Größer"))
	b.want(200, "Kept letter")
	b.get(pathFolders)
	b.send("new", nil, "name", "Projects <b>", "do", "new")
	b.get(pathFolders + "?delete=" + w.folder("alice", "Projects <b>"))
	b.send("notice", nil, "do", "trash")
	b.want(200, "Trash/Projects &lt;b&gt; (2)")
	b.get(pathFolders + "?delete=" + w.folder("alice", "Trash/Projects <b>"))
	b.want(200, "for good? This cannot be undone.")
	b.send("notice", nil, "do", "delete")
	b.want(200, "Trash/Projects &lt;b&gt; (2)")
	b.lacks("Größer")
	w.put("alice", "Trash", simple("Gone", "x"))
	b.get(pathFolders)
	b.follow("Empty")
	b.want(200, "all messages and folders in “Trash” for good?")
	b.send("notice", nil, "do", "empty")
	b.want(200, "Done.")
	b.lacks("(2)")
	b.follow("Trash")
	b.lacks("Gone")
	inbox := w.folder("alice", "INBOX")
	b.get(pathFolders)
	action, form := b.form("new")
	for _, do := range []string{"delete", "rename", "empty"} {
		form.Set("do", do)
		form.Set("f", inbox)
		form.Set("name", "x")
		b.post(action, form, nil)
		if b.status < 400 {
			t.Errorf("%s of the inbox: %d", do, b.status)
		}
	}
}

func (w *world) folder(who, name string) string {
	w.t.Helper()
	f, err := w.file(who).Folder(bg, name)
	w.ok(err)
	return f.UNID.String()
}

func TestSettings(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.follow("Settings")
	b.submit("on", "yes", "from", "2026-12-20", "until", "2026-12-31", "subject", "Away", "text", "Back in <January>.",
		"do", "vacation")
	b.want(200, "Saved", `value="2026-12-20"`, `value="2026-12-31"`, "Back in &lt;January&gt;.", `value="yes" checked`)
	p, err := w.dir.Names.Person(bg, w.people["alice"].ID)
	w.ok(err)
	if v := p.Vacation; !v.On || v.Text != "Back in <January>." || v.Until.Sub(v.From) != 12*24*time.Hour {
		t.Errorf("%+v", v)
	}
	b.submit("on", "yes", "from", "soon", "do", "vacation")
	b.want(400)
	b.get(pathSettings)
	b.send("alice@example.com", nil, "name", "Alice the Writer", "text", "Yours\nAlice", "do", "identity")
	b.want(200, "Saved", "Alice the Writer", "Yours\nAlice")
	b.get(pathCompose)
	b.want(200, "-- \nYours\nAlice")
	b.get(pathSettings)
	b.submit("lang", "de", "zone", "Asia/Shanghai", "do", "speech")
	b.want(200, "Gespeichert", "Eingang", `lang="de"`)
	b.submit("lang", "zh", "zone", "Nowhere/Here", "do", "speech")
	b.want(400)
	b.submit("lang", "zh", "zone", "", "do", "speech")
	b.want(200, "收件箱")
	b.follow("修改密码")
}

func TestQuota(t *testing.T) {
	t.Parallel()
	w := open(t, 20_000)
	b := w.signed("alice")
	b.want(200, "of 20 KB used")
	w.put("alice", "INBOX", simple("Big", strings.Repeat("x ", 9200)))
	b.get(Path)
	b.want(200, "nearly full")
	b.get(pathCompose)
	b.send("upload", map[string]string{"large.bin": strings.Repeat("y", 9000)}, "do", "save", "to", "bob@example.com",
		"text", "My words")
	b.want(507, "The mailbox is full", "My words", "bob@example.com")
}

func TestShared(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	secret := w.put("bob", "INBOX", simple("For bob", "private"))
	shown := w.put("bob", "Archive",
		"From: Eve <eve@far.example>\nSubject: Shown\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n"+
			"\n--b\n\nx\n--b\nContent-Disposition: attachment; filename=a.txt\n\nfile of bob\n--b--\n")
	bob := w.people["bob"].MailDatabase.String()
	a := w.signed("alice")
	refused := func(b string) {
		t.Helper()
		q := "?b=" + b
		for _, at := range []string{Path + q, pathRead + q + "&m=" + secret, pathPart + q + "&m=" + secret + "&s=1",
			pathSource + q + "&m=" + secret, pathFolders + q, pathCompose + q + "&re=" + secret} {
			a.get(at)
			a.want(404)
			a.lacks("private")
		}
	}
	refused(bob)
	// with the id in the user's own mail file
	for _, at := range []string{pathRead, pathPart + "?s=1", pathSource, pathCompose + "?kind=reply"} {
		for _, name := range []string{"m", "re", "draft"} {
			sep := "?"
			if strings.Contains(at, "?") {
				sep = "&"
			}
			a.get(at + sep + name + "=" + secret)
			a.lacks("private", "For bob")
			if a.status != 404 && a.status != 200 {
				t.Errorf("%s %d", a.at, a.status)
			}
		}
	}
	// A file in another person's mail file cannot be attached, whatever the form says.
	a.get(pathCompose)
	a.send("upload", map[string]string{}, "file", bob+":"+shown+":2", "do", "save", "text", "x")
	a.want(404)
	a.lacks("file of bob")

	w.ok(w.file("bob").SetAccess(bg, "Archive", w.people["alice"].ID,
		func(note.Rights) note.Rights { return note.Lookup | note.Read }, false))
	a.get(Path)
	a.want(200, "Shared mailboxes", "Bob Example")
	a.follow("Bob Example")
	a.want(200, "Shown")
	a.lacks("For bob", "Sent")
	a.follow("Shown")
	a.want(200, "Shown", "a.txt")
	a.follow("a.txt")
	a.want(200, "file of bob")
	a.get(pathRead + "?b=" + bob + "&m=" + secret)
	a.want(404)
	a.get(Path + "?b=" + bob)
	a.send("Shown", nil, "+m", a.pick("Shown"), "do", "flag")
	a.want(403, "do not have permission to do that")
	a.get(Path + "?b=" + bob)
	a.send("Shown", nil, "+m", a.pick("Shown"), "do", "delete")
	if a.status < 400 {
		t.Errorf("delete without the right: %d", a.status)
	}
	a.get(pathRead + "?b=" + bob + "&m=" + shown)
	a.follow("Forward")
	a.want(200, "a.txt", bob+":"+shown+":2")
	a.send("upload", map[string]string{}, "to", "carol@example.com", "do", "send", "file", bob+":"+shown+":2")
	a.want(200, "The message is sent")
	c := w.signed("carol")
	c.follow("Fwd: Shown")
	c.follow("a.txt")
	c.want(200, "file of bob")
}

func TestCSRF(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	id := w.put("alice", "INBOX", simple("Stays", "x"))
	b := w.signed("alice")
	for _, form := range []struct {
		at     string
		values url.Values
	}{
		{pathAct, url.Values{"do": {"delete"}, "m": {id}}}, {pathFolders, url.Values{"do": {"new"}, "name": {"Evil"}}},
		{pathSettings, url.Values{"do": {"vacation"}, "on": {"yes"}}},
		{pathCompose, url.Values{"do": {"send"}, "to": {"bob@example.com"}, "text": {"evil"}}},
		{pathSignOut, url.Values{}},
	} {
		for _, token := range []string{"", "wrong"} {
			form.values.Set("csrf", token)
			b.post(form.at, form.values, nil)
			b.want(403)
		}
		// The right token does not help a form on another site.
		b.get(Path)
		_, have := b.form("sign-out")
		form.values.Set("csrf", have.Get("csrf"))
		b.foreign = true
		b.post(form.at, form.values, nil)
		b.want(403)
		b.foreign = false
	}
	b.get(Path)
	b.want(200, "Stays")
	b.lacks("Evil")
	if c := b.cookies["doublet"]; c == nil || !c.HttpOnly || c.SameSite != 3 {
		t.Errorf("%+v", c)
	}
}

// TestLost checks that text is preserved if the session ends while the user writes.
func TestLost(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.get(pathCompose)
	_, form := b.form("upload")
	_, err := w.keep.EndAll(bg, w.people["alice"].ID, note.UNID{})
	w.ok(err)
	form.Set("do", "send")
	form.Set("to", "bob@example.com")
	form.Set("subject", "A \"long\" thought")
	form.Set("text", "First line\n\n<second> & last\n")
	b.post(pathCompose, form, map[string]string{})
	b.want(401, "What you wrote is kept")
	b.submit("user", "alice", "password", "wrong")
	b.want(401)
	b.submit("password", "secret-alice")
	b.want(200, "Here is what you wrote", "First line\n\n&lt;second&gt; &amp; last", "A &#34;long&#34; thought",
		"bob@example.com")
	b.send("upload", map[string]string{}, "do", "send")
	b.want(200, "The message is sent")
	bob := w.signed("bob")
	bob.follow("A &#34;long&#34; thought")
	bob.want(200, "&lt;second&gt; &amp; last")
	// A list without a valid session redirects to the sign-in and back.
	_, err = w.keep.EndAll(bg, w.people["bob"].ID, note.UNID{})
	w.ok(err)
	bob.get(pathFolders)
	bob.submit("user", "bob", "password", "secret-bob")
	bob.want(200, "Folders")
}

func TestTitles(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	long := strings.Repeat("ten chars ", 1000)
	w.put("alice", "INBOX", "From: \u202eמשה 🎲 <rtl@far.example>\nSubject: שלום עולם 🎉 \u202etxt.exe\n\nx\n")
	w.put("alice", "INBOX", "Subject: "+strings.ReplaceAll(long, "ten chars ", "ten\n chars ")+"\nX: y\n\nlong one\n")
	w.put("alice", "INBOX", "Subject: =?utf-8?q?"+strings.Repeat("=F0=9F=8E=B2", 10_000)+"?=\n\ndice\n")
	w.put("alice", "INBOX", "\n\n")
	b := w.signed("alice")
	b.want(200, "שלום עולם 🎉", "משה 🎲", "(no subject)", "(unknown sender)")
	b.follow("long one")
	b.want(200, strings.TrimSpace(long))
	b.get(Path)
	b.follow("dice")
	b.want(200, strings.Repeat("🎲", 2000))
	b.get(Path)
	b.follow("שלום")
	b.want(200, "rtl@far.example")
}

func TestLarge(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	var many strings.Builder
	many.WriteString("Subject: Many\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\ntext\n")
	for i := range 500 {
		fmt.Fprintf(&many,
			"--b\nContent-Type: image/png\nContent-Disposition: attachment; filename=\"file-%03d.png\"\n\nx%d\n", i, i)
	}
	many.WriteString("--b--\n")
	w.put("alice", "INBOX", many.String())
	w.put("alice", "INBOX", "Subject: Huge\n\nthe beginning\n"+strings.Repeat(strings.Repeat("0123456789 ", 7)+"\n",
		50<<20/78)+"the end\n")
	b := w.signed("alice")
	b.follow("Many")
	b.want(200, "500 attachments", "file-000.png", "file-019.png")
	for range 24 {
		b.follow("Next part")
	}
	b.want(200, "file-499.png")
	b.follow("file-499.png")
	b.want(200, "x499")
	b.get(Path)
	b.follow("Huge")
	b.want(200, "the beginning", "Part 1 of 200")
	b.follow("Next part")
	b.want(200, "Part 2 of 200")
	b.follow("Message source")
	if b.want(200); len(b.page) < 50<<20 || !strings.HasSuffix(b.page, "the end\r\n") {
		t.Errorf("%d bytes", len(b.page))
	}
}

// TestRestIsSaid opens messages that are longer than the parts of a page. Each part says that the rest is left out and
// leads to the whole. A message that fits says nothing of the kind.
func TestRestIsSaid(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	line := strings.Repeat("0123456789 ", 7)
	words := func(n int) string { return strings.Repeat(line+"\n", n/len(line)) }
	plain := "Subject: %s\n\n%sthe end\n"
	html := "Subject: %s\nMIME-Version: 1.0\nContent-Type: text/html\n\n<p>%s</p><p>the end</p>\n"
	// Two parts, of which the first alone fills the page.
	two := "Subject: %s\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n" +
		"--b\n\n%s\n--b\n\nthe end\n--b--\n"
	// Fewer bytes of text than the page holds, but more of tags than are read.
	tags := strings.Replace(html, "%s</p>", strings.Repeat("<!-- a comment -->", 300_000)+"%s</p>", 1)
	for _, m := range []struct {
		subject, form string
		bytes         int
		rest          bool
	}{
		{"plain 3 MB", plain, 3 << 20, true}, {"plain 5 MB", plain, 5 << 20, true},
		{"plain 2 MB", plain, 2 << 20, false},
		{"html 3 MB", html, 3 << 20, true}, {"html 2 MB", html, 2 << 20, false},
		{"two of 3 MB", two, 3 << 20, true}, {"two of 2 MB", two, 2 << 20, false},
		{"tags 5 MB", tags, 100, true},
	} {
		id := w.put("alice", "INBOX", fmt.Sprintf(m.form, m.subject, words(m.bytes)))
		b := w.signed("alice")
		for _, part := range []string{"", "&part=999"} {
			b.get(pathRead + "?m=" + id + part)
			if !m.rest {
				b.want(200, m.subject)
				b.lacks("Only the beginning")
				continue
			}
			b.want(200, m.subject, "Only the beginning",
				` <a href="/lite/source?m=`+id+`&amp;save=1">Download</a></p>`)
			b.lacks("the end")
		}
		if !m.rest {
			b.want(200, "the end")
			continue
		}
		b.follow("Download")
		if b.want(200); !strings.Contains(b.page, "the end") {
			t.Errorf("%s: the download is of %d bytes, without the end", m.subject, len(b.page))
		}
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	for _, at := range []string{
		pathRead, pathRead + "?m=x", pathRead + "?m=" + strings.Repeat("0", 32), pathPart + "?m=" +
			strings.Repeat("1", 32) + "&s=1", Path + "?f=x", Path + "?f=" + strings.Repeat("a", 32), Path + "?b=zz",
		pathCompose + "?draft=x", pathCompose + "?re=x", pathFolders + "?delete=x", Path + "nothing",
	} {
		b.get(at)
		b.want(404)
	}
	for _, at := range []string{Path + "?p=-5", Path + "?p=99999999999999999999", Path + "?said=<script>&n=x&undo=%00",
		pathCompose + "?mailto=" + url.QueryEscape("mailto:%zz?subject=%"),
		pathCompose + "?mailto=" + url.QueryEscape("mailto:a@b?subject=S%0D%0AX: y&body=%3Cscript%3E")} {
		b.get(at)
		b.want(200)
	}
	b.get(Path)
	_, have := b.form("sign-out")
	csrf := have.Get("csrf")
	for _, c := range []struct {
		at     string
		values url.Values
		status int
	}{
		{pathAct, url.Values{"do": {"explode"}, "m": {strings.Repeat("1", 32)}}, 400},
		{pathAct, url.Values{"do": {"delete"}, "m": {"x"}}, 404},
		{pathAct, url.Values{"do": {"undo"}, "undo": {"!!"}}, 400},
		{pathAct, url.Values{"do": {"undo"}, "undo": {"AAAA"}}, 400},
		{pathAct, url.Values{"do": {"move"}, "m": {strings.Repeat("1", 32)}, "to": {strings.Repeat("2", 32)}}, 404},
		{pathFolders, url.Values{"do": {"delete"}}, 404},
		{pathCompose, url.Values{"do": {"what"}}, 400}, {pathCompose, url.Values{"do": {"save"}, "text": {"nul\x00"}},
			400}, {pathCompose, url.Values{"do": {"save"}, "text": {"\xff"}}, 400},
		{pathSettings, url.Values{"do": {"identity"}, "id": {"x"}}, 404},
		{pathSettings, url.Values{"do": {"speech"}, "lang": {"xx"}}, 400},
		{pathCompose, url.Values{"do": {"save"}, "text": {strings.Repeat("x", maxForm+1)}}, 413},
	} {
		c.values.Set("csrf", csrf)
		b.post(c.at, c.values, nil)
		if b.status != c.status {
			t.Errorf("%s %.60v: %d, want %d", c.at, c.values, b.status, c.status)
		}
	}
}

// TestSmall checks that a page stays under 30 KB for any names and mail (see safe).
func TestSmall(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	f := w.file("alice")
	for i := range 60 {
		_, err := f.Create(bg, fmt.Sprintf("%02d ", i)+strings.Repeat(`"<&>🎲 `, 20), "")
		w.ok(err)
	}
	nasty := strings.Repeat(`"<'&>🎲 `, 200)
	people := ""
	for i := range 100 {
		people += fmt.Sprintf("%s <%d%s@far.example>,\n ", mime.QEncoding.Encode("utf-8", nasty[:60]), i,
			strings.Repeat("a+b", 30))
	}
	id := ""
	for range 30 {
		id = w.put("alice", "INBOX", "From: "+people+"eve@far.example\nTo: "+people+"x@far.example\nCc: "+people+
			"y@far.example\nSubject: "+strings.Repeat(`'"<&`, 2500)+
			"\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\n"+strings.Repeat(nasty+"\n", 30))
	}
	b := w.signed("alice")
	for _, at := range []string{Path, Path + "?p=2", Path + "?q=far", pathRead + "?m=" + id,
		pathRead + "?part=2&m=" + id, pathFolders, pathSettings, pathCompose} {
		b.get(at)
		b.want(200)
		t.Logf("%s: %d bytes", at, len(b.page))
	}
}

// TestStyle checks that the style sheet has the tokens of the full client, light and dark, and its typeface.
func TestStyle(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.browser()
	b.get(w.lite.styleName)
	b.want(200, "@media (prefers-color-scheme: dark) { :root {", "--accent: #0b6152", "--accent: #5fcbb0",
		`src: url("/assets/`)
	b.lacks("@import", "data-theme", "https:")
	if h := b.header; h.Get("Content-Type") != "text/css; charset=utf-8" ||
		!strings.Contains(h.Get("Cache-Control"), "immutable") {
		t.Errorf("%v", h)
	}
}

// TestTwice checks that a message sent to oneself too is listed once in its thread: the copy in the folder being read.
func TestTwice(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	raw := "From: alice@example.com\nTo: team@example.com\nSubject: To all of us\nMessage-ID: <all@example.com>\n\n" +
		"words that are said to everybody in a long line of text, which has to end somewhere and not insideofa word\n"
	w.put("alice", "Sent", raw, `\Seen`)
	came := w.put("alice", "INBOX", raw)
	b := w.signed("alice")
	b.want(200, "somewhere and not…")
	b.follow("To all of us")
	b.lacks(`class="thread"`)
	w.put("alice", "INBOX", "From: bob@example.com\nSubject: Re: To all of us\nMessage-ID: <re@example.com>\n"+
		"References: <all@example.com>\n\nyes\n")
	b.get(Path)
	b.follow("Re: To all of us")
	b.want(200, "conversation of 2", came)
	b.follow("Sent")
	b.follow("To all of us")
	b.want(200, "conversation of 2")
	b.lacks("m=" + came)
}

// TestFoldersWithoutUse checks that the standard folders serve their use by name if a client created them without a
// special use.
func TestFoldersWithoutUse(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	for _, name := range mailbox.Uses[1:] {
		w.ok(w.file("alice").Delete(bg, name))
		_, err := w.file("alice").Create(bg, name, "")
		w.ok(err)
	}
	w.put("alice", "INBOX", simple("M0", "x"))
	b := w.signed("alice")
	for _, c := range []struct{ do, folder, said string }{
		{"archive", "Archive", "1 archived"}, {"junk", "Junk", "1 moved to Junk"},
		{"delete", "Trash", "1 moved to Trash"},
		{"delete", "", "1 deleted for good"},
	} {
		b.send("M0", nil, "+m", b.pick("M0"), "do", c.do)
		b.want(200, c.said)
		if c.folder != "" {
			b.follow(c.folder)
		}
	}
	b.get(Path)
	b.follow("Write")
	b.send("upload", nil, "to", "bob@example.com", "subject", "kept", "text", "x", "do", "send")
	b.want(200, "The message is sent")
	if raw, _ := w.last("alice", "Sent"); raw == nil {
		t.Error("the message is not in Sent")
	}
}
