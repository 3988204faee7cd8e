package scenario

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxRepeat is the size limit of <repeat:…> in bytes.
const maxRepeat = 256 << 20

// escape parses one <binary:…>, <repeat:…> or <base64:…> at the beginning of s.
func escape(s string) (value string, rest string, found bool, err error) {
	for _, kind := range []string{"<binary:", "<repeat:", "<base64:"} {
		if !strings.HasPrefix(s, kind) {
			continue
		}
		arg, rest, ok := strings.Cut(s[len(kind):], ">")
		if !ok {
			return "", "", false, fmt.Errorf("%s has no end", kind)
		}
		switch kind {
		case "<binary:":
			b, err := hex.DecodeString(strings.ReplaceAll(arg, " ", ""))
			return string(b), rest, true, err
		case "<base64:":
			return base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(arg, `\0`, "\x00"))), rest, true, nil
		}
		count, text, _ := strings.Cut(arg, ":")
		n, err := strconv.Atoi(count)
		if err != nil || n < 0 || n*len(text) > maxRepeat {
			return "", "", false, fmt.Errorf("<repeat:%s> is not a count and a text", arg)
		}
		return strings.Repeat(text, n), rest, true, nil
	}
	return "", s, false, nil
}

// variable parses one ${name} at the beginning of s.
func variable(s string) (name, rest string, ok bool) {
	if !strings.HasPrefix(s, "${") {
		return "", s, false
	}
	name, rest, ok = strings.Cut(s[2:], "}")
	return name, rest, ok && name != ""
}

// expand returns the bytes that a C line sends.
func expand(s string, vars map[string]string) (string, error) {
	var b strings.Builder
	for s != "" {
		if name, rest, ok := variable(s); ok {
			value, have := vars[name]
			if !have {
				return "", fmt.Errorf("${%s} has no value yet", name)
			}
			b.WriteString(value)
			s = rest
			continue
		}
		value, rest, ok, err := escape(s)
		if err != nil {
			return "", err
		}
		if ok {
			b.WriteString(value)
			s = rest
			continue
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String(), nil
}

// pattern is a compiled S line.
type pattern struct {
	re    *regexp.Regexp
	names []string
}

// compile compiles the pattern of text; known variables are replaced by their values.
func compile(text string, vars map[string]string) (*pattern, error) {
	p := &pattern{}
	var re strings.Builder
	re.WriteString(`\A(?s:`)
	plain := func(s string) {
		// Bytes that are not UTF-8 must match themselves, so every byte is matched as the rune with its number.
		for i := range len(s) {
			re.WriteString(regexp.QuoteMeta(string(rune(s[i]))))
		}
	}
	if strings.HasPrefix(text, "* ") {
		plain("* ")
		text = text[2:]
	}
	taken := map[string]bool{}
	for text != "" {
		name, rest, isVar := variable(text)
		value, after, isEscape, err := escape(text)
		switch {
		case err != nil:
			return nil, err
		case isVar && taken[name]:
			return nil, fmt.Errorf("${%s} is taken twice in one line", name)
		case isVar:
			if have, ok := vars[name]; ok {
				plain(have)
			} else {
				taken[name] = true
				p.names = append(p.names, name)
				re.WriteString(`([^\r\n]+?)`)
			}
			text = rest
		case isEscape:
			plain(value)
			text = after
		case len(text) > 1 && text[0] == '\\' && strings.IndexByte(`*$\`, text[1]) >= 0:
			plain(text[1:2])
			text = text[2:]
		case text[0] == '*':
			re.WriteString(`.*?`)
			text = text[1:]
		default:
			plain(text[:1])
			text = text[1:]
		}
	}
	re.WriteString(`)\z`)
	var err error
	p.re, err = regexp.Compile(re.String())
	return p, err
}

// match reports whether a line matches the pattern; if it does, it stores the captured words in vars.
func (p *pattern) match(line string, vars map[string]string) bool {
	m := p.re.FindStringSubmatch(widen(line))
	if m == nil {
		return false
	}
	for i, name := range p.names {
		vars[name] = narrow(m[i+1])
	}
	return true
}

// widen turns each byte into the rune with its number, narrow does the reverse; regexp works on runes.
func widen(s string) string {
	r := make([]rune, len(s))
	for i := range len(s) {
		r[i] = rune(s[i])
	}
	return string(r)
}

func narrow(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}
