package ldapd

import (
	"fmt"
	"testing"

	client "github.com/go-ldap/ldap/v3"

	"doublet/directory"
	"doublet/note"
)

// BenchmarkSearch measures searches of one client over 10,000 people: by whole values, which indexes answer, by the
// beginning of a name, and by text in the middle of a name, which reads every record.
func BenchmarkSearch(b *testing.B) {
	w := open(b, settings{})
	specs := make([]directory.PersonSpec, 10_000)
	for i := range specs {
		specs[i].FullName, specs[i].ShortName = []string{fmt.Sprint("Person Number ", i)}, fmt.Sprint("user", i)
	}
	res, err := w.dir.People.Import(bg, note.System, specs, directory.ImportOptions{})
	w.ok(err)
	if res.Failed > 0 {
		b.Fatal(res)
	}
	c := w.client("chief", "secret-chief")
	for _, x := range []struct {
		name, filter string
		found        int
	}{
		{"uid", "(uid=user%d)", 1}, {"mail", "(mail=user%d@example.org)", 1},
		{"prefix", "(&(objectClass=person)(cn=person number 12%d*))", -1},
		{"substring", "(cn=*number 99%d*)", -1},
	} {
		b.Run(x.name, func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				filter := fmt.Sprintf(x.filter, n%len(specs))
				r, err := c.Search(client.NewSearchRequest("dc=example,dc=org", 2, 0, 0, 0, false, filter,
					[]string{"cn", "mail"}, nil))
				if err != nil || x.found >= 0 && len(r.Entries) != x.found {
					b.Fatal(filter, err)
				}
			}
		})
	}
}
