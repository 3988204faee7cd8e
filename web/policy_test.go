package web

import (
	"strings"
	"testing"
)

func TestPagePolicy(t *testing.T) {
	t.Parallel()
	// openssl dgst -sha256 -binary | base64
	want := "default-src 'none'; style-src 'sha256-X1RutGBrXCt9KkSaXMK7tHftWiRscFHOhxsS8tv8hBk='; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	if got := PagePolicy("<head><style>a{}</style></head>", "'self'"); got != want {
		t.Error(got)
	}
	if got := PagePolicy("<p>", "'none'"); !strings.Contains(got, "style-src 'none'; ") {
		t.Error(got)
	}
}
