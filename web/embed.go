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

//go:embed src/text/*.json src/text/pages/*.json src/look/tokens.css
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

// Tokens are the colours and lengths of the look, as CSS: for a dark page below :root[data-theme="dark"].
func Tokens() string {
	raw, err := shared.ReadFile("src/look/tokens.css")
	if err != nil {
		panic(err) // the file is named above
	}
	return string(raw)
}

// Font is a file of the typeface, and which characters it has (the CSS descriptor unicode-range).
type Font struct{ Path, Range string }

var fontFace = regexp.MustCompile(`@font-face\{[^}]*url\(([^)]*)\)[^}]*unicode-range:([^;}]*)`)

// Fonts are the files of the typeface, as the built style sheet names them.
func Fonts() (list []Font) {
	names, _ := fs.Glob(Client(), "assets/*.css") // the pattern is well-formed
	for _, name := range names {
		sheet, err := fs.ReadFile(Client(), name)
		if err != nil {
			panic(err) // it was there a moment ago, within the binary
		}
		for _, m := range fontFace.FindAllSubmatch(sheet, -1) {
			list = append(list, Font{strings.Trim(string(m[1]), `"'/`), string(m[2])})
		}
	}
	return list
}
