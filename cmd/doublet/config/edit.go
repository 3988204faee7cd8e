package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Set returns the configuration file with a new value for one setting. The rest of the file stays as it was, comments
// included. The value has the form of an environment variable's.
func Set(path string, file []byte, key, value string) ([]byte, error) {
	f, ok := fieldOf(key)
	if !ok {
		return nil, &Error{"setting", key, unknown(key)}
	}
	want := Default()
	if err := want.decode(path, file, map[string]string{}); err != nil {
		return nil, err
	}
	if err := f.parse(&want, value); err != nil {
		return nil, &Error{"setting", key, err}
	}
	if err := f.check(&want); err != nil {
		return nil, &Error{"setting", key, err}
	}
	return verified(path, putLine(file, f, f.literal(&want)), key, want)
}

// Unset returns the configuration file without one setting, which then has its default.
func Unset(path string, file []byte, key string) ([]byte, error) {
	f, ok := fieldOf(key)
	if !ok {
		return nil, &Error{"setting", key, unknown(key)}
	}
	want, usual := Default(), Default()
	if err := want.decode(path, file, map[string]string{}); err != nil {
		return nil, err
	}
	f.in(&want).Set(f.in(&usual))
	lines := bytes.SplitAfter(file, []byte("\n"))
	if at, _ := place(file, f); at >= 0 {
		lines = append(lines[:at:at], lines[at+1:]...)
	}
	return verified(path, bytes.Join(lines, nil), key, want)
}

// verified returns the edited file after it has checked that only the one setting changed. The check is needed because
// Set and Unset edit lines and do not understand every form of TOML.
func verified(path string, edited []byte, key string, want Config) ([]byte, error) {
	got := Default()
	if err := got.decode(path, edited, map[string]string{}); err != nil || got != want {
		return nil,
			&Error{path, key,
				errors.New("unsupported layout (want one setting per line below its [section]): edit the file by hand")}
	}
	return edited, nil
}

// putLine replaces the value in the line of a setting; a comment behind it stays. Without such a line it adds one below
// the section's header, or at the end of the file.
func putLine(file []byte, f field, literal string) []byte {
	section, key, _ := strings.Cut(f.key, ".")
	line := key + " = " + literal + "\n"
	lines := bytes.SplitAfter(file, []byte("\n"))
	at, header := place(file, f)
	switch {
	case at >= 0:
		start, end := value(lines[at])
		lines[at] = slices.Replace(lines[at], start, end, []byte(literal)...)
	case header >= 0:
		lines[header] = fmt.Appendf(bytes.TrimRight(lines[header], "\n"), "\n%s", line)
	default:
		if n := len(file); n > 0 && file[n-1] != '\n' {
			lines = append(lines, []byte("\n"))
		}
		lines = append(lines, fmt.Appendf(nil, "\n[%s]\n%s", section, line))
	}
	return bytes.Join(lines, nil)
}

// value returns the bounds of the value in a line of the form KEY = VALUE # comment.
func value(line []byte) (start, end int) {
	start = bytes.IndexByte(line, '=') + 1
	start += len(line[start:]) - len(bytes.TrimLeft(line[start:], " \t"))
	var quote byte // of the string that is open, 0 outside of strings
	for end = start; end < len(line) && (quote != 0 || line[end] != '#'); end++ {
		switch c := line[end]; {
		case quote == '"' && c == '\\' && end+1 < len(line):
			end++
		case c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		}
	}
	return start, start + len(bytes.TrimRight(line[start:end], " \t\r\n"))
}

// place returns the index of a setting's line and of its section's header, -1 for a line that is absent.
func place(file []byte, f field) (at, header int) {
	at, header = -1, -1
	section, key, _ := strings.Cut(f.key, ".")
	for i, line := range written(file) {
		switch line {
		case writtenLine{section, ""}:
			header = i
		case writtenLine{section, key}:
			at = i
		}
	}
	return at, header
}
