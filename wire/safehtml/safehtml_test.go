package safehtml

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// hostile has dangerous mail content with the expected output.
var hostile = []struct{ src, want string }{
	{`<script>x=1</script>a`, `a`},
	{`<scr<script>ipt>alert(1)</script>b`, `ipt&gt;alert(1)b`},
	{`<style>@import url(//evil)</style><link rel=stylesheet href=//evil>c`, `c`},
	{`<img src=x onerror=alert(1)>d`, `d`},
	{`<img src=https://evil/p.gif alt="a &quot;pixel&quot;" onload=x>`, `[a &#34;pixel&#34;]`},
	{`<svg onload=alert(1)><a xlink:href="javascript:x">x</a></svg>e`, `e`},
	{`<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;"></math>f`,
		`<table>f</table>`},
	{`<a href="javascript:alert(1)">g</a>`, `g`},
	{"<a href=\"java\tscript:alert(1)\">h</a>", `h`},
	{`<a href="&#106;avascript:alert(1)">i</a>`, `i`},
	{`<a href=" https://x.example/?a=1&b=<2> ">j</a>`,
		`<a href="https://x.example/?a=1&amp;b=&lt;2&gt;" rel="noopener noreferrer nofollow">j</a>`},
	{`<a href="data:text/html,<script>x</script>">k</a>`, `k`},
	{`<a href="/lite/act?do=delete">l</a>`, `l`},
	{`<form action=//evil><input name=password><button>m</button></form>`, `m`},
	{`<meta http-equiv=refresh content="0;url=//evil"><base href=//evil>n`, `n`},
	{`<iframe src=//evil>x</iframe><object data=//evil>o</object><embed src=//evil>`, `o`},
	{`<p style="position:fixed" class=top id=app onclick=x>p</p>`, `<p>p</p>`},
	{`</div></main></body><div>q`, `<div>q</div>`},
	{`<table background=//evil><tr><td background=//evil colspan=2 rowspan=-1>r</table>`,
		`<table><tr><td colspan="2">r</td></tr></table>`},
	{`<b><i>s</b></i>`, `<b><i>s</i></b>`},
	{`<h1>t</h1><font color=red>u</font>`, `<h3>t</h3>u`},
	{`<a href=http://x>v<a href=http://y>w</a>`,
		`<a href="http://x" rel="noopener noreferrer nofollow">v</a><a href="http://y" rel="noopener noreferrer ` +
			`nofollow">w</a>`},
	{`<template><img src=x onerror=y></template><noscript><p title="</noscript><img src=x onerror=y>">x`, `&#34;&gt;x`},
	{"<p\x00>y\x00z", `yz`},
	{`<!--[if IE]><script>x</script><![endif]-->1`, `1`},
	{`<textarea><script>x</script></textarea><xmp><b></xmp>2`, `2`},
	{`<a href="https:x">4</a><a href="https:/x">4</a><a href="https:\\x">4</a><a href="https:///x">4</a><a ` +
		`href="https://">4</a><a href="https://?x">4</a>`, `444444`},
	{`<a href="https://\evil.example">5</a><a href="https://a\@evil.example/">5</a><a href="//evil.example">5</a>` +
		`<a href="\\evil.example">5</a>`, `5555`},
	{"<a href=\"javascript&colon;alert(1)\">6</a><a href=\"java&Tab;script&colon;x\">6</a><a " +
		"href=\"\x01javascript:x\">6</a><a href=\"h\nttps&colon;//x.example\">6</a>",
		`666<a href="https://x.example" rel="noopener noreferrer nofollow">6</a>`},
	{`<a href="HTTPS://[2001:db8::1]:8/\">7</a>`,
		`<a href="https://[2001:db8::1]:8/\" rel="noopener noreferrer nofollow">7</a>`},
	{`<svg><path d="x"/><p>shown</p><a href=https://x.example>8</a>`,
		`<p>shown</p><a href="https://x.example" rel="noopener noreferrer nofollow">8</a>`},
	{`<svg><text>gone</text></svg><svg><svg></svg>9`, `9`},
	{`<video poster=//evil><source src=//evil></video><audio src=//evil autoplay></audio>3`, `3`},
}

func TestHostile(t *testing.T) {
	t.Parallel()
	for _, c := range hostile {
		if got := strings.Join(Clean(c.src, &Options{}), "|"); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.src, got, c.want)
		}
	}
}

// TestUnended checks that an unterminated construct never hides the text after it.
func TestUnended(t *testing.T) {
	t.Parallel()
	var begins []string
	for a := range hidden {
		begins = append(begins, "<"+a.String()+">", "<"+a.String()+" title='>", "<"+strings.ToUpper(a.String())+"\n>",
			"<"+a.String()+"><"+a.String()+"></"+a.String()+">")
	}
	begins = append(begins, "<!--", "<!-- <p>", "<!-- -- >", "<!x", "<?php ", "</", "</ ", "<p title=\"",
		"<a href='https://x.example/", "<img alt=\"a\" ", "<![CDATA[", "<svg><![CDATA[", "<math><!--", "<style><!--",
		"<script><!--<script>", "<title><title>", strings.Repeat("<svg>", 1000), strings.Repeat("<!--", 1000),
		strings.Repeat("<p title=\"x\" y='", 1000), strings.Repeat("<textarea><!-- <a '", 1000),
		`<img src="data:image/png;base64,`+strings.Repeat("A", 3<<20)+`">`)
	for _, b := range begins {
		for _, rest := range []string{"pay attention", "<b>pay attention</b>", "<p>x</p>pay attention"} {
			got := strings.Join(Clean("before "+b+rest, &Options{}), "")
			if !strings.Contains(got, "pay attention") || !strings.HasPrefix(got, "before ") {
				t.Errorf("%.80s hides %s: %.200s", b, rest, got)
			}
			check(t, got)
		}
	}
}

func TestPictures(t *testing.T) {
	t.Parallel()
	var asked []string
	o := &Options{Picture: func(src string) string {
		asked = append(asked, src)
		if strings.HasPrefix(src, "cid:") {
			return `/part?"<`
		}
		return ""
	}}
	got := strings.Join(
		Clean(`<img src="CID:a@b" width=40 height=9999><img src=http://x/y srcset=//z><img src=data:image/png;`+
			`base64,x><img src=//x>`, o), "")
	if want := `<img src="/part?&#34;&lt;" alt="" width="40" loading="lazy" ` +
		`referrerpolicy="no-referrer">`; got != want {
		t.Errorf("%s", got)
	}
	if strings.Join(asked, " ") != "cid:a@b http://x/y" {
		t.Errorf("%q", asked)
	}
}

func TestPieces(t *testing.T) {
	t.Parallel()
	src := "<div><b>" + strings.Repeat("много слов 🎲 ", 3000) + "</b></div><p>end</p>"
	o := &Options{Piece: 4000}
	list := Clean(src, o)
	text := 0
	for i, p := range list {
		if len(p) > 4200 || !utf8.ValidString(p) {
			t.Errorf("piece %d has %d bytes", i, len(p))
		}
		check(t, p)
		text += strings.Count(p, "🎲")
	}
	if text != 3000 || !strings.HasSuffix(list[len(list)-1], "<p>end</p>") {
		t.Errorf("%d pieces, %d dice", len(list), text)
	}
	if o.Pieces = 3; len(Clean(src, o)) != 3 {
		t.Error("the bound of pieces is not held")
	}
	if got := strings.Join(Clean(strings.Repeat("<div>", 500)+"x", &Options{}), ""); strings.Count(got,
		"<div>") != maxDepth {
		t.Errorf("%d deep", strings.Count(got, "<div>"))
	}
}

// TestLongValues checks that values that the policy removes use up no pieces, so that the text after them is shown. The
// longest values that the policy allows remain.
func TestLongValues(t *testing.T) {
	t.Parallel()
	picture := func(string) string { return "/picture" }
	o := &Options{Piece: 12 << 10, Pieces: 20, Picture: picture}
	long := strings.Repeat("&", 2500)
	for _, tag := range []string{
		`<p dir="%">`, `<td colspan="%">`, `<td rowspan="%">`, `<ol start="%">`, `<img src="cid:a" width="%">`,
		`<img src="cid:a" height="%">`,
	} {
		list := Clean(strings.Repeat(strings.ReplaceAll(tag, "%", long)+"x", o.Pieces)+"pay attention", o)
		if !strings.Contains(list[len(list)-1], "pay attention") || len(list) > 1 {
			t.Errorf("%s: %d pieces, the last one ends with %q", tag, len(list), list[len(list)-1])
		}
	}
	for _, want := range []string{
		`<p dir="auto"></p>`, `<td colspan="100" rowspan="100"></td>`, `<ol start="999999"></ol>`,
		`<img src="/picture" alt="" width="4000" height="4000" loading="lazy" referrerpolicy="no-referrer">`,
	} {
		src := strings.Replace(want, "/picture", "cid:a", 1)
		if got := strings.Join(Clean(src, o), ""); got != want {
			t.Errorf("%s became %s", src, got)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	got := strings.Join(Text("See (https://a.example/x?y=1&z), HTTP://b.example. nohttp://c.example <script> http://",
		&Options{}), "|")
	want := `See (<a href="https://a.example/x?y=1&amp;z" rel="noopener noreferrer nofollow">` +
		`https://a.example/x?y=1&amp;z</a>), <a href="http://b.example" rel="noopener noreferrer nofollow">` +
		`HTTP://b.example</a>. nohttp://c.example &lt;script&gt; http://`
	if got != want {
		t.Errorf("\n%s\n%s", got, want)
	}
	pieces := Text(strings.Repeat("x", 100_000), &Options{Piece: 10_000})
	if len(pieces) < 10 || len(strings.Join(pieces, "")) != 100_000 {
		t.Errorf("%d pieces", len(pieces))
	}
}

// TestPolicyAlone gives sources to the policy that the cleaner has not arranged. The policy alone must make them
// harmless, though not balanced.
func TestPolicyAlone(t *testing.T) {
	t.Parallel()
	sources := []string{
		`<a href="javascript:alert(1)" onclick=x target=_blank>a</a>`, `<a href="//evil.example">b</a>`,
		`<a href="/\evil.example">c</a>`, `<a href="data:text/html,x" rel="opener">d</a>`,
		`<p style="position:fixed" class=top id=app>e</p>`, `<td colspan=1000 rowspan=0>f</td>`,
		`<img src="data:image/svg+xml,x" width=9999 height=1e3 onerror=x srcset="//evil">`,
		`<ol start="-1" type=x><li value=2>g</ol>`, `<p dir="rtl x">h</p>`,
		`<iframe srcdoc="<script>x</script>"></iframe>`,
		"<a href='/\t/evil.example'>i</a>", "<img src='/\n/evil.example' loading=eager referrerpolicy=unsafe-url>",
	}
	for _, c := range hostile {
		sources = append(sources, c.src)
	}
	for _, src := range sources {
		z := html.NewTokenizer(strings.NewReader(policy.Sanitize(src)))
		for z.Next() != html.ErrorToken {
			if tok := z.Token(); tok.Type == html.StartTagToken {
				checkTag(t, src, &tok, "https://evil/p.gif", "/lite/act?do=delete")
			} else if tok.Type != html.EndTagToken && tok.Type != html.TextToken {
				t.Errorf("%v in what %q becomes", tok.Type, src)
			}
		}
	}
}

// fixed holds the only value of some attributes, mosts the highest of others.
var (
	fixed = map[string]string{
		"rel": "noopener noreferrer nofollow", "loading": "lazy", "referrerpolicy": "no-referrer",
	}
	mosts = map[string]int{"width": 4000, "height": 4000, "colspan": 100, "rowspan": 100, "start": 1 << 20}
)

// checkTag fails if a tag contains anything that is not allowed. addresses lists the permitted
// addresses of pictures, and on this server.
func checkTag(t *testing.T, markup string, tok *html.Token, addresses ...string) {
	t.Helper()
	if !slices.Contains(slices.Collect(maps.Values(elements)), tok.Data) {
		t.Fatalf("<%s> in %q", tok.Data, markup)
	}
	for _, a := range tok.Attr {
		v := strings.ToLower(a.Val)
		switch a.Key {
		case "href":
			scheme, _, _ := strings.Cut(v, ":")
			if !slices.Contains([]string{"http", "https", "mailto", "tel"}, scheme) && !slices.Contains(addresses, v) {
				t.Fatalf("href %q in %q", a.Val, markup)
			}
		case "src":
			if !slices.Contains(addresses, a.Val) {
				t.Fatalf("src %q in %q", a.Val, markup)
			}
		case "rel", "loading", "referrerpolicy":
			if a.Val != fixed[a.Key] {
				t.Fatalf("%s %q in %q", a.Key, a.Val, markup)
			}
		case "dir":
			if v != "rtl" && v != "ltr" && v != "auto" {
				t.Fatalf("dir %q in %q", a.Val, markup)
			}
		case "width", "height", "colspan", "rowspan", "start":
			n, err := strconv.Atoi(v)
			if most := mosts[a.Key]; err != nil || n <= 0 || n > most {
				t.Fatalf("%s %q in %q", a.Key, a.Val, markup)
			}
		case "alt":
		default:
			t.Fatalf("attribute %q in %q", a.Key, markup)
		}
	}
}

// check fails if markup contains anything that is not allowed.
func check(t *testing.T, markup string) {
	t.Helper()
	var open []string
	z := html.NewTokenizer(strings.NewReader(markup))
	for {
		kind := z.Next()
		tok := z.Token()
		switch kind {
		case html.ErrorToken:
			if len(open) > 0 {
				t.Fatalf("%q is left open in %q", open, markup)
			}
			return
		case html.TextToken:
		case html.StartTagToken:
			checkTag(t, markup, &tok, "/picture")
			if !void[tok.Data] {
				open = append(open, tok.Data)
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != tok.Data {
				t.Fatalf("</%s> while %q are open in %q", tok.Data, open, markup)
			}
			open = open[:len(open)-1]
		default:
			t.Fatalf("%v in %q", kind, markup)
		}
	}
}

// FuzzClean checks that the output has only allowed elements, is balanced, and is unchanged when cleaned again.
func FuzzClean(f *testing.F) {
	for _, c := range hostile {
		f.Add(c.src, 0)
	}
	f.Add(strings.Repeat("<div><p>много ", 50), 100)
	f.Fuzz(func(t *testing.T, src string, piece int) {
		if piece < 0 || len(src) > 1<<16 {
			return
		}
		o := &Options{Piece: piece % 5000, Picture: func(string) string { return "/picture" }}
		for _, p := range Clean(src, o) {
			check(t, p)
		}
		for _, p := range Text(src, o) {
			check(t, p)
		}
	})
}

func BenchmarkClean(b *testing.B) {
	src := strings.Repeat(
		`<table><tr><td style="x:y"><a href="https://x.example/a?b=c">A newsletter</a> <b>with words</b> <img `+
			`src="https://x.example/p.gif"> and more of them</td></tr></table>`, 200)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		Clean(src, &Options{Piece: 14 << 10})
	}
}
