// Package web embeds the browser client as built by make web, and only the files that a browser loads. The built files
// are in the repository, so that the server can be built without Node.
package web

import (
	"embed"
	"encoding/json"
	"io/fs"
	"regexp"
	"strings"
)

//go:embed all:dist
var dist embed.FS

// Client returns the files of the built client: index.html, sw.js, icon.svg, manifest.webmanifest and assets/. The
// names in assets/ change with the content.
func Client() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

//go:embed src/text/*.json src/text/pages/*.json src/text/rules/*.json src/text/search/*.json src/text/plan/*.json
//go:embed src/text/aside/*.json src/text/later/*.json src/text/senders/*.json src/text/passkeys/*.json
//go:embed src/text/deleted/*.json
//go:embed src/look/tokens.css src/look/page.css
var shared embed.FS

// Texts returns the texts of the clients, of searches (src/text/search), of rules (src/text/rules) and of
// server-rendered pages (src/text/pages, and src/text/plan for calendars and contacts), by language ("en") and key.
// Keys of other parts of the client begin with the name of the part ("later.none"). {0} stands for a value. Every
// language has every key.
func Texts() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, dir := range []struct{ pattern, prefix string }{{"*.json", ""}, {"search/*.json", ""}, {"rules/*.json", ""},
		{"pages/*.json", ""}, {"plan/*.json", ""}, {"aside/*.json", "aside."}, {"later/*.json", "later."},
		{"senders/*.json", "senders."}, {"passkeys/*.json", "passkeys."},
		{"deleted/*.json", "deleted."}} {
		names, err := fs.Glob(shared, "src/text/"+dir.pattern)
		for _, name := range names {
			texts := map[string]string{}
			var raw []byte
			if raw, err = shared.ReadFile(name); err == nil {
				err = json.Unmarshal(raw, &texts)
			}
			if err != nil {
				break
			}
			language := strings.TrimSuffix(name[strings.LastIndexByte(name, '/')+1:], ".json")
			if out[language] == nil {
				out[language] = map[string]string{}
			}
			for key, text := range texts {
				out[language][dir.prefix+key] = text
			}
		}
		if err != nil {
			panic(err) // a test reads all files
		}
	}
	return out
}

// Sheet returns a style sheet for server-rendered pages, followed by the page's own rules. It has the client's typeface
// and the tokens of the look, with dark ones for devices in dark mode.
func Sheet(own string) string {
	light, dark, _ := strings.Cut(look("tokens.css"), `:root[data-theme="dark"]`)
	var b strings.Builder
	for _, f := range fonts() {
		b.WriteString("@font-face { font-family: \"Atkinson Hyperlegible Next\"; src: url(\"/" + f.path +
			"\") format(\"woff2\"); font-weight: 200 800; font-display: swap; unicode-range: " + f.characters + "; }\n")
	}
	b.WriteString(light + "@media (prefers-color-scheme: dark) { :root" + dark + "}\n" + own)
	return b.String()
}

// look returns a style sheet without its comments. Templates remove comments, but the policy of a page is a hash of the
// exact text.
func look(name string) string {
	raw, err := shared.ReadFile("src/look/" + name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return cssComment.ReplaceAllString(string(raw), "")
}

var cssComment = regexp.MustCompile(`(?s)/\*.*?\*/\n?`)

// font is a file of the typeface with its characters (the CSS descriptor unicode-range).
type font struct{ path, characters string }

var fontFace = regexp.MustCompile(`@font-face\{[^}]*url\(([^)]*)\)[^}]*unicode-range:([^;}]*)`)

// fonts returns the files of the typeface, from the built style sheet.
func fonts() (list []font) {
	names, _ := fs.Glob(Client(), "assets/*.css") // the pattern is well-formed
	for _, name := range names {
		sheet, err := fs.ReadFile(Client(), name)
		if err != nil {
			panic(err) // the file is embedded
		}
		for _, m := range fontFace.FindAllSubmatch(sheet, -1) {
			list = append(list, font{strings.Trim(string(m[1]), `"'/`), string(m[2])})
		}
	}
	return list
}
