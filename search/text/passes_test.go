package text

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"doublet/search/words"
)

// beginning returns a test for a word that begins with w.
func beginning(f Field, w string) *Test {
	return &Test{Fields: f, Word: w, In: func(s string) bool {
		for sc := words.Scan(s); sc.Next(); {
			if strings.HasPrefix(string(sc.Term), w) {
				return true
			}
		}
		return false
	}}
}

// samePasses compares Passes with a look at all of the message.
func samePasses(t *testing.T, raw []byte, test *Test) bool {
	t.Helper()
	d := Message(raw, Limits{})
	want := false
	for _, s := range d.Stretches {
		want = want || s.Field&test.Fields != 0 && test.In(s.Text)
	}
	if got, later := Passes(raw, Limits{}, test); got != want || !got && later != d.Later {
		t.Errorf("%q in %x of %q: %v with %d attachments, want %v with %d; %v", test.Word, test.Fields, raw, got,
			later, want, d.Later, d.Stretches)
	}
	return want
}

// TestPasses compares Passes with Message, on messages in which tags, references, encodings and limits divide words.
func TestPasses(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 7))
	pieces := strings.Fields(`rep rep report Report REPORT reporter ort port o r t <b> </b> <i> <p> </td> <td> <br/> <br
		<!-- --> <!-- x --> <style> </style> <title> </title> <blockquote> </blockquote> <img&alt="rep&ort"> <div> < >
		& ; &nbsp; &amp; &shy; &zwj; &#173; &#114; &#x72; &reg;ort &copyrep &copy=rep &rep; &rep &lt;rep &rsquo;
		&#8217;s &eacute;
		&not &notit; &fjlig; &#768; &NoBreak; x&#65279;y é ü 東京 -----BEGIN > >rep = =72 =3C r=65port`)
	body := func() string {
		var b strings.Builder
		for range 1 + rng.IntN(9) {
			p := pieces[rng.IntN(len(pieces))]
			if strings.HasPrefix(p, "<img") {
				p = strings.Replace(p, "&", " ", 1)
			}
			b.WriteString(p)
			b.WriteString([]string{"", "", "", " ", "\r\n", "\x00", "\t", "\u00ad"}[rng.IntN(8)])
		}
		return b.String()
	}
	hits := 0
	for range 20_000 {
		kind := []string{"plain", "html", "html"}[rng.IntN(3)]
		how := []string{"7bit", "8bit", "quoted-printable"}[rng.IntN(3)]
		charset := []string{"us-ascii", "utf-8", "iso-8859-1", "utf-7"}[rng.IntN(4)]
		raw := fmt.Sprintf("From: a@example.com\r\nSubject: %s\r\nContent-Type: text/%s; charset=%s\r\n"+
			"Content-Transfer-Encoding: %s\r\n\r\n%s",
			[]string{"x", "x", "x", "report"}[rng.IntN(4)], kind, charset, how, body())
		if rng.IntN(6) == 0 {
			raw = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" + raw +
				"\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n" + raw +
				"\r\n--b\r\nContent-Type: application/pdf; name=a.pdf\r\n\r\nx\r\n--b--\r\n"
		}
		word := []string{"report", "rep", "reporter", "r", "ort"}[rng.IntN(5)]
		if samePasses(t, []byte(raw), beginning([]Field{Any, Content, Body, Quoted, Subject}[rng.IntN(5)], word)) {
			hits++
		}
	}
	if hits < 2000 {
		t.Errorf("%d hits", hits)
	}
}

// TestPassesDivided compares them on a word that pieces of HTML divide, at the start of the text and behind others.
func TestPassesDivided(t *testing.T) {
	t.Parallel()
	dividers := strings.Fields(`<b> </b> <br> <p> <img> <img/alt=x> <!----> <!--x--> < </ <1 <? <?x> <! & ; &; &x;
		&amp; &nbsp; &shy; &zwj; &zwnj; &#173; &#xad; &#65532; &#xFEFF; &#847; &NoBreak; &#768; &#0; &#13; &#32 &nbsp
		&ampx &copy; &reg &ldquo; &eacute; &notin; = =3D =20 =AD`)
	dividers = append(dividers, "", " ", "\r\n", "\x00", "\x7f", "\u00ad", "\ufffc", "=\r\n", "<b title='a>b'>")
	hits := 0
	look := func(kind, how, body string) {
		raw := "Content-Type: text/" + kind + "; charset=utf-8\r\nContent-Transfer-Encoding: " + how + "\r\n\r\n" +
			body
		if samePasses(t, []byte(raw), beginning(Any, "report")) {
			hits++
		}
	}
	for _, before := range []string{"", "x ", "x", "&amp;", "&amp", "&copy", "&reg;", "&#8217;", "&#173;", "<i>", ">"} {
		for _, one := range dividers {
			for _, two := range dividers {
				body := before + "re" + one + "po" + two + "rt"
				look("html", "8bit", body)
				look([]string{"html", "plain"}[len(one)%2], "quoted-printable", body)
			}
		}
	}
	if hits < 1000 {
		t.Errorf("%d hits", hits)
	}
}

// TestPassesSkips checks that the text of parts that lack the word is not looked at.
func TestPassesSkips(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw  string
		asks int
	}{
		{"Content-Type: text/plain\r\n\r\nthe word is elsewhere", 0},
		{"Content-Type: text/plain\r\n\r\nthe word is not a report", 1},
		{"Content-Type: text/html\r\n\r\n<p>the <b>word</b>&nbsp;is <a href='?a=1&amp;b=2&c=3'>elsewhere</a>", 0},
		{"Content-Type: text/html\r\n\r\n<p>the word is <b>r</b>eally elsewhere", 1},
	} {
		asks := 0
		test := Test{Fields: Any, Word: "report", In: func(string) bool { asks++; return false }}
		if ok, _ := Passes([]byte(c.raw), Limits{}, &test); ok || asks != c.asks {
			t.Errorf("%q: %v, %d texts were looked at, want %d", c.raw, ok, asks, c.asks)
		}
	}
}
