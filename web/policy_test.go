package web

import (
	"strings"
	"testing"
)

func TestPagePolicy(t *testing.T) {
	t.Parallel()
	// openssl dgst -sha256 -binary | base64
	want := "default-src 'none'; style-src 'sha256-X1RutGBrXCt9KkSaXMK7tHftWiRscFHOhxsS8tv8hBk='; font-src 'self'; " +
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	if got := PagePolicy("<head><style>a{}</style></head>", "'self'"); got != want {
		t.Error(got)
	}
	if got := PagePolicy("<p>", "'none'"); !strings.Contains(got, "style-src 'none'; ") {
		t.Error(got)
	}
}

// TestPage checks that the template outputs the style unchanged, so that it matches the hash in the policy.
func TestPage(t *testing.T) {
	t.Parallel()
	page, policy := Page("<head><style>\nmain { max-width: 960px; }\n</style></head>{{.}}", "'none'")
	var b strings.Builder
	if err := page.Execute(&b, "text"); err != nil {
		t.Fatal(err)
	}
	if got := PagePolicy(b.String(), "'none'"); got != policy {
		t.Errorf("%s\n%s\n%s", got, policy, b.String())
	}
	for _, part := range []string{"--accent: #0b6152;", "@media (prefers-color-scheme: dark) { :root {", "@font-face",
		"main { max-width: 960px; }"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("the style has no %s", part)
		}
	}
}
