package config

import (
	_ "embed"
	"strings"
)

//go:embed notesini.txt
var notesINI string

// NotesSetting is a setting of Domino's notes.ini and what takes its place.
type NotesSetting struct {
	Name string
	// Keys are the settings in its place; without any, Text says why there is none.
	Keys []string
	Text string
}

// NotesSettings returns the settings of notes.ini that the documents of the workbench name. The first comment of
// notesini.txt describes its format.
func NotesSettings() (list []NotesSetting) {
	for line := range strings.Lines(notesINI) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, ":")
		keys, text, _ := strings.Cut(rest, "|")
		list = append(list, NotesSetting{name, strings.Fields(keys), strings.TrimSpace(text)})
	}
	return list
}

// notesMarkdown returns the chapter of doc/config.md on notes.ini.
func notesMarkdown() string {
	var b strings.Builder
	b.WriteString("\n## From notes.ini\n\n" +
		"The settings of Domino's notes.ini that the documents of the workbench name, and " +
		"what takes their place here. [switches.md](switches.md) " +
		"says what each switch saves or costs, and by which statistics.\n\n" +
		"| notes.ini | here | remark |\n|---|---|---|\n")
	for _, s := range NotesSettings() {
		here := "none"
		if len(s.Keys) > 0 {
			here = "`" + strings.Join(s.Keys, "`, `") + "`"
		}
		b.WriteString("| `" + s.Name + "` | " + here + " | " + s.Text + " |\n")
	}
	return b.String()
}
