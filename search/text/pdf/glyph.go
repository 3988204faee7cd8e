package pdf

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

// baseTable returns one of the encodings of simple fonts (annex D).
func baseTable(n string) (t [256]string) {
	m := charmap.Windows1252
	if n == "MacRomanEncoding" {
		m = charmap.Macintosh
	}
	for i := 0x20; i < 256; i++ {
		if r := m.DecodeByte(byte(i)); r != utf8.RuneError && r >= ' ' {
			t[i] = string(r)
		}
	}
	if n != "StandardEncoding" {
		return t
	}
	for i := 0x7f; i < 256; i++ {
		t[i] = ""
	}
	for i, r := range standardUpper {
		if r != ' ' {
			t[0xa1+i] = string(r)
		}
	}
	t[0x27], t[0x60] = "’", "‘"
	return t
}

// standardUpper is StandardEncoding from octal 241 on.
var standardUpper = []rune("¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ –†‡· ¶•‚„”»…‰ ¿ `´ˆ˜¯˘˙¨ ˚¸ ˝˛ˇ—                Æ ª    ŁØŒº     æ   ı  " +
	"łøœß")

// glyphs maps names of the Adobe Glyph List to characters, except for names that can be computed (see glyphText).
var glyphs = func() map[string]string {
	m := map[string]string{}
	for _, f := range strings.Fields(`space=\u0020 exclam=! quotedbl=" numbersign=# dollar=$ percent=% ampersand=&
		quotesingle=' quoteright=’ quoteleft=‘ parenleft=( parenright=) asterisk=* plus=+ comma=, hyphen=- minus=−
		period=. slash=/ zero=0 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 colon=: semicolon=;
		less=< question=? at=@ greater=> bracketleft=[ bracketright=] backslash=\ asciicircum=^ underscore=_
		grave=\u0060 braceleft={ braceright=} bar=| asciitilde=~ exclamdown=¡ cent=¢ sterling=£ currency=¤ yen=¥
		brokenbar=¦ section=§ dieresis=¨ copyright=© ordfeminine=ª guillemotleft=« logicalnot=¬ registered=® macron=¯
		degree=° plusminus=± acute=´ mu=µ paragraph=¶ periodcentered=· cedilla=¸ ordmasculine=º guillemotright=»
		onequarter=¼ onehalf=½ threequarters=¾ questiondown=¿ AE=Æ ae=æ OE=Œ oe=œ Oslash=Ø oslash=ø Eth=Ð eth=ð Thorn=Þ
		thorn=þ germandbls=ß multiply=× divide=÷ Lslash=Ł lslash=ł Dcroat=Đ dcroat=đ Hbar=Ħ hbar=ħ Tbar=Ŧ tbar=ŧ
		dotlessi=ı dotlessj=ȷ kgreenlandic=ĸ Eng=Ŋ eng=ŋ longs=ſ florin=ƒ endash=– emdash=— quotesinglbase=‚
		quotedblbase=„ quotedblleft=“ quotedblright=” dagger=† daggerdbl=‡ bullet=• ellipsis=… perthousand=‰
		guilsinglleft=‹ guilsinglright=› fraction=⁄ Euro=€ euro=€ trademark=™ nbspace=\u0020 nonbreakingspace=\u0020
		sfthyphen=\u00ad softhyphen=\u00ad ff=ff fi=fi fl=fl ffi=ffi ffl=ffl st=st longst=st IJ=Ĳ ij=ĳ Alpha=Α Beta=Β
		Gamma=Γ Delta=Δ Epsilon=Ε Zeta=Ζ Eta=Η Theta=Θ Iota=Ι Kappa=Κ Lambda=Λ Mu=Μ Nu=Ν Xi=Ξ Omicron=Ο Pi=Π Rho=Ρ
		Sigma=Σ Tau=Τ Upsilon=Υ Phi=Φ Chi=Χ Psi=Ψ Omega=Ω alpha=α beta=β gamma=γ delta=δ epsilon=ε zeta=ζ eta=η theta=θ
		iota=ι kappa=κ lambda=λ nu=ν xi=ξ omicron=ο pi=π rho=ρ sigma1=ς sigma=σ tau=τ upsilon=υ phi=φ chi=χ psi=ψ
		omega=ω Alphatonos=Ά Epsilontonos=Έ Etatonos=Ή Iotatonos=Ί Omicrontonos=Ό Upsilontonos=Ύ Omegatonos=Ώ
		alphatonos=ά epsilontonos=έ etatonos=ή iotatonos=ί omicrontonos=ό upsilontonos=ύ omegatonos=ώ afii10023=Ё
		afii10071=ё afii61352=№ Idotaccent=İ infinity=∞ notequal=≠ lessequal=≤ greaterequal=≥ summation=∑ product=∏
		radical=√ integral=∫ approxequal=≈ partialdiff=∂`) {
		k, v, _ := strings.Cut(f, "=")
		if code, ok := strings.CutPrefix(v, `\u`); ok {
			n, _ := strconv.ParseUint(code, 16, 32)
			v = string(rune(n))
		}
		m[k] = v
	}
	// Cyrillic letters are consecutive in alphabetical order, with io after the sixth.
	for i := 0; i < 32; i++ {
		up, low := 10017+i, 10065+i
		if i >= 6 {
			up, low = up+1, low+1
		}
		m["afii"+strconv.Itoa(up)], m["afii"+strconv.Itoa(low)] = string(rune(0x410+i)), string(rune(0x430+i))
	}
	return m
}()

var accents = map[string]rune{
	"acute": 0x301, "grave": 0x300, "circumflex": 0x302, "dieresis": 0x308, "tilde": 0x303, "caron": 0x30c,
	"cedilla": 0x327,
	"ogonek":  0x328, "breve": 0x306, "macron": 0x304, "ring": 0x30a, "dotaccent": 0x307, "hungarumlaut": 0x30b,
	"commaaccent": 0x326,
	"dotbelow":    0x323, "horn": 0x31b, "hookabove": 0x309,
}

// glyphText returns the text for a glyph name, or "" for an unknown name.
func glyphText(n string) string {
	n, _, _ = strings.Cut(n, ".")
	if n == "" || len(n) > 64 {
		return ""
	}
	if strings.IndexByte(n, '_') > 0 { // a ligature
		var b strings.Builder
		for part := range strings.SplitSeq(n, "_") {
			b.WriteString(glyphText(part))
		}
		return b.String()
	}
	if s, ok := glyphs[n]; ok {
		return s
	}
	if len(n) == 1 {
		if c := n[0]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return n
		}
		return ""
	}
	if mark, ok := accents[strings.TrimLeft(n[1:], " ")]; ok && n[0] < utf8.RuneSelf {
		return norm.NFC.String(n[:1] + string(mark))
	}
	return numberedGlyph(n)
}

// numberedGlyph returns the text for a name like uni20AC or u20AC.
func numberedGlyph(n string) string {
	if hex, ok := strings.CutPrefix(n, "uni"); ok && len(hex) >= 4 && len(hex)%4 == 0 {
		return codePoints(hex, 4)
	}
	if hex, ok := strings.CutPrefix(n, "u"); ok && len(hex) >= 4 && len(hex) <= 6 {
		return codePoints(hex, len(hex))
	}
	return ""
}

// codePoints returns the characters whose numbers have so many hexadecimal digits each, or "" if one is none.
func codePoints(hex string, digits int) string {
	var b strings.Builder
	for ; hex != ""; hex = hex[digits:] {
		v, err := strconv.ParseUint(hex[:digits], 16, 32)
		if err != nil || !utf8.ValidRune(rune(v)) || v == 0 {
			return ""
		}
		b.WriteRune(rune(v))
	}
	return b.String()
}
