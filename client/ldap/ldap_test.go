package ldap

import (
	"errors"
	"testing"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]URL{
		"ldap://h/dc=example,dc=com": {Address: "h:389", Host: "h", Base: "dc=example,dc=com",
			Scope: 2, Filter: "(objectClass=*)"},
		"ldaps://h:1636/ou=People??one?(uid=*)": {Address: "h:1636", Host: "h", TLS: true, Base: "ou=People",
			Scope: 1, Filter: "(uid=*)"},
		"ldap://[::1]/o=a%20b?cn,mail?base?%28cn%3Dx)": {Address: "[::1]:389", Host: "::1", Base: "o=a b", Scope: 0,
			Filter: "(cn=x)"},
	} {
		if got, err := ParseURL(s); err != nil || got != want {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "h", "http://h/", "ldap:///x", "ldap://h/x??tree", "ldap://h/x???(uid"} {
		if got, err := ParseURL(s); !errors.Is(err, ErrURL) {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
}
