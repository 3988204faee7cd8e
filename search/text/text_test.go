package text

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"doublet/search/words"
	"doublet/wire/mime"
)

func lines(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

// shown returns a document as one text.
func shown(d *Document) string {
	names := []string{"body", "quoted", "attached", "subject", "from", "to", "cc", "bcc", "header", "filename"}
	var b strings.Builder
	for _, s := range d.Stretches {
		for i, n := range names {
			if s.Field == 1<<i {
				fmt.Fprintf(&b, "%s %q\n", n, s.Text)
			}
		}
	}
	if d.Skipped != (Skipped{}) {
		fmt.Fprintf(&b, "%+v\n", d.Skipped)
	}
	if d.Later > 0 {
		fmt.Fprintf(&b, "later %d\n", d.Later)
	}
	return b.String()
}

func TestMessage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, raw, want string }{
		{"header", `From: =?utf-8?q?J=C3=BCrgen?= <j@example.com>
To: "Doe, Ann" <ann@example.org>, team@example.org
Cc: c@example.net
Subject: =?iso-8859-1?q?Gr=FC=DFe?=
Date: Mon, 5 Jan 2026 09:00:00 +0000
Received: from a by b
DKIM-Signature: v=1; b=abcdef
X-MS-Exchange-Thing: 1
Message-ID: <1@example.com>
X-Topic: cats

`, `from "Jürgen <j@example.com>"
to "Doe, Ann <ann@example.org>"
to " <team@example.org>"
`},
		{"plain and quoted", `Subject: Re: x

My answer
> their question
> goes on

Mine again
>
last
`, `body "My answer\r\n"
quoted "> their question\r\n> goes on\r\n\r\n"
body "Mine again\r\n"
quoted ">\r\n"
body "last\r\n"
`},
		{"PGP", `Subject: x

before
-----BEGIN PGP MESSAGE-----

hQEMA8secretsecret
=abcd
-----END PGP MESSAGE-----
after
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

clear
-----BEGIN PGP SIGNATURE-----
iQIzsignature
-----END PGP SIGNATURE-----
`, `body "before\r\n"
body "after\r\n"
body "Hash: SHA256\r\n\r\nclear\r\n"
{Encrypted:1 Broken:0 Beyond:0}
`},
		{"armour without end", "Subject: x\n\n-----BEGIN PGP MESSAGE-----\nabc\n", `body "abc\r\n"
{Encrypted:1 Broken:0 Beyond:0}
`},
		{"html", `Subject: x
Content-Type: text/html; charset=utf-8

<html><head><title>t</title><style>p { color: red }</style></head><body>
<p>Hello&nbsp;<b>wo</b>rld &amp; all</p><script>var x = "secret";</script><div>block</div><td>cell</td><td>two</td>
<img src="a.png" alt="a picture"><!-- comment --><blockquote>quoted <i>here</i></blockquote>after
<div class="gmail_quote x">more <div>quoted</div></div><noscript>no</noscript>end`,
			`body "Hello world & all\nblock\ncell two a picture"
quoted "quoted here"
body "after"
quoted "more\nquoted"
body "end"
`},
		{"style without end",
			"Content-Type: text/html\n\n<p>before<style>p{}<p>after <b>wo</b>rld", `body "before\np{}\nafter world"
`},
		{"kin without end", "Content-Type: " +
			"text/html\n\na<script>b<title>c<noscript>d<iframe>e<noembed>f<noframes>g<!-- h <b>i</b> " +
			"<a href='x", `body "a\nb\nc\nd\ne\nf\ng h i <a href='x"
`},
		{"hidden and not", "Content-Type: text/html\n\na<style/>b</style>c<textarea>d<b>e", "body \"a\\nc\\nd<b>e\"\n"},
		{"endless", "Content-Type: text/html\n\n" + strings.Repeat("<!--", 100) + " found",
			`body "` + strings.Repeat("<!--", 100-maxAgain-1) + " found\"\n"},
		{"alternative", `Content-Type: multipart/alternative; boundary=b

--b

plain
--b
Content-Type: text/html

<p>rich
--b--
`, "body \"plain\"\nbody \"rich\"\n"},
		{"attachments", `Content-Type: multipart/mixed; boundary=b

--b

body
--b
Content-Type: text/plain; name=notes.txt
Content-Disposition: attachment

attached text
--b
Content-Type: text/calendar

BEGIN:VCALENDAR
--b
Content-Type: application/pdf; name=a.pdf
Content-Transfer-Encoding: base64

JVBERi0=
--b
Content-Type: image/png; name=pic.png

x
--b
Content-Type: application/json

{"key": "value"}
--b--
`, `body "body"
filename "notes.txt"
attached "attached text"
body "BEGIN:VCALENDAR"
filename "a.pdf"
filename "pic.png"
attached "{\"key\": \"value\"}"
later 1
`},
		{"enclosed", `Content-Type: multipart/mixed; boundary=b

--b
Content-Type: message/rfc822; name=fwd.eml

From: inner@example.com
Subject: inner subject
Received: x

inner body
--b--
`, `filename "fwd.eml"
body "inner@example.com\ninner subject\n"
body "inner body"
`},
		{"encrypted", `Content-Type: multipart/encrypted; boundary=b

--b
Content-Type: application/pgp-encrypted

Version: 1
--b--
`, "{Encrypted:1 Broken:0 Beyond:0}\n"},
		{"S/MIME", "Content-Type: application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\n\nx\n",
			"{Encrypted:1 Broken:0 Beyond:0}\n"},
		{"flowed Japanese", "Content-Type: text/plain; charset=utf-8\n\n四半期\n報告書\n", "body \"四半期\\r\\n報告書\\r\\n\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			for l := range strings.Lines(shown(Message([]byte(lines(c.raw)), Limits{}))) {
				if c.name == "header" || !strings.HasPrefix(l, "subject") && !strings.HasPrefix(l, "header") {
					got.WriteString(l)
				}
			}
			want := c.want
			if c.name == "header" {
				want += "cc \" <c@example.net>\"\n"
				want = strings.ReplaceAll(want, `" <`, `"<`)
				want += `header "Jürgen <j@example.com>"
header "\"Doe, Ann\" <ann@example.org>, team@example.org"
header "c@example.net"
subject "Grüße"
header "<1@example.com>"
header "cats"
`
			}
			if got.String() != want {
				t.Errorf("got\n%swant\n%s", got.String(), want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	l := Limits{Part: 100, Message: 250}
	raw := lines("Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n" + strings.Repeat("ä", 100) +
		"\n--b\n\n" + strings.Repeat("y", 100) + "\n--b\n\n" + strings.Repeat("z", 100) + "\n--b--\n")
	d := Message([]byte(raw), l)
	sum := 0
	for _, s := range d.Stretches {
		if sum += len(s.Text); !utf8.ValidString(s.Text) || len(s.Text) > 100 {
			t.Errorf("%q", s.Text)
		}
	}
	if sum > 250 || d.Beyond == 0 {
		t.Errorf("%d bytes, %+v", sum, d.Skipped)
	}
	long := Message([]byte("Subject: "+strings.Repeat("long ", 2000)+"\r\n\r\n"), Limits{})
	if !long.Clipped {
		t.Error("a long field is not told of")
	}
}

// TestSparse checks that a message read without its large parts has the same text as the whole message.
func TestSparse(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	big := func(n int) string { return strings.Repeat("QUJD", n/4) }
	for range 200 {
		var b strings.Builder
		b.WriteString("Subject: sparse\nContent-Type: multipart/mixed; boundary=b\n\n")
		for range rng.IntN(6) {
			size := []int{0, 10, Large - 4, Large, Large + 400, 100_000}[rng.IntN(6)]
			switch rng.IntN(5) {
			case 0:
				fmt.Fprintf(&b, "--b\n\ntext %s\n", strings.Repeat("word ", size/5))
			case 1:
				fmt.Fprintf(&b,
					"--b\nContent-Type: application/pdf; name=x.pdf\nContent-Transfer-Encoding: base64\n\n%s\n",
					big(size))
			case 2:
				fmt.Fprintf(&b, "--b\nContent-Type: application/json\n\n%s\n", strings.Repeat("{} ", size/3))
			case 3:
				fmt.Fprintf(&b, "--b\nContent-Type: message/rfc822\n\nSubject: in\nContent-Type: image/png\n\n%s\n",
					big(size))
			default:
				fmt.Fprintf(&b, "--b\nContent-Type: image/jpeg; name=y\n\n%s\n", big(size))
			}
		}
		b.WriteString("--b--\n")
		raw := []byte(lines(b.String()))
		read := 0
		s, err := ReadSparse(int64(len(raw)), mime.AppendIndex(nil, mime.Parse(raw, mime.DefaultLimits)),
			func(dst []byte, off, n int64) ([]byte, error) {
				read += int(n)
				return append(dst, raw[off:off+n]...), nil
			})
		if err != nil {
			t.Fatal(err)
		}
		got, want := s.Text(Limits{}), Message(raw, Limits{})
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got\n%swant\n%s", shown(got), shown(want))
		}
		if s.cut != nil && read >= len(raw) {
			t.Errorf("%d of %d bytes were read", read, len(raw))
		}
	}
}

// TestHead checks that Head returns the same header fields as Message.
func TestHead(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"From: a@b\nSubject: x\nSubject: y\nX: z\n\nbody", "\n\nbody", "no header at all",
		"Subject: x", "From: a@b\n"} {
		b := []byte(lines(raw))
		whole := Message(b, Limits{})
		head := Head(b[:mime.HeaderEnd(b)], Limits{})
		var want []Stretch
		for _, s := range whole.Stretches {
			if s.Field&HeaderOnly != 0 {
				want = append(want, s)
			}
		}
		if !reflect.DeepEqual(head.Stretches, want) {
			t.Errorf("%q: %v, want %v", raw, head.Stretches, want)
		}
	}
}

func TestUnread(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Received": true, "DKIM-Signature": true, "ARC-Seal": true, "X-MS-Exchange-Organization": true,
		"content-type": true, "Date": true, "AUTHENTICATION-RESULTS": true, "Authentication-Results-2": false,
		"X-Microsoft-" + strings.Repeat("Long", 20): true, strings.Repeat("X", 80): false,
		"Subject": false, "X-Mailer": false, "Message-ID": false, "List-Id": false, "": false, "X-": false,
	} {
		if Unread(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func FuzzMessage(f *testing.F) {
	names, _ := filepath.Glob("../../wire/mime/testdata/*.eml")
	for _, n := range names {
		if b, err := os.ReadFile(n); err == nil {
			f.Add(b)
		}
	}
	f.Add([]byte("Content-Type: text/html\r\n\r\n<div class=gmail_quote><blockquote></div>x<style/>y</blockquote><td"))
	f.Add([]byte("Subject: a\r\n\r\n> x\r\n-----BEGIN PGP MESSAGE-----\r\n-----END "))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := Limits{Part: 5000, Message: 10_000}
		d := Whole(b, l)
		sum := 0
		for _, s := range d.Stretches {
			if sum += len(s.Text); !utf8.ValidString(s.Text) || words.Normal(s.Text) != s.Text {
				t.Fatalf("%x %q", s.Field, s.Text)
			}
		}
		if sum > 3*l.Message {
			t.Fatalf("%d bytes", sum)
		}
	})
}

func FuzzHTML(f *testing.F) {
	for _, s := range []string{"<p>a<b>b</b><blockquote>c</blockquote>", "<style><p>", "<!--", "&#x1F600;&amp",
		"<div class='gmail_quote'></div></div>", "<img alt=x><input/>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := reader{l: Limits{Part: 1000}.filled(), d: &Document{}, left: 5000}
		r.html(s, Body)
		for _, x := range r.d.Stretches {
			if len(x.Text) > 3100 || !utf8.ValidString(x.Text) {
				t.Fatalf("%q", x.Text)
			}
		}
	})
}
