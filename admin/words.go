package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"doublet/store/blob"
)

// maxLine is the maximum length of a console command, in bytes.
const maxLine = 16 << 10

// Words splits a console command into words at white space. Quotes, single or double, hold a word together; a
// backslash takes away the meaning of the next character, except between single quotes.
func Words(line string) ([]string, error) {
	if len(line) > maxLine {
		return nil, fmt.Errorf("%w: a command has at most %d bytes", ErrUsage, maxLine)
	}
	var words []string
	var word strings.Builder
	quote, inside, escaped := rune(0), false, false
	end := func() {
		if inside {
			words = append(words, word.String())
			word.Reset()
			inside = false
		}
	}
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			inside, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && strings.ContainsRune(`"'`, r):
			inside, quote = true, r
		case quote == 0 && unicode.IsSpace(r):
			end()
		default:
			inside = true
			word.WriteRune(r)
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%w: the command ends within a quotation", ErrUsage)
	}
	end()
	return words, nil
}

// Arguments returns the arguments of a verb as a JSON object, from words as they stand on a command line: positional
// ones, --flag VALUE and --flag=VALUE.
func (v *Verb) Arguments(words []string) (json.RawMessage, error) {
	m := map[string]any{}
	positional := slices.DeleteFunc(slices.Clone(v.Params), func(p Param) bool { return p.Arg == "" })
	flags := true
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if name, isFlag := strings.CutPrefix(word, "--"); flags && isFlag {
			if name == "" {
				flags = false
				continue
			}
			var err error
			if words, err = v.flag(m, name, words); err != nil {
				return nil, fmt.Errorf("%w of %s: %w", ErrUsage, v.Name, err)
			}
			continue
		}
		if len(positional) == 0 {
			return nil, fmt.Errorf("%w of %s: %q is too much", ErrUsage, v.Name, word)
		}
		p := positional[0]
		switch p.Arg {
		case "words": // whatever follows, flags too
			m[p.Name] = append([]string{word}, words...)
			words = nil
		case "rest":
			list, _ := m[p.Name].([]string)
			m[p.Name] = append(list, word)
		default:
			if err := p.wholePath(word); err != nil {
				return nil, fmt.Errorf("%w of %s: %w", ErrUsage, v.Name, err)
			}
			m[p.Name], positional = word, positional[1:]
		}
	}
	for _, p := range v.Params {
		if _, there := m[p.Name]; !there && p.Secret && !p.Unasked {
			return nil, fmt.Errorf("%w of %s: %s is missing: a shell asks for it without showing it", ErrUsage, v.Name,
				p.Name)
		}
	}
	return json.Marshal(m)
}

// wholePath refuses a relative path for a file: the server does not run in the folder of the one who typed it. A bucket
// has no path.
func (p *Param) wholePath(value string) error {
	if p.File && !filepath.IsAbs(value) && !blob.IsS3(value) {
		return errors.New(value + ": give the whole path of the file")
	}
	return nil
}

// flag reads one flag into m, and returns the words after its value.
func (v *Verb) flag(m map[string]any, text string, words []string) (rest []string, err error) {
	name, value, given := strings.Cut(text, "=")
	key := strings.ReplaceAll(name, "-", "_")
	i := slices.IndexFunc(v.Params, func(p Param) bool { return p.Name == key && p.Arg == "" })
	if i < 0 {
		return nil, fmt.Errorf("unknown flag --%s", name)
	}
	p := v.Params[i]
	if p.Kind == "switch" {
		m[key] = true
		if given {
			if m[key], err = strconv.ParseBool(value); err != nil {
				return nil, fmt.Errorf("--%s: %q is neither true nor false", name, value)
			}
		}
		return words, nil
	}
	if !given {
		if len(words) == 0 {
			return nil, fmt.Errorf("--%s needs a value", name)
		}
		value, words = words[0], words[1:]
	}
	switch p.Kind {
	case "number":
		n, err := strconv.Atoi(value)
		if err != nil {
			return nil, fmt.Errorf("--%s: %q is not a whole number", name, value)
		}
		m[key] = n
	case "list":
		list, _ := m[key].([]string)
		m[key] = append(list, value)
	default:
		if err := p.wholePath(value); err != nil {
			return nil, err
		}
		m[key] = value
	}
	return words, nil
}
