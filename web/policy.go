package web

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"strings"
)

// PagePolicy is the Content-Security-Policy of a page that the server makes: the style element that it holds, as it
// stands there, the typeface, and nothing else. forms says where its forms go ('self' or 'none').
func PagePolicy(page, forms string) string {
	style := "'none'"
	if _, rest, ok := strings.Cut(page, "<style>"); ok {
		text, _, _ := strings.Cut(rest, "</style>")
		sum := sha256.Sum256([]byte(text))
		style = "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + style + "; font-src 'self'; base-uri 'none'; form-action " + forms + "; frame-ancestors 'none'"
}

// Page is a page that the server makes: its template, with the look before the style that it has itself, and its
// Content-Security-Policy. forms says where its forms go ('self' or 'none').
func Page(text, forms string) (page *template.Template, policy string) {
	text = strings.Replace(text, "<style>", "<style>\n"+Sheet(look("page.css")), 1)
	return template.Must(template.New("page").Parse(text)), PagePolicy(text, forms)
}
