package ldapd

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	client "github.com/go-ldap/ldap/v3"

	"doublet/directory"
	"doublet/note"
)

// replica is a client's copy of the result of a search, by the UUID of each entry.
type replica struct {
	c       *client.Conn
	req     *client.SearchRequest
	cookie  []byte
	entries map[string]string
	whole   int // entries of the last refresh that came with attributes
}

func printed(e *client.Entry) string {
	var b strings.Builder
	printEntries(&b, &client.SearchResult{Entries: []*client.Entry{e}})
	return b.String()
}

// refresh brings the copy up to date.
func (x *replica) refresh() error {
	req := *x.req // Syncrepl adds its control to the request
	r := x.c.Syncrepl(bg, &req, 0, client.SyncRequestModeRefreshOnly, x.cookie, false)
	next := map[string]string{}
	x.whole = 0
	for r.Next() {
		for _, c := range r.Controls() {
			switch c := c.(type) {
			case *client.ControlSyncState:
				id := c.EntryUUID.String()
				if next[id] = x.entries[id]; c.State == client.SyncStateAdd {
					next[id] = printed(r.Entry())
					x.whole++
				} else if _, had := x.entries[id]; !had {
					return fmt.Errorf("entry %s is present, but never came", r.Entry().DN)
				}
			case *client.ControlSyncDone:
				x.cookie = c.Cookie
			}
		}
	}
	x.entries = next
	return r.Err()
}

// TestSync changes the directory at random and refreshes copies of several searches, which then equal what the searches
// return. It also checks that little is sent where little has changed.
func TestSync(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	c := w.client("chief", "secret-chief")
	var copies []*replica
	for _, x := range []struct{ filter, attributes string }{
		{"(objectClass=*)", "*"}, {"(mail=*)", "cn mail uid"},
		{"(memberOf=cn=Staff,ou=groups,dc=example,dc=org)", "cn"}, {"(&(objectClass=person)(cn=*a*))", "cn"},
	} {
		req := client.NewSearchRequest("dc=example,dc=org", 2, 0, 0, 0, false, x.filter,
			strings.Fields(x.attributes), nil)
		copies = append(copies, &replica{c: c, req: req})
	}
	r := rand.New(rand.NewPCG(3, 3))
	var people []note.UNID
	staff, err := w.dir.Groups.Named(bg, "Staff")
	w.ok(err)
	for i := range 40 {
		switch n := r.IntN(4); {
		case n == 0 || len(people) == 0:
			people = append(people, w.person(fmt.Sprint("Sync Person ", i), fmt.Sprint("s", i)).ID)
		case n == 1:
			at := people[r.IntN(len(people))]
			_, err = w.dir.People.Set(bg, note.System, at, func(f *directory.PersonFields) error {
				f.FullName, f.Disabled = []string{fmt.Sprint("Renamed ", i)}, r.IntN(4) == 0
				return nil
			})
		case n == 2:
			at := r.IntN(len(people))
			err = w.dir.People.Remove(bg, note.System, people[at])
			people = append(people[:at], people[at+1:]...)
		default:
			_, err = w.dir.Groups.Set(bg, note.System, staff.ID, func(f *directory.GroupFields) error {
				f.Members = []string{people[r.IntN(len(people))].String()}
				return nil
			})
		}
		w.ok(err)
		for _, x := range copies {
			if r.IntN(2) == 0 {
				continue
			}
			w.ok(x.refresh())
			want := map[string]string{}
			req := *x.req
			res, err := c.Search(&req)
			w.ok(err)
			for _, e := range res.Entries {
				want[e.DN] = printed(e)
			}
			have := map[string]string{}
			for _, text := range x.entries {
				dn, _, _ := strings.Cut(strings.TrimPrefix(text, "dn: "), "\n")
				have[dn] = text
			}
			if !maps.Equal(have, want) {
				t.Fatalf("step %d, %s:\n%q\nwant\n%q", i, req.Filter, have, want)
			}
		}
	}
	plain := copies[1]
	w.ok(plain.refresh())
	w.ok(plain.refresh())
	if len(plain.entries) == 0 || plain.whole != 0 {
		t.Errorf("%d of %d entries came again without a change", plain.whole, len(plain.entries))
	}
	w.person("One More", "more")
	w.ok(plain.refresh())
	if plain.whole != 1 {
		t.Errorf("%d entries came for one new person", plain.whole)
	}
	plain.cookie = []byte("nonsense")
	w.ok(plain.refresh())
	if plain.whole != len(plain.entries) {
		t.Errorf("%d of %d entries came for a cookie of somewhere else", plain.whole, len(plain.entries))
	}
	s := c.Syncrepl(bg, plain.req, 0, client.SyncRequestModeRefreshAndPersist, nil, false)
	for s.Next() {
	}
	w.wants(s.Err(), client.LDAPResultUnwillingToPerform, "refreshOnly")
}
