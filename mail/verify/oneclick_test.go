package verify

import (
	"errors"
	"strings"
	"testing"
)

const (
	oneClickResults = "Authentication-Results: mx.example.com;\r\n" +
		"\tdkim=pass header.d=list.example header.s=s1 header.b=\"abc\"\r\n"
	oneClickOffer = "List-Unsubscribe: <mailto:u@list.example>,\r\n <https://list.example/u?id=1>\r\n" +
		"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
)

func oneClickSignature(h string) string {
	return "DKIM-Signature: v=1; a=rsa-sha256; d=list.example; s=s1; c=relaxed/relaxed; h=" + h +
		"; bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=YWJj\r\n"
}

// TestOneClick checks that the offer of a list counts only if a valid signature covers it.
func TestOneClick(t *testing.T) {
	t.Parallel()
	both := oneClickSignature("From:Subject:list-unsubscribe:List-Unsubscribe-Post")
	from := "From: <news@list.example>\r\n\r\n"
	good := oneClickResults + both + oneClickOffer + from
	for name, c := range map[string]struct {
		header string
		want   error
	}{
		"proven":            {good, nil},
		"not offered":       {oneClickResults + both + from, ErrNoOneClick},
		"only a mailto URL": {strings.Replace(good, "https:", "mailto:", 1), ErrNoOneClick},
		"only an http URL":  {strings.Replace(good, "https:", "http:", 1), ErrNoOneClick},
		"other words":       {strings.Replace(good, "=One-Click", "=Other", 1), ErrNoOneClick},
		"a second, unsigned offer": {good[:len(good)-2] + "List-Unsubscribe: <https://evil.example/>\r\n\r\n",
			ErrNoOneClick},
		"post not covered": {oneClickResults + oneClickSignature("From:List-Unsubscribe") + oneClickOffer + from,
			ErrUnsigned},
		"no signature": {oneClickResults + oneClickOffer + from, ErrUnsigned},
		"failed":       {strings.Replace(good, "dkim=pass", "dkim=fail", 1), ErrUnsigned},
		"in a comment": {strings.Replace(good, "dkim=pass",
			"dkim=fail (; dkim=pass header.d=list.example)", 1), ErrUnsigned},
		"another server's results": {strings.Replace(good, "mx.example.com", "mx.evil.example", 1), ErrUnsigned},
		"ours below another's": {"Authentication-Results: mx.evil.example; none\r\n" + good,
			ErrUnsigned},
		"one of two failed": {strings.Replace(good, "\r\nDKIM",
			";\r\n\tdkim=fail header.d=list.example header.s=s1\r\nDKIM", 1), ErrUnsigned},
		"empty": {"", ErrNoOneClick},
	} {
		url, err := OneClick([]byte(c.header), func(host string) bool { return host == "mx.example.com" })
		if !errors.Is(err, c.want) || (err == nil) != (url == "https://list.example/u?id=1") {
			t.Errorf("%s: %q, %v", name, url, err)
		}
	}
}

func FuzzOneClick(f *testing.F) {
	f.Add([]byte(oneClickResults + oneClickSignature("From:List-Unsubscribe:List-Unsubscribe-Post") + oneClickOffer +
		"\r\n"))
	f.Fuzz(func(t *testing.T, header []byte) {
		url, err := OneClick(header, func(string) bool { return true })
		if err == nil && !strings.HasPrefix(strings.ToLower(url), "https://") {
			t.Errorf("%q", url)
		}
	})
}
