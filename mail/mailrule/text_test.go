package mailrule_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"doublet/mail/mailrule"
	"doublet/wire/mime"
)

const notice = "Confidential – <Müller & Söhne>\nSecond line"

// texts returns the decoded text parts of a message, plain ones first as they are, HTML ones as readers see them.
func texts(raw []byte) (out []string) {
	var walk func(p *mime.Part)
	walk = func(p *mime.Part) {
		if p.Type == "text" && !p.IsMessage() {
			text, _ := mime.DecodeText(p, raw, 1<<20)
			out = append(out, p.Subtype+": "+text)
		}
		for _, c := range p.Children {
			walk(c)
		}
	}
	walk(mime.Parse(raw, mime.Limits{}))
	return out
}

func lines(s string) []byte { return []byte(strings.ReplaceAll(s, "\n", "\r\n")) }

// TestAddText puts a text into messages of each form that mail programs send, and compares what readers see.
func TestAddText(t *testing.T) {
	t.Parallel()
	const ended = "\n\n" + notice + "\n"
	const block = "<div>Confidential – &lt;Müller &amp; Söhne&gt;<br>\nSecond line</div>"
	for name, x := range map[string]struct {
		in   string
		want []string
	}{
		"no MIME": {"Subject: a\n\nHello.\n", []string{"plain: Hello." + ended}},
		"latin1": {"Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\n" +
			"Gr=FC=DFe\n", []string{"plain: Grüße" + ended}},
		"base64": {"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n" +
			"SGVsbG8sIHfDtnJsZC4K\n", []string{"plain: Hello, wörld." + ended}},
		"html": {"Content-Type: text/html; charset=utf-8\n\n<html><BODY>Hi</BODY></html>\n",
			[]string{"html: <html><BODY>Hi" + block + "\n</BODY></html>\n"}},
		"alternative": {"Content-Type: multipart/alternative; boundary=x\n\n--x\n\nHi\n--x\n" +
			"Content-Type: text/html\n\n<b>Hi</b>\n--x--\n",
			[]string{"plain: Hi\n\n" + notice, "html: <b>Hi</b>\n" + block}},
		"mixed": {"Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: multipart/related; boundary=y\n\n" +
			"--y\nContent-Type: text/html\n\n<p>\n--y\nContent-Type: image/png\n\nPNG\n--y--\n--x\n" +
			"Content-Type: text/plain\nContent-Disposition: attachment\n\nnotes\n--x--\n",
			[]string{"html: <p>\n" + block, "plain: notes"}},
		"boundary": {"Content-Type: multipart/mixed; boundary=x\n\n--x\n" +
			"Content-Transfer-Encoding: quoted-printable\n\na\n=2D-x--\nb\n--x--\n",
			[]string{"plain: a\n--x--\nb\n\n" + notice}},
	} {
		raw := lines(x.in)
		before := bytes.Clone(raw)
		got, err := mailrule.AddText(raw, notice)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !bytes.Equal(raw, before) {
			t.Errorf("%s: the message itself was changed", name)
		}
		have, want := strings.Join(texts(got), "|"), string(lines(strings.Join(x.want, "|")))
		if have != want {
			t.Errorf("%s:\n%q\nwant\n%q\n%s", name, have, want, got)
		}
		for _, l := range strings.Split(string(got), "\r\n") {
			if len(l) > 998 || strings.ContainsFunc(l, func(r rune) bool { return r >= 0x80 || r == '\n' }) {
				t.Errorf("%s: line %.100q", name, l)
			}
		}
	}
}

// TestAddTextFlowed checks that no line of the text looks quoted or joins the next one.
//
// RFC 3676 §4.4.
func TestAddTextFlowed(t *testing.T) {
	t.Parallel()
	got, err := mailrule.AddText(lines("Content-Type: text/plain; format=flowed; delsp=yes\n\nHi \nthere\n"),
		"From here \n> quoted\n indented")
	if err != nil || !bytes.HasSuffix(got, lines("Hi \nthere\n\n From here\n > quoted\n  indented\n")) ||
		!bytes.Contains(got, []byte("format=flowed; delsp=yes")) {
		t.Errorf("%v %q", err, got)
	}
}

// TestAddTextLeft checks that messages stay as they are which the text would break.
func TestAddTextLeft(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		want error
		in   string
	}{
		{mailrule.ErrSigned, "DKIM-Signature: v=1\nSubject: a\n\nHi\n"},
		{mailrule.ErrSigned, "ARC-Seal: i=1\n\nHi\n"},
		{mailrule.ErrSigned, "Content-Type: multipart/signed; boundary=x\n\n" +
			"--x\n\nHi\n--x\nContent-Type: a/b\n\n\n--x--\n"},
		{mailrule.ErrSigned, "Content-Type: multipart/mixed; boundary=x\n\n" +
			"--x\nContent-Type: multipart/signed; boundary=y\n\n--y\n\nHi\n--y--\n--x--\n"},
		{mailrule.ErrSealed, "Content-Type: application/pkcs7-mime; smime-type=signed-data\n\nAA\n"},
		{mailrule.ErrSealed, "Content-Type: multipart/encrypted; boundary=x\n\n--x\n\nHi\n--x--\n"},
		{mailrule.ErrSealed, "Subject: a\n\n-----BEGIN PGP MESSAGE-----\n\nAA\n"},
		{mailrule.ErrSigned, "Subject: a\n\n-----BEGIN PGP SIGNED MESSAGE-----\n\nAA\n"},
		{mailrule.ErrNoText, "Content-Type: multipart/alternative; boundary=x\n\n" + strings.Repeat("--x\n\nHi\n", 21) +
			"--x--\n"},
		{mailrule.ErrNoText, "Content-Type: image/png\n\nAA\n"},
		{mailrule.ErrNoText, "Content-Type: text/plain; charset=klingon\n\nAA\n"},
		{mailrule.ErrNoText, "Content-Type: text/plain\nContent-Transfer-Encoding: x-uuencode\n\nAA\n"},
		{mailrule.ErrNoText, "Content-Type: multipart/report; boundary=x\n\n--x\n\nHi\n--x--\n"},
	} {
		if got, err := mailrule.AddText(lines(x.in), notice); !errors.Is(err, x.want) || got != nil {
			t.Errorf("%q: %v, want %v", x.in, err, x.want)
		}
	}
}

// FuzzAddText checks that a text is put into arbitrary messages whole, that it can be read there, and that the other
// parts stay.
func FuzzAddText(f *testing.F) {
	for _, s := range []string{"Subject: a\n\nHello.\n",
		"Content-Type: multipart/alternative; boundary=x\n\n--x\n\nHi\n--x\nContent-Type: text/html\n\n<b>Hi</b>\n" +
			"--x--\n",
		"Content-Type: multipart/mixed; boundary=x\n\n--x\n\nHi\n--x\nContent-Type: image/png\n\nPNG\n--x--\nafter\n",
		"no header", "", "\n", "A: b", "Content-Type: text/plain; charset=utf-16\n\nabc"} {
		f.Add(lines(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = mime.AppendCRLF(nil, raw)
		out, err := mailrule.AddText(raw, notice)
		if err != nil {
			return
		}
		before, after := texts(raw), texts(out)
		if len(before) == 0 { // a header without a body has no part of type text
			return
		}
		if len(before) != len(after) {
			t.Fatalf("%d texts, then %d: %q\n%q", len(before), len(after), raw, out)
		}
		with := 0
		for i := range after {
			if after[i] == before[i] {
				continue
			}
			if with++; !strings.Contains(after[i], "Second line") {
				t.Fatalf("%q lost the text: %q", after[i], out)
			}
		}
		if with == 0 {
			t.Fatalf("no text in %q", out)
		}
	})
}
