package verify

import (
	"strings"
	"testing"
)

// TestBrandDomain checks that a logo is shown only beside mail that DMARC proves.
func TestBrandDomain(t *testing.T) {
	t.Parallel()
	const good = "Authentication-Results: mx.example.com;\r\n\tspf=pass smtp.mailfrom=brand.example;\r\n" +
		"\tdmarc=pass (p=reject applied=none) header.from=brand.example\r\nFrom: Brand <news@brand.example>\r\n\r\n"
	const second = "\tdmarc=pass (p=reject applied=none) header.from=x.example;\r\n\tdmarc="
	change := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for name, c := range map[string]struct {
		header string
		ok     bool
	}{
		"reject":            {good, true},
		"quarantine":        {change("p=reject", "p=quarantine"), true},
		"capitals":          {change("@brand", "@Brand"), true},
		"no policy":         {change("p=reject", "p=none"), false},
		"without a comment": {change("(p=reject applied=none) ", ""), false},
		"failed":            {change("dmarc=pass", "dmarc=fail"), false},
		"another's results": {change("mx.example.com", "mx.evil.example"), false},
		"a second field":    {"Authentication-Results: x.example; none\r\n" + good, false},
		"another domain":    {change("news@brand.example", "news@evil.example"), false},
		"a subdomain":       {change("news@brand.example", "news@x.brand.example"), false},
		"two authors":       {change("From: ", "From: x@evil.example, "), false},
		"two From fields":   {change("From: ", "From: x@evil.example\r\nFrom: "), false},
		"two results":       {strings.ReplaceAll(good, "\tdmarc=", second), false},
		"no results":        {"From: news@brand.example\r\n\r\n", false},
		"no author":         {change("From: Brand <news@brand.example>\r\n", ""), false},
	} {
		domain, ok := BrandDomain([]byte(c.header), func(host string) bool { return host == "mx.example.com" })
		if ok != c.ok || ok != (domain == "brand.example") {
			t.Errorf("%s: %q, %v", name, domain, ok)
		}
	}
}
