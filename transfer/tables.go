package transfer

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"doublet/directory"
	"doublet/env"
)

// maxTableLine is the maximum length of a logical line of aliases and passwd.
const maxTableLine = 1 << 20

func insecureTLS() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} // with --insecure only
}

// logical calls fn for each logical line of a Postfix table. A line that begins with white space continues the previous
// one. Comments and empty lines are skipped.
func logical(r io.Reader, fn func(number int, line string) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxTableLine)
	var line strings.Builder
	begin, n := 0, 0
	flush := func() error {
		text := line.String()
		line.Reset()
		if text == "" {
			return nil
		}
		return fn(begin, text)
	}
	for s.Scan() {
		n++
		text := strings.TrimRight(s.Text(), " \t\r")
		bare := strings.TrimLeft(text, " \t")
		if bare == "" || bare[0] == '#' {
			continue
		}
		if len(bare) < len(text) && line.Len() > 0 {
			if line.Len()+len(text) > maxTableLine {
				return fmt.Errorf("%w: line %d is longer than %d bytes", ErrInvalid, begin, maxTableLine)
			}
			line.WriteByte(' ')
			line.WriteString(bare)
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		begin = n
		line.WriteString(bare)
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%w: line %d: %w", ErrInvalid, n+1, err)
	}
	return flush()
}

// postfix imports aliases(5) (name: targets) and virtual(5) (address targets).
func (in *intake) postfix(ctx context.Context, r io.Reader) error {
	return logical(r, func(number int, line string) error {
		where := "line " + strconv.Itoa(number)
		key, value := cutKey(line)
		if key == "" || value == "" {
			in.fail(where, errors.New("neither `name: targets` nor `address targets`"))
			return ctx.Err()
		}
		domain := strings.TrimPrefix(key, "@")
		switch {
		case strings.HasPrefix(key, "@"):
			in.fail(where, fmt.Errorf("catch-all address of %s is not supported: create the single addresses", domain))
			return ctx.Err()
		case strings.IndexByte(key, '@') < 0 && strings.IndexByte(key, '.') > 0 && strings.IndexByte(value, '@') < 0:
			in.note(where, "says that "+key+" is a domain: see doublet domain add")
			return ctx.Err()
		}
		a := incomingAlias{where: where, address: key}
		for _, t := range targets(value) {
			switch {
			case strings.HasPrefix(t, "|"), strings.HasPrefix(t, "/"), strings.HasPrefix(t, ":include:"):
				in.note(where,
					fmt.Sprintf("without the target %.100q: programs, files and lists in files are not taken", t))
			case strings.EqualFold(t, key), strings.EqualFold(in.qualify(t), in.qualify(key)):
				in.note(where, "names itself")
			default:
				a.targets = append(a.targets, strings.TrimPrefix(t, `\`))
			}
		}
		if len(a.targets) == 0 {
			in.fail(where, errors.New("no usable target"))
			return ctx.Err()
		}
		return in.alias(a)
	})
}

// cutKey splits a line: `name: value`, `"a name": value` or `address value`.
func cutKey(line string) (key, value string) {
	if rest, ok := strings.CutPrefix(line, `"`); ok {
		key, value, _ = strings.Cut(rest, `"`)
		value = strings.TrimPrefix(strings.TrimLeft(value, " \t"), ":")
		return key, strings.TrimSpace(value)
	}
	i := strings.IndexAny(line, ": \t")
	if i < 0 {
		return line, ""
	}
	return line[:i], strings.TrimSpace(strings.TrimPrefix(strings.TrimLeft(line[i:], " \t"), ":"))
}

// targets splits the right side of an alias at commas and white space outside quotes.
func targets(s string) (out []string) {
	var t strings.Builder
	quoted := false
	flush := func() {
		if t.Len() > 0 {
			out = append(out, t.String())
			t.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted && i+1 < len(s):
			i++
			t.WriteByte(s[i])
		case !quoted && (c == ',' || c == ' ' || c == '\t'):
			flush()
		default:
			t.WriteByte(c)
		}
	}
	flush()
	return out
}

// shadow reads the password hashes of shadow(5) by name. Without a file there are none.
func (in *intake) shadow(file string) (hashes map[string]string, err error) {
	hashes = map[string]string{}
	if file == "" {
		return hashes, nil
	}
	f, _, err := env.OpenRegular(in.env.FS, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return hashes, logical(f, func(_ int, line string) error {
		if name, rest, ok := strings.Cut(line, ":"); ok && len(hashes) < maxIncoming {
			hashes[name], _, _ = strings.Cut(rest, ":")
		}
		return nil
	})
}

// unixPerson returns a person with a login name, which may be an address, and the GECOS field.
func unixPerson(name, gecos string) (spec directory.PersonSpec) {
	full, _, _ := strings.Cut(gecos, ",")
	local, _, isAddress := strings.Cut(name, "@")
	if isAddress {
		spec.InternetAddress = name
		full = cmp.Or(full, local)
	} else {
		spec.ShortName = name
	}
	if full != "" || isAddress {
		spec.FullName = []string{full}
	}
	return spec
}

// passwd imports passwd(5), with the passwords of shadow(5), or a passwd-file of Dovecot.
func (in *intake) passwd(ctx context.Context, a *Table, r io.Reader) error {
	hashes, err := in.shadow(a.Shadow)
	if err != nil {
		return err
	}
	least := cmp.Or(a.MinUID, 1000)
	return logical(r, func(number int, line string) error {
		f := strings.Split(line, ":")
		where := "line " + strconv.Itoa(number)
		for len(f) < 7 {
			f = append(f, "")
		}
		name := f[0]
		if uid, err := strconv.Atoi(f[2]); err == nil && (uid < least || uid == 65534) && !strings.Contains(name, "@") {
			return ctx.Err()
		}
		spec := unixPerson(name, f[4])
		hash := f[1]
		if hash == "x" {
			hash = hashes[name]
		}
		switch {
		case strings.HasPrefix(hash, "!"), strings.HasPrefix(hash, "*"):
			in.note(where, name+" comes without a password: the account is locked there")
		case hash != "" && hash[0] != '$' && hash[0] != '{':
			in.secret(where, &spec, "{CRYPT}"+hash) // never as a plain-text password
		default:
			in.secret(where, &spec, hash)
		}
		return in.person(ctx, where, spec, name)
	})
}
