package contact

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

func parseCard(t testing.TB, text string) *ical.Component {
	t.Helper()
	c, err := ical.Parse([]byte(text), ical.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func cardOf(t testing.TB, text string) Card {
	t.Helper()
	v, err := jmap.Parse(text, jmap.Bounds{})
	if err != nil {
		t.Fatal(err, text)
	}
	return Parse(v)
}

// TestRead reads the vCards of testdata: NAME.vcf, of a program, is the card in NAME.json. Each card is accepted, and
// applying it to its vCard changes nothing.
func TestRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.vcf")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := parseCard(t, string(text))
		card := Read(c)
		want, err := os.ReadFile(strings.TrimSuffix(file, ".vcf") + ".json")
		if err != nil {
			t.Fatal(err, indent(t, card))
		}
		if got := indent(t, card); got != indent(t, cardOf(t, string(want))) {
			t.Errorf("%s:\n%s", file, got)
		}
		checked, bad := Check(card)
		if bad != nil || !equal(checked, card) {
			t.Errorf("%s: Check: %q\n%s", file, bad, indent(t, checked))
		}
		if got := ical.Append(nil, Apply(c, card)); string(got) != string(ical.Append(nil, c)) {
			t.Errorf("%s: changed\n%s", file, got)
		}
	}
}

func indent(t testing.TB, c Card) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(c.Append(nil), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestApply changes vCards. A case has the lines of a vCard, a patch of its card (paths to values), and the lines that
// come of it.
func TestApply(t *testing.T) {
	for _, x := range []struct {
		name        string
		lines       string
		patch, want string
	}{
		{"another property stays as it is", "VERSION:3.0|UID:a|FN:Ann|item1.EMAIL;TYPE=INTERNET;X-A=1:a@x|" +
			"item1.X-ABLabel:_$!<Other>!$_|X-B;Y=\"1,2\":z\\,z", `{"notes":{"n1":{"note":"Hi, you"}}}`,
			"VERSION:3.0|UID:a|FN:Ann|item1.EMAIL;TYPE=INTERNET;X-A=1:a@x|item1.X-ABLABEL:_$!<Other>!$_|" +
				"X-B;Y=\"1,2\":z\\,z|NOTE:Hi\\, you"},
		{"unknown lines stay", "VERSION:3.0|UID:a|FN:Ann|item1.EMAIL;TYPE=INTERNET,home,pref;X-A=1:a@x|" +
			"item1.X-ABLabel:Mine", `{"emails/e1/address":"b@x","emails/e1/contexts":{"work":true}}`,
			"VERSION:3.0|UID:a|FN:Ann|item1.EMAIL;X-A=1;TYPE=INTERNET,work,PREF:b@x|item1.X-ABLABEL:Mine"},
		{"a removed item takes its label along, and the others keep their ids",
			"VERSION:3.0|UID:a|FN:Ann|item1.TEL;TYPE=CELL:1|item1.X-ABLabel:Mine|TEL;TYPE=HOME,FAX:2",
			`{"phones/p1":null}`, "VERSION:3.0|UID:a|FN:Ann|TEL;TYPE=HOME,FAX;PROP-ID=p2:2"},
		{"a new vCard", "VERSION:4.0|UID:urn:uuid:1", `{"name":{"components":[{"kind":"given","value":"Ann"},
			{"kind":"surname","value":"O;Neil"}]},"kind":"individual","phones":{"a":{"number":"tel:+1-2","features":
			{"mobile":true},"contexts":{"private":true},"pref":1,"label":"Boat"}}}`,
			`VERSION:4.0|UID:urn:uuid:1|KIND:individual|N:O\;Neil;Ann;;;|FN;DERIVED=TRUE:Ann O\;Neil|` +
				`item1.X-ABLABEL:Boat|item1.TEL;VALUE=uri;PREF=1;TYPE=home,cell;PROP-ID=a:tel:+1-2`},
		{"a photo in vCard 3.0", "VERSION:3.0|UID:a|FN:A|PHOTO;ENCODING=b;TYPE=JPEG:AAAA",
			`{"media/m1/uri":"data:image/png;base64,BBBB"}`, "VERSION:3.0|UID:a|FN:A|PHOTO;ENCODING=b;TYPE=PNG:BBBB"},
		{"a date without a year", "VERSION:3.0|UID:a|FN:A|BDAY;X-APPLE-OMIT-YEAR=1604:1604-03-02",
			`{"anniversaries/y1/date/day":3}`, "VERSION:3.0|UID:a|FN:A|BDAY;X-APPLE-OMIT-YEAR=1604:1604-03-03"},
		{"keywords are one property", "VERSION:3.0|UID:a|FN:A|CATEGORIES:b,a",
			`{"keywords/a":null,"keywords/c,d":true}`,
			`VERSION:3.0|UID:a|FN:A|CATEGORIES:b,c\,d`},
		{"a group", "VERSION:3.0|UID:a|FN:A", `{"kind":"group","members":{"urn:uuid:7":true}}`,
			"VERSION:3.0|UID:a|FN:A|X-ADDRESSBOOKSERVER-KIND:group|X-ADDRESSBOOKSERVER-MEMBER:urn:uuid:7"},
		{"an address with a house number", "VERSION:4.0|UID:a|FN:A", `{"addresses":{"a1":{"components":[
			{"kind":"number","value":"5"},{"kind":"name","value":"Main St"},{"kind":"locality","value":"X, Y"}]}}}`,
			`VERSION:4.0|UID:a|FN:A|ADR:;;Main St 5;X\, Y;;;;;;;5;Main St;;;;;;`},
		{"a list is split when an element changes", "VERSION:4.0|UID:a|FN:A|NICKNAME;TYPE=work:b,c",
			`{"nicknames/n1/name":"d"}`, "VERSION:4.0|UID:a|FN:A|NICKNAME;TYPE=work:d|NICKNAME;TYPE=work:c"},
		{"what vCard does not have", "VERSION:4.0|UID:a|FN:A", `{"example.com:x":[1,"a,b"]}`,
			`VERSION:4.0|UID:a|FN:A|JSPROP;JSPTR="example.com:x";X-DOUBLET-OF=` + hashOf(nil) + `:[1\,"a\,b"]`},
		{"other properties", "VERSION:4.0|UID:a|FN:A|X-A:1|X-B:2",
			`{"vCardProps":[["x-c",{"group":"g","type":"t"},"text","1,2"]]}`,
			`VERSION:4.0|UID:a|FN:A|g.X-C;TYPE=t:1\,2`},
	} {
		c := parseCard(t, "BEGIN:VCARD\n"+strings.ReplaceAll(x.lines, "|", "\n")+"\nEND:VCARD\n")
		want := patched(t, Read(c), cardOf2(t, x.patch))
		want, bad := Check(want)
		if bad != nil {
			t.Fatalf("%s: %q", x.name, bad)
		}
		out := Apply(c, want)
		got := strings.ReplaceAll(strings.ReplaceAll(string(ical.Append(nil, out)), "\r\n ", ""), "\r\n", "|")
		if got != "BEGIN:VCARD|"+x.want+"|END:VCARD|" {
			t.Errorf("%s:\n%s\nwant\n%s", x.name, got, x.want)
		}
		if again := Read(out); !equal(again, want) {
			t.Errorf("%s: it is read as\n%s\nwant\n%s", x.name, again.Append(nil), want.Append(nil))
		}
	}
}

// cardOf2 parses a patch, with its null values.
func cardOf2(t testing.TB, text string) map[string]*jmap.Value {
	t.Helper()
	v, err := jmap.Parse(text, jmap.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*jmap.Value{}
	for i := range v.Len() {
		out[v.Name(i)] = v.At(i)
	}
	return out
}

// patched returns a card with a patch applied.
func patched(t testing.TB, c Card, patch map[string]*jmap.Value) Card {
	t.Helper()
	c = cardOf(t, string(c.Append(nil)))
	for path, v := range patch {
		in, parts := c, strings.Split(path, "/")
		for ; len(parts) > 1; parts = parts[1:] {
			in = in.object(parts[0])
		}
		if delete(in, parts[0]); !v.IsNull() {
			in[parts[0]] = decode(v)
		}
	}
	return c
}

// TestRandom applies random cards one after the other to a vCard with properties that no card has. What is written is
// read again, and the foreign properties stay.
func TestRandom(t *testing.T) {
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 2))
		version := []string{"3.0", "4.0"}[seed%2]
		c := parseCard(t, "BEGIN:VCARD\nVERSION:"+version+"\nUID:u\nFN:x\ng.X-FOREIGN;A=1:2;3\nGENDER:F\nEND:VCARD\n")
		for range 6 {
			want, bad := Check(randomCard(rng, Read(c)))
			if bad != nil {
				t.Fatalf("seed %d: %q of %s", seed, bad, randomCard(rng, Card{}).Append(nil))
			}
			text := ical.Append(nil, Apply(c, want))
			c = parseCard(t, string(text))
			if got := Read(c); !equal(got, want) {
				t.Fatalf("seed %d: written\n%s\n%s", seed, text, difference(got, want))
			}
			if !strings.Contains(string(text), "\r\ng.X-FOREIGN;A=1:2;3\r\n") ||
				!strings.Contains(string(text), "\r\nFN") {
				t.Fatalf("seed %d: written\n%s", seed, text)
			}
		}
	}
}

// difference returns the properties that differ.
func difference(got, want Card) string {
	b := ""
	for name := range cardShape.fields {
		if !equal(got[name], want[name]) {
			b += fmt.Sprintf("%s is\n%s\nwant\n%s\n", name, appendJSON(nil, got[name]), appendJSON(nil, want[name]))
		}
	}
	return b
}

// randomCard changes some properties of a card at random.
func randomCard(rng *rand.Rand, have Card) Card {
	c := Card{"uid": "u"}
	for k, v := range have {
		if rng.IntN(3) > 0 || k == "vCardProps" {
			c[k] = v
		}
	}
	for name, f := range cardShape.fields {
		if rng.IntN(3) == 0 && name != "uid" && name != "vCardProps" && name != "@type" && name != "version" {
			if c[name] = randomValue(rng, f, 0); c[name] == nil {
				delete(c, name)
			}
		}
	}
	return c
}

var randomTexts = []string{"a", "b,c", "d;e", `f\g`, "h\ni", "urn:x:y", "data:image/png;base64,AAAA", "home", "tel:+1",
	"surname", "given", "name", "number", "separator", " j ", "ü€", "k\r\nl", "\"m\"", "photo", "birth", "role", "high",
	"n\x01o", "_$!<p>!$_", "impp", "^'"}

func randomText(rng *rand.Rand) string { return randomTexts[rng.IntN(len(randomTexts))] }

func randomValue(rng *rand.Rand, f field, depth int) any {
	switch f.form {
	case aText, aFullText:
		return randomText(rng)
	case aNumber:
		return float64(rng.IntN(40))
	case aPref:
		return float64(1 + rng.IntN(3))
	case aFlag:
		return rng.IntN(2) == 0
	case aTime:
		return fmt.Sprintf("2026-01-02T03:04:%02dZ", rng.IntN(60))
	case anObject:
		return randomObject(rng, f.shape, depth)
	case aList:
		return []any{randomObject(rng, f.shape, depth), randomObject(rng, f.shape, depth)}
	}
	c := Card{}
	for range 1 + rng.IntN(3) {
		key := fmt.Sprint([]string{"k", "e", "p", "x-"}[rng.IntN(4)], rng.IntN(4))
		switch f.form {
		case aMap:
			c[key] = randomObject(rng, f.shape, depth)
		case aKeyedMap:
			c[clearText(rng)] = randomObject(rng, f.shape, depth)
		case aSet:
			c[clearText(rng)] = true
		case anyMap:
			c[clearText(rng)] = randomText(rng)
		default:
			c[clearText(rng)] = Card{"a": 1.5, "b": []any{nil, false}}
		}
	}
	return c
}

func clearText(rng *rand.Rand) string {
	for {
		if s := randomText(rng); clean(s) {
			return s
		}
	}
}

func randomObject(rng *rand.Rand, s *shape, depth int) Card {
	c := Card{}
	for name, f := range s.fields {
		if (f.needed || rng.IntN(3) == 0) && name != "@type" {
			c[name] = randomValue(rng, f, depth+1)
		}
	}
	if rng.IntN(8) == 0 {
		c["example.com:ext/~"] = randomText(rng)
	}
	return c
}

// TestOverlay checks that a part of a card that vCard cannot express is dropped when another program changes the
// property that it belongs to, and stays when it changes another one.
func TestOverlay(t *testing.T) {
	c := parseCard(t, "BEGIN:VCARD\nVERSION:4.0\nUID:u\nFN:x\nEND:VCARD\n")
	want, bad := Check(cardOf(t, `{"uid":"u","name":{"full":"x","isOrdered":true,"components":[
		{"kind":"given","value":"A"},{"kind":"separator","value":"-"},{"kind":"surname","value":"B"}]},
		"notes":{"n":{"note":"n"}}}`))
	if bad != nil {
		t.Fatal(bad)
	}
	text := string(ical.Append(nil, Apply(c, want)))
	for _, x := range []struct{ old, new, want string }{
		{"NOTE;PROP-ID=n:n", "NOTE;PROP-ID=n:m", `{"full":"x","isOrdered":true,"components":[
			{"kind":"given","value":"A"},{"kind":"separator","value":"-"},{"kind":"surname","value":"B"}]}`},
		{"N:B;A;;;", "N:C;A;;;", `{"full":"x","components":[{"kind":"surname","value":"C"},
			{"kind":"given","value":"A"}]}`},
	} {
		changed := strings.Replace(text, x.old, x.new, 1)
		if got := Read(parseCard(t, changed)); changed == text || !equal(got["name"], cardOf(t, x.want)) {
			t.Errorf("%s:\n%s\n%s", x.new, changed, got.Append(nil))
		}
	}
}

// TestLarge changes vCards with as many properties as one may have, and cards with as many items: the work is bounded.
func TestLarge(t *testing.T) {
	var b strings.Builder
	b.WriteString("BEGIN:VCARD\nVERSION:3.0\nUID:u\nFN:x\n")
	for i := range maxMembers - 10 {
		fmt.Fprintf(&b, "g%d.EMAIL:a%d@x\ng%d.X-ABLABEL:l%d\n", i, i, i, i)
	}
	c := parseCard(t, b.String()+"END:VCARD\n")
	want := Read(c)
	emails := want.object("emails")
	delete(emails, "e1")
	emails["e2"] = Card{"address": "b@x", "label": "new"}
	for i := range maxMembers - len(emails) {
		emails[fmt.Sprint("new", i)] = Card{"address": "c@x", "label": fmt.Sprint(i)}
	}
	want, bad := Check(want)
	if bad != nil {
		t.Fatal(bad)
	}
	if got := Read(Apply(c, want)); !equal(got, want) {
		t.Errorf("%d items, want %d", len(got.object("emails")), len(emails))
	}
	emails["more"] = Card{"address": "c@x"}
	want["emails"] = emails
	if _, bad := Check(want); len(bad) != 1 || bad[0] != "emails" {
		t.Error(bad)
	}
}

// TestCheck checks the paths of bad values.
func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		`{"uid":"a"}`: "", `{}`: "uid", `{"uid":1}`: "uid", `{"uid":" "}`: "uid",
		`{"uid":"a","version":"2"}`:                                                   "version",
		`{"uid":"a","@type":"Group"}`:                                                 "@type",
		`{"uid":"a","emails":{"e":{}}}`:                                               "emails/e/address",
		`{"uid":"a","emails":{"e":{"address":"x","pref":101}}}`:                       "emails/e/pref",
		`{"uid":"a","emails":{"e!":{"address":"x"}}}`:                                 "emails/e!",
		`{"uid":"a","emails":[1]}`:                                                    "emails",
		`{"uid":"a","phones":{"e":{"number":"1","features":{"a":false}}}}`:            "phones/e/features/a",
		`{"uid":"a","name":{"components":[{"kind":"given"}]}}`:                        "name/components/value",
		`{"uid":"a","created":"2026-01-01T00:00:00+01:00"}`:                           "created",
		`{"uid":"a","emails":{"e":{"@type":"Email","address":"x"}}}`:                  "emails/e/@type",
		`{"uid":"a","vCardProps":[["begin:x",{},"text","y"]]}`:                        "vCardProps",
		`{"uid":"a","vCardProps":[["x-a",{},"text",{}]]}`:                             "vCardProps",
		`{"uid":"a","x:y":` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + `}`: "x:y",
		`{"uid":"a","localizations":"x"}`:                                             "localizations",
		`{"uid":"a","emails":{"e":{"@type":"EmailAddress","address":"x"}}}`:           "",
	} {
		if _, bad := Check(cardOf(t, text)); strings.Join(bad, " ") != want {
			t.Errorf("%s: %q, want %q", text, bad, want)
		}
	}
}

// FuzzRead reads any vCard, and changes it: it can be read again, and is what was asked for.
func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.vcf")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, `{"uid":"u"}`)
	}
	f.Add([]byte("BEGIN:VCARD\nVERSION:4.0\nUID:u\nFN:x\nEND:VCARD\n"), `{"uid":"u","emails":{"e1":{"address":"a"}},
		"notes":{"x":{"note":"a,b"}},"vCardProps":[["x-a",{"type":["a","b"]},"unknown","x"]]}`)
	f.Fuzz(func(t *testing.T, text []byte, json string) {
		c, err := ical.Parse(text, ical.DefaultLimits)
		if err != nil {
			return
		}
		card := Read(c)
		v, err := jmap.Parse(string(card.Append(nil)), jmap.Bounds{Values: 1 << 20})
		if err != nil {
			t.Fatalf("the card is no JSON: %v\n%s", err, card.Append(nil))
		}
		if !equal(Parse(v), card) {
			t.Fatalf("the card is read as\n%s\nwant\n%s", Parse(v).Append(nil), card.Append(nil))
		}
		if v, err = jmap.Parse(json, jmap.Bounds{}); err != nil || v.Kind() != jmap.Object {
			return
		}
		want, bad := Check(Parse(v))
		if bad != nil {
			return
		}
		again, err := ical.Parse(ical.Append(nil, Apply(c, want)), ical.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		got := Read(again)
		delete(got, "uid")
		delete(want, "uid")
		delete(got, "vCardProps")
		delete(want, "vCardProps")
		if !equal(got, want) {
			t.Fatalf("written\n%s\nread\n%s\nwant\n%s", ical.Append(nil, again), got.Append(nil), want.Append(nil))
		}
	})
}
