package words

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func scan(s string) string {
	var out []string
	for sc := Scan(Normal(s)); sc.Next(); {
		w := string(sc.Term)
		if sc.Gram {
			w += "_"
		}
		if !sc.Sure {
			w += "?"
		}
		if sc.Cut {
			w += "…"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"Hello, World-wide web_site 3.14", "hello world wide web site 3 14"},
		{"don't l’avion", "don t l avion"},
		{"Müller Straße ÉCOLE cafe\u0301", "muller? strasse? ecole? cafe?"},
		{"Ångström smørrebrød Łódź İstanbul ısı", "angstrom? smorrebrod? lodz? istanbul? isi?"},
		{"ΣΊΣΥΦΟΣ σίσυφος", "σισυφοσ? σισυφοσ?"},
		{"Привет ёлка Йод", "привет елка? иод?"},
		{"ﬁle Ｆｕｌｌ １２３ x²", "file? full? 123? x2?"},
		{"שָׁלוֹם كِتَاب", "שלום? كتاب?"},
		{"soft\u00adhyphen zero\u200dwidth", "softhyphen? zerowidth?"},
		{"東京都", "東京_ 京都_ 都_"},
		{"東", "東_"},
		{"私はGo言語が好き", "私は_ は_ go 言語_ 語が_ が好_ 好き_ き_"},
		{"東\r\n京", "東京_? 京_"},
		{"東 京", "東_ 京_"},
		{"東\n\n京", "東_ 京_"},
		{"コンピューター ｺﾝﾋﾟｭｰﾀｰ", "コン_ ンピ_ ピュ_ ュー_ ータ_ ター_ ー_ コン_? ンヒ_? ヒュ_? ュー_? ータ_? ター_? ー_?"},
		{"학교에서 배웠다", "학교_ 교에_ 에서_ 서_ 배웠_ 웠다_ 다_"},
		{"สวัสดี", "สว_ วั_ ัส_ สด_ ดี_ ี_"},
		{"हिन्दी भाषा", "हिन्दी भाषा"},
		{strings.Repeat("a", 70) + " b", strings.Repeat("a", 64) + "?… b"},
		{"user@example.com", "user example com"},
		{"😀 → %", ""},
		{"\xff\xfebad\xc3", "bad"},
	} {
		if got := scan(c.text); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

// TestPlaces checks that the text between Start and End folds to the term, and that words are numbered consecutively.
func TestPlaces(t *testing.T) {
	t.Parallel()
	text := Normal("Ein Müller\u0301 ging, in 東京タワー und fand: soft\u00adhyphen. Ende")
	last, pos := 0, -1
	for s := Scan(text); s.Next(); {
		if s.Start < last && !s.Gram || s.End > len(text) || s.Pos != pos+1 {
			t.Fatalf("%q stands at %d to %d, number %d", s.Term, s.Start, s.End, s.Pos)
		}
		if got := Fold(text[s.Start:s.End]); got != string(s.Term) {
			t.Errorf("%q folds to %q, not to %q", text[s.Start:s.End], got, s.Term)
		}
		last, pos = s.Start, s.Pos
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{"Hello 東京 world", "e\u0301\u00ad\u200b\u3099", "ﷺ ½ ㎏ ㍿", "\xff\xc3",
		strings.Repeat("ß", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = Normal(s)
		pos, from := 0, 0
		for sc := Scan(s); sc.Next(); {
			switch {
			case len(sc.Term) == 0 || len(sc.Term) > MaxTerm || !utf8.Valid(sc.Term):
				t.Fatalf("term %q", sc.Term)
			case sc.Start < from || sc.End <= sc.Start || sc.End > len(s):
				t.Fatalf("%q stands at %d to %d of %d", sc.Term, sc.Start, sc.End, len(s))
			case sc.Pos != pos:
				t.Fatalf("%q is number %d, not %d", sc.Term, sc.Pos, pos)
			case !sc.Gram && !sc.Cut:
				// A word on its own gives the same term.
				one := Scan(s[sc.Start:sc.End])
				if !one.Next() || string(one.Term) != string(sc.Term) || one.Next() {
					t.Fatalf("%q alone is not %q", s[sc.Start:sc.End], sc.Term)
				}
			}
			pos, from = pos+1, sc.Start
		}
	})
}

var sample = func() string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "The quarterly report for customer %d was sent to the office on Monday; please review the "+
			"numbers.\r\n", i*7919)
	}
	return b.String()
}()

func BenchmarkScan(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"English", sample},
		{"German", strings.ReplaceAll(sample, "office", "Geschäftsführung für Größen")},
		{"Japanese", strings.Repeat("四半期報告書は月曜日に事務所へ送られました。数字を確認してください。", 60)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				for s := Scan(c.text); s.Next(); {
				}
			}
		})
	}
}
