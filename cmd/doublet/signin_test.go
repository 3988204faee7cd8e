package main

import (
	"testing"

	"doublet/cmd/doublet/config"
)

func TestPasskeyOrigin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, name, http, https, want string }{
		{"https://mail.example.com/web/", "mx.example.com", ":80", ":443", "https://mail.example.com"},
		{"https://mail.example.com:8443", "mx.example.com", ":80", ":443", "https://mail.example.com:8443"},
		{"", "mx.example.com", ":80", ":443", "https://mx.example.com"},
		{"", "mx.example.com", ":80", ":8443", "https://mx.example.com:8443"},
		{"", "mx.example.com", "127.0.0.1:8080", "off", "https://mx.example.com"},
		{"", "localhost", "127.0.0.1:8080", "127.0.0.1:8443", "http://localhost:8080"},
		{"", "localhost", "off", "127.0.0.1:8443", "https://localhost:8443"},
	} {
		cfg := config.Config{}
		cfg.Web.URL, cfg.Server.Name, cfg.Doors.HTTP, cfg.Doors.HTTPS = c.url, c.name, c.http, c.https
		if got := webOrigin(&cfg); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
