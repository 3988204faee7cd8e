package websession

import (
	"crypto/tls"
	"net/http/httptest"
	"testing"

	"doublet/note"
	"doublet/serve/signin"
)

// BenchmarkIdentify measures the authentication of a request.
func BenchmarkIdentify(b *testing.B) {
	w := open(b, signin.Options{})
	_, app, err := w.dir.Passwords.AddApp(bg, note.System, w.bob.ID, "phone")
	w.ok(err)
	in := w.signedIn("alice")
	for name, header := range map[string][2]string{
		"password":     {"Authorization", basic("alice", "secret-alice")},
		"app password": {"Authorization", basic("bob", app)}, "bearer": {"Authorization", "Bearer " + app},
		"cookie": {"Cookie", in.cookies[0].Name + "=" + in.cookies[0].Value},
	} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest("POST", "https://mail.example.com/jmap/api", nil)
			r.RemoteAddr, r.TLS = elsewhere, &tls.ConnectionState{}
			r.Header.Set(header[0], header[1])
			r.Header.Set(CSRFField, in.csrf)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Identify(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
