package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// TestDumpSecrets checks that a dump of the directory does not contain keys, passwords or password hashes.
func TestDumpSecrets(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.SCRAM = true
	ctx := context.Background()
	run := func(verb, args string) string {
		t.Helper()
		var out strings.Builder
		if _, err := s.Run(ctx, note.System, verb, json.RawMessage(args),
			func(p Progress) { out.WriteString(p.Output) }); err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
		return out.String()
	}
	run("user add", `{"name":"Ada Lovelace","short":"ada","password":"correct horse battery"}`)
	run("user app-password add", `{"name":"ada","label":"phone"}`)
	run("domain key add", `{"domain":"example.com","algorithm":"ed25519"}`)
	run("route add",
		`{"pattern":"far.example","tls":"verify","host":"relay.example","user":"u","password":"open sesame 7"}`)
	secrets := map[string]string{} // by item
	notes := 0
	err := s.Store.Read(ctx, note.System, directory.ID, func(r *store.Reader) error {
		return r.Notes(1, func(id note.ID, _ *layout.Note) bool {
			notes = max(notes, int(id))
			c, err := r.Content(id)
			if err != nil {
				t.Error(err)
				return false
			}
			for _, it := range c.Content.Items {
				for _, name := range []string{"HTTPPassword", "ScramCredentials", "Secret", "PrivateKey",
					"UserPassword", "AppPassword."} {
					if strings.HasPrefix(it.Name, name) {
						b, err := it.Value.MarshalJSON()
						if err != nil {
							t.Error(err)
						}
						secrets[name] = string(bytes.Trim(b, `"`))
					}
				}
			}
			return true
		})
	})
	if err != nil || len(secrets) != 6 {
		t.Fatalf("%d kinds of secrets: %v", len(secrets), err)
	}
	all := run("dump database", fmt.Sprintf(`{"database":%q,"rows":true}`, directory.ID)) +
		run("dump database", fmt.Sprintf(`{"database":%q,"lines":true}`, directory.ID))
	for id := 1; id <= notes; id++ {
		all += run("dump note", fmt.Sprintf(`{"database":%q,"note":"%d"}`, directory.ID, id))
	}
	for name, value := range secrets {
		if strings.Contains(all, value) {
			t.Errorf("the value of %s shows", name)
		}
		if !strings.Contains(all, name) {
			t.Errorf("%s is not there at all", name)
		}
	}
	if !strings.Contains(all, "(secret, ") {
		t.Error("nothing says that something is left out")
	}
}
