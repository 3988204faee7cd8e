package websession

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// maxAuthorization bounds the Authorization field in bytes. Tokens of identity providers are long.
const maxAuthorization = 20 << 10

// authorization holds the credentials in an Authorization field.
type authorization struct {
	basic  bool // Basic, else Bearer
	user   string
	secret string
}

// parseAuthorization parses the Authorization field, which must occur exactly once.
//
// Implements: RFC 7617 §2 The Basic authentication scheme
// Implements: RFC 6750 §2.1 Bearer tokens in the Authorization request header field
func parseAuthorization(fields []string) (a authorization, ok bool) {
	if len(fields) != 1 || len(fields[0]) > maxAuthorization {
		return a, false
	}
	scheme, rest, ok := strings.Cut(fields[0], " ")
	rest = strings.Trim(rest, " ")
	if !ok || rest == "" {
		return a, false
	}
	switch strings.ToLower(scheme) {
	case "basic":
		raw, err := base64.StdEncoding.DecodeString(rest)
		if err != nil || !utf8.Valid(raw) {
			return a, false
		}
		user, secret, ok := strings.Cut(string(raw), ":")
		if !ok || strings.ContainsFunc(string(raw), control) {
			return a, false
		}
		return authorization{basic: true, user: user, secret: secret}, true
	case "bearer":
		if strings.Trim(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=") != "" {
			return a, false
		}
		return authorization{secret: rest}, true
	}
	return a, false
}

func control(c rune) bool { return c < 0x20 || c == 0x7f }
