package config

import (
	_ "embed"
	"strings"
)

//go:embed settings.txt
var settings string

// docs holds the descriptions of sections, by name, and of settings, by key.
var docs = readDocs(settings)

// readDocs parses settings.txt. Its first comment describes the format.
func readDocs(text string) map[string]string {
	out := map[string]string{}
	section, key := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == ' ':
			out[key] += " " + strings.TrimSpace(line)
		case line[0] == '[':
			section, line, _ = strings.Cut(line[1:], "] ")
			key = section
			out[key] = line
		default:
			name, doc, _ := strings.Cut(line, ": ")
			key = section + "." + name
			out[key] = doc
		}
	}
	return out
}
