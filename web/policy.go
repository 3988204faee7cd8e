package web

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"strings"
)

// PagePolicy returns the Content-Security-Policy of a server-rendered page. It allows the page's style element, by a
// hash of its exact text, and the typeface, and nothing else. forms is the allowed target of forms ('self' or 'none').
func PagePolicy(page, forms string) string {
	style := "'none'"
	if _, rest, ok := strings.Cut(page, "<style>"); ok {
		text, _, _ := strings.Cut(rest, "</style>")
		sum := sha256.Sum256([]byte(text))
		style = "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + style + "; font-src 'self'; base-uri 'none'; form-action " + forms +
		"; frame-ancestors 'none'"
}

// Page returns the template of a server-rendered page, with the common style sheet before the page's own style, and its
// Content-Security-Policy. forms is the allowed target of forms ('self' or 'none').
func Page(text, forms string) (page *template.Template, policy string) {
	text = strings.Replace(text, "<style>", "<style>\n"+Sheet(look("page.css")), 1)
	return template.Must(template.New("page").Parse(text)), PagePolicy(text, forms)
}
