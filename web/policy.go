package web

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// PagePolicy is the Content-Security-Policy of a page that the server makes: the style element that it holds, as it
// stands there, and nothing else. forms says where its forms go ('self' or 'none').
func PagePolicy(page, forms string) string {
	style := "'none'"
	if _, rest, ok := strings.Cut(page, "<style>"); ok {
		text, _, _ := strings.Cut(rest, "</style>")
		sum := sha256.Sum256([]byte(text))
		style = "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + style + "; base-uri 'none'; form-action " + forms + "; frame-ancestors 'none'"
}
