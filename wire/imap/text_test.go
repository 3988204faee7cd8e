package imap

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"doublet/wire/mime"
)

func fullEnvelope() *mime.Envelope {
	a := []mime.Address{{Name: `Terry "T" Gray`, Mailbox: "gray", Host: "cac.example"}}
	return &mime.Envelope{
		Date: "Wed, 17 Jul 1996 02:23:25 -0700 (PDT)", Subject: "größer", MessageID: "<1@x>",
		Has:  mime.HasDate | mime.HasSubject | mime.HasMessageID | mime.HasInReplyTo,
		From: a, Sender: a, ReplyTo: a,
		To: []mime.Address{{Mailbox: "team", Group: true}, {Mailbox: "a", Host: "b"}, {Group: true},
			{Mailbox: "nohost"}, {Mailbox: "far", Host: "b", Route: "@x,@y"}},
	}
}

const envelopeText = `("Wed, 17 Jul 1996 02:23:25 -0700 (PDT)" {8}` + "\r\ngrößer" +
	` (("Terry \"T\" Gray" NIL "gray" "cac.example")) (("Terry \"T\" Gray" NIL "gray" "cac.example")) (("Terry ` +
	`\"T\" Gray" NIL "gray" "cac.example"))` +
	` ((NIL NIL "team" NIL)(NIL NIL "a" "b")(NIL NIL NIL NIL)(NIL NIL "nohost" "")(NIL "@x,@y" "far" "b")) NIL ` +
	`NIL "" "<1@x>")`

func TestEnvelope(t *testing.T) {
	t.Parallel()
	e := fullEnvelope()
	text := AppendEnvelope(nil, e)
	if string(text) != envelopeText {
		t.Errorf("got  %s\nwant %s", text, envelopeText)
	}
	if got, err := ParseEnvelope(text); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, e)
	}
	e.Sender, e.ReplyTo = nil, nil
	if got := AppendEnvelope(nil, e); string(got) != envelopeText {
		t.Errorf("Sender and Reply-To are not those of From: %s", got)
	}
	if got := string(AppendEnvelope(nil, nil)); got != "(NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL)" {
		t.Error(got)
	}
	for _, bad := range []string{"", "(", "()", envelopeText[:100], envelopeText + " ",
		"(NIL NIL NIL NIL NIL NIL NIL NIL NIL {99}\r\nx)"} {
		if _, err := ParseEnvelope([]byte(bad)); err == nil {
			t.Errorf("taken: %q", bad)
		}
	}
}

func structure() *mime.Part {
	text := &mime.Part{Type: "text", Subtype: "plain", Params: []mime.Param{{Name: "charset", Value: "utf-8"},
		{Name: "name", Value: "é"}},
		ID: "<i>", Description: `d"`, Encoding: "quoted-printable", BodyEnd: 100, Lines: 7, MD5: "m",
		Disposition:       "attachment",
		DispositionParams: []mime.Param{{Name: "filename", Value: "a.txt"}}, Language: []string{"de", "en"},
		Location: "l"}
	inner := &mime.Part{Type: "text", Subtype: "html", Encoding: "7bit", BodyEnd: 3, Lines: 1, Envelope: fullEnvelope()}
	msg := &mime.Part{Type: "message", Subtype: "rfc822", Encoding: "8bit", BodyEnd: 50, Lines: 3,
		Children: []*mime.Part{inner}, Language: []string{"fr"}}
	img := &mime.Part{Type: "image", Subtype: "png", Encoding: "base64", BodyEnd: 1 << 20}
	alt := &mime.Part{Type: "multipart", Subtype: "alternative", Children: []*mime.Part{text, img}}
	return &mime.Part{Type: "multipart", Subtype: "mixed", Params: []mime.Param{{Name: "boundary", Value: "b"}},
		Children: []*mime.Part{alt, msg}}
}

const plainBody = `((("text" "plain" ("charset" "utf-8" "name" {2}` + "\r\né" +
	`) "<i>" "d\"" "quoted-printable" 100 7)("image" "png" NIL NIL NIL "base64" 1048576) "alternative")` +
	`("message" "rfc822" NIL NIL NIL "8bit" 50 ` + envelopeText + ` ("text" "html" NIL NIL NIL "7bit" 3 1) 3) "mixed")`

func TestBodyStructure(t *testing.T) {
	t.Parallel()
	p := structure()
	if got := string(AppendBody(nil, p)); got != plainBody {
		t.Errorf("got  %s\nwant %s", got, plainBody)
	}
	text := AppendBodyStructure(nil, p)
	got, err := ParseBodyStructure(text)
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%v\n%s\n%s", err, text, AppendBodyStructure(nil, got))
	}
	if got, err := AppendBodyFromStructure([]byte("x"), text); err != nil || string(got) != "x"+plainBody {
		t.Errorf("%v\ngot  %s\nwant x%s", err, got, plainBody)
	}
	for i := range text {
		if b, err := AppendBodyFromStructure(nil, text[:i]); err == nil {
			t.Fatalf("cut text taken: %q gives %q", text[:i], b)
		}
		if _, err := ParseBodyStructure(text[:i]); err == nil {
			t.Fatalf("cut text taken: %q", text[:i])
		}
	}
	empty := &mime.Part{Type: "multipart", Subtype: "mixed"}
	if b := AppendBodyStructure(nil,
		empty); string(b) != `(("text" "plain" NIL NIL NIL "7bit" 0 0 NIL NIL NIL NIL) "mixed" NIL NIL NIL NIL)` {
		t.Errorf("%s", b)
	}
	cut := &mime.Part{Type: "message", Subtype: "rfc822", Encoding: "7bit"}
	if b := AppendBody(nil, cut); string(b) != `("application" "octet-stream" NIL NIL NIL "7bit" 0)` {
		t.Errorf("%s", b)
	}
}

func TestDeepBodyStructure(t *testing.T) {
	t.Parallel()
	deep := bytes.Repeat([]byte("("), 100000)
	if _, err := ParseBodyStructure(deep); err == nil {
		t.Error("taken")
	}
	if _, err := AppendBodyFromStructure(nil, deep); err == nil {
		t.Error("taken")
	}
}

func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(envelopeText))
	f.Add([]byte(plainBody))
	f.Add(AppendBodyStructure(nil, structure()))
	f.Add([]byte(`(NIL "x" NIL NIL NIL NIL NIL NIL NIL NIL)`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if e, err := ParseEnvelope(text); err == nil {
			once := AppendEnvelope(nil, e)
			again, err := ParseEnvelope(once)
			if err != nil {
				t.Fatalf("%q printed as %q: %v", text, once, err)
			}
			if twice := AppendEnvelope(nil, again); !bytes.Equal(once, twice) {
				t.Fatalf("%q and %q", once, twice)
			}
		}
		if p, err := ParseBodyStructure(text); err == nil {
			once := AppendBodyStructure(nil, p)
			again, err := ParseBodyStructure(once)
			if err != nil {
				t.Fatalf("%q printed as %q: %v", text, once, err)
			}
			if twice := AppendBodyStructure(nil, again); !bytes.Equal(once, twice) {
				t.Fatalf("%q and %q", once, twice)
			}
			body, err := AppendBodyFromStructure(nil, once)
			if err != nil || !bytes.Equal(body, AppendBody(nil, p)) {
				t.Fatalf("%v: %q gives %q, not %q", err, once, body, AppendBody(nil, p))
			}
		}
		AppendBodyFromStructure(nil, text)
	})
}

func BenchmarkAppendEnvelope(b *testing.B) {
	e := fullEnvelope()
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendEnvelope(dst[:0], e)
	}
}

func BenchmarkAppendBodyFromStructure(b *testing.B) {
	text := AppendBodyStructure(nil, structure())
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = AppendBodyFromStructure(dst[:0], text)
	}
}

// TestNonSync checks that a command whose literals were read is read again without a continuation request, with the
// same meaning, and that a message that is only announced stays as it is.
func TestNonSync(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"a NOOP", "a NOOP"},
		{"a LOGIN {3}\r\nbob {4+}\r\n{1}x", "a LOGIN {3+}\r\nbob {4+}\r\n{1}x"},
		{"a STATUS {2}\r\n\r\n (UIDNEXT)", "a STATUS {2+}\r\n\r\n (UIDNEXT)"},
		{"a APPEND {5}\r\nINBOX {310}", "a APPEND {5+}\r\nINBOX {310}"},
		{"a APPEND INBOX ~{310+}", "a APPEND INBOX ~{310+}"},
		{"a SEARCH SUBJECT {0}\r\n", "a SEARCH SUBJECT {0+}\r\n"},
	} {
		if got := string(AppendNonSync(nil, []byte(c.text))); got != c.want {
			t.Errorf("%q: %q", c.text, got)
		}
	}
	text := "a SETMETADATA INBOX (/private/x ~{5}\r\n\x00{9}\r {2}\r\n)\r\n)"
	var invited int
	r := NewReader(strings.NewReader(string(AppendNonSync(nil, []byte("b LIST {2}\r\n\"\" {1}\r\n*")))+"\r\n"),
		DefaultLimits())
	r.Continue = func() error { invited++; return nil }
	if cmd, err := r.ReadCommand(); err != nil || invited != 0 || cmd.Text != "b LIST {2+}\r\n\"\" {1+}\r\n*" {
		t.Errorf("%+v, %v, invited %d times", cmd, err, invited)
	}
	if got := string(AppendNonSync(nil, []byte(text))); got != "a SETMETADATA INBOX (/private/x ~{5+}\r\n"+
		"\x00{9}\r {2+}\r\n)\r\n)" {
		t.Errorf("%q", got)
	}
}
