// Package web holds the browser client as it was built by make web: what a browser loads, and nothing else
// of this folder. The built files are kept with the sources, so that a server is built without Node.
package web

import (
	"embed"
	"encoding/json"
	"io/fs"
	"maps"
	"regexp"
	"strings"
)

//go:embed all:dist
var dist embed.FS

// Client is the built client: index.html, sw.js, icon.svg, manifest.webmanifest and assets/, whose names change
// with what they hold.
func Client() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the folder is named above
	}
	return sub
}

//go:embed src/text/*.json src/text/pages/*.json src/look/tokens.css src/look/page.css
var shared embed.FS

// Texts are all texts of the clients, and of the pages that the server makes (src/text/pages), by language ("en") and key; {0}
// stands for a value. Every language has every key.
func Texts() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, dir := range []string{"src/text/*.json", "src/text/pages/*.json"} {
		names, err := fs.Glob(shared, dir)
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
			maps.Copy(out[language], texts)
		}
		if err != nil {
			panic(err) // a test reads them
		}
	}
	return out
}

// Sheet is a style sheet of pages that the server makes, for a rest that is their own: the typeface that the client ships, and the
// tokens of the look, the dark ones where the device wants it dark.
func Sheet(own string) string {
	light, dark, _ := strings.Cut(look("tokens.css"), `:root[data-theme="dark"]`)
	var b strings.Builder
	for _, f := range fonts() {
		b.WriteString("@font-face { font-family: \"Atkinson Hyperlegible Next\"; src: url(\"/" + f.path + "\") format(\"woff2\"); font-weight: 200 800; font-display: swap; unicode-range: " + f.characters + "; }\n")
	}
	b.WriteString(light + "@media (prefers-color-scheme: dark) { :root" + dark + "}\n" + own)
	return b.String()
}

// look is a sheet without its comments: a template leaves them out, and the policy of a page counts every sign of its style.
func look(name string) string {
	raw, err := shared.ReadFile("src/look/" + name)
	if err != nil {
		panic(err) // the file is named above
	}
	return cssComment.ReplaceAllString(string(raw), "")
}

var cssComment = regexp.MustCompile(`(?s)/\*.*?\*/\n?`)

// font is a file of the typeface, and which characters it has (the CSS descriptor unicode-range).
type font struct{ path, characters string }

var fontFace = regexp.MustCompile(`@font-face\{[^}]*url\(([^)]*)\)[^}]*unicode-range:([^;}]*)`)

// fonts are the files of the typeface, as the built style sheet names them.
func fonts() (list []font) {
	names, _ := fs.Glob(Client(), "assets/*.css") // the pattern is well-formed
	for _, name := range names {
		sheet, err := fs.ReadFile(Client(), name)
		if err != nil {
			panic(err) // it was there a moment ago, within the binary
		}
		for _, m := range fontFace.FindAllSubmatch(sheet, -1) {
			list = append(list, font{strings.Trim(string(m[1]), `"'/`), string(m[2])})
		}
	}
	return list
}
