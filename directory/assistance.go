package directory

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"doublet/directory/assist"
	"doublet/note"
	"doublet/store"
)

// formAssistance is the form of directory assistance documents. Each describes another LDAP directory whose people and
// groups are looked up and authenticated here. Only the server itself may read these notes, because they hold the
// password for the other directory.
const formAssistance = "DirectoryAssistance"

// The names of a directory assistance document's items. Its password uses the item name of a route.
const (
	itemAssistName    = "DirectoryName"
	itemAssistOrder   = "SearchOrder"
	itemAssistOff     = "DirectoryDisabled"
	itemAssistURLs    = "LDAPServers"
	itemAssistTLS     = "ChannelEncryption"
	itemAssistCA      = "TrustedRoots"
	itemAssistBase    = "BaseDN"
	itemAssistBind    = "BindDN"
	itemAssistKind    = "DirectoryKind"
	itemAssistPeople  = "PeopleFilter"
	itemAssistLookup  = "LookupFilter"
	itemAssistGroups  = "GroupFilter"
	itemAssistShort   = "ShortNameAttribute"
	itemAssistFull    = "FullNameAttribute"
	itemAssistMail    = "MailAttribute"
	itemAssistMember  = "MemberAttribute"
	itemAssistUses    = "DirectoryUses"
	itemAssistEnroll  = "EnrollPeople"
	itemAssistDomains = "TrustedDomains"
	itemAssistTimeout = "Timeout"   // milliseconds
	itemAssistCache   = "CacheTime" // milliseconds
)

// indexAssistance is the index of all directory assistance documents, under the key 'd', and of the groups whose
// members are those of a group of another directory, under 'g'.
const indexAssistance uint64 = 12

// Limits on other directories: their number, and the bytes of a name.
const (
	MaxAssistance     = 20
	maxAssistanceName = 100
)

func assistanceKeys(form string, items note.Items) [][]byte {
	switch {
	case form == formAssistance:
		return [][]byte{{'d'}}
	case form == formGroup && items.Get(itemGroupDirectory) != nil && items.Get(itemRemoved) == nil:
		return [][]byte{{'g'}}
	}
	return nil
}

// AssistanceFields are the parts of a directory assistance document that an administrator sets.
type AssistanceFields struct {
	// Name is unique in any case.
	Name string
	// Order is the place among the directories, the lowest first; directories of one order are sorted by name.
	Order int
	// Off switches the directory off. Its people cannot sign in then.
	Off bool
	assist.Settings
}

// OtherDirectory is a directory assistance document.
type OtherDirectory struct {
	ID note.UNID
	AssistanceFields
}

func (f *AssistanceFields) write(items note.Items) note.Items {
	x := fields{items}
	x.text(itemForm, formAssistance)
	x.text(itemAssistName, f.Name)
	x.int(itemAssistOrder, int64(f.Order))
	x.bool(itemAssistOff, f.Off)
	x.list(itemAssistURLs, f.URLs)
	x.text(itemAssistTLS, f.TLS)
	x.text(itemAssistCA, f.CA)
	x.text(itemAssistBase, f.Base)
	x.text(itemAssistBind, f.BindDN)
	x.text(itemRoutePassword, f.Password)
	x.text(itemAssistKind, f.Kind)
	x.text(itemAssistPeople, f.People)
	x.text(itemAssistLookup, f.Lookup)
	x.text(itemAssistGroups, f.Groups)
	x.text(itemAssistShort, f.Short)
	x.text(itemAssistFull, f.Settings.Name)
	x.text(itemAssistMail, f.Mail)
	x.text(itemAssistMember, f.Member)
	x.list(itemAssistUses, f.Uses)
	x.bool(itemAssistEnroll, f.Enroll)
	x.list(itemAssistDomains, f.Domains)
	x.int(itemAssistTimeout, int64(f.Timeout/time.Millisecond))
	x.int(itemAssistCache, int64(f.Cache/time.Millisecond))
	return x.items
}

func readAssistance(id note.UNID, items note.Items) OtherDirectory {
	text := func(name string) string { return items.Get(name).AsText() }
	list := func(name string) []string { return items.Get(name).AsTextList() }
	span := func(name string) time.Duration { return time.Duration(items.Get(name).AsInt()) * time.Millisecond }
	return OtherDirectory{ID: id, AssistanceFields: AssistanceFields{
		Name: text(itemAssistName), Order: int(items.Get(itemAssistOrder).AsInt()),
		Off: items.Get(itemAssistOff).AsBool(),
		Settings: assist.Settings{
			URLs: list(itemAssistURLs), TLS: text(itemAssistTLS), CA: text(itemAssistCA), Base: text(itemAssistBase),
			BindDN: text(itemAssistBind), Password: text(itemRoutePassword), Kind: text(itemAssistKind),
			People: text(itemAssistPeople), Lookup: text(itemAssistLookup), Groups: text(itemAssistGroups),
			Short: text(itemAssistShort), Name: text(itemAssistFull), Mail: text(itemAssistMail),
			Member: text(itemAssistMember), Uses: list(itemAssistUses), Enroll: items.Get(itemAssistEnroll).AsBool(),
			Domains: list(itemAssistDomains), Timeout: span(itemAssistTimeout), Cache: span(itemAssistCache),
		},
	}}
}

var assistanceRecord = record[OtherDirectory, AssistanceFields]{formAssistance, 0, readAssistance,
	func(d *OtherDirectory) *AssistanceFields { return &d.AssistanceFields }, (*AssistanceFields).write,
	(*edit).checkAssistance}

// checkAssistance checks and normalizes fields. was holds the current fields, nil for a new document.
func (e *edit) checkAssistance(f, was *AssistanceFields) error {
	f.Name = strings.TrimSpace(f.Name)
	if f.Name == "" || len(f.Name) > maxAssistanceName ||
		strings.ContainsFunc(f.Name, func(r rune) bool { return r < ' ' }) {
		return fmt.Errorf("%w directory: a name has 1 to %d bytes in one line", ErrInvalid, maxAssistanceName)
	}
	if err := f.Check(); err != nil {
		return fmt.Errorf("%w directory %q: %w", ErrInvalid, f.Name, err)
	}
	list, err := assistanceIn(&e.w.Reader)
	if err != nil {
		return err
	}
	if was == nil && len(list) >= MaxAssistance {
		return fmt.Errorf("%w: at most %d other directories", ErrTooMany, MaxAssistance)
	}
	for i := range list {
		if strings.EqualFold(list[i].Name, f.Name) && (was == nil || !strings.EqualFold(was.Name, f.Name)) {
			return fmt.Errorf("%w: a directory %q exists: choose another name, or change that one", ErrNameTaken,
				f.Name)
		}
	}
	return nil
}

// assistanceIn reads the other directories in their order.
func assistanceIn(r *store.Reader) ([]OtherDirectory, error) {
	ids, err := r.Lookup(indexAssistance, []byte{'d'})
	if err != nil {
		return nil, err
	}
	list := make([]OtherDirectory, 0, len(ids))
	err = eachDocument(r, ids, func(id note.UNID, items note.Items) { list = append(list, readAssistance(id, items)) })
	slices.SortFunc(list, func(a, b OtherDirectory) int {
		return cmp.Or(a.Order-b.Order, strings.Compare(lower(a.Name), lower(b.Name)), slices.Compare(a.ID[:], b.ID[:]))
	})
	return list, err
}

// Assistance adds, changes, lists and removes other directories (Domino's directory assistance), and sends requests to
// them.
type Assistance struct {
	*base
	stat *assist.Stats

	mu      sync.Mutex // guards the fields below; not held while the store is read
	table   *assistanceTable
	outside map[note.UNID]Entry // found lately by FindMore
	failed  map[note.UNID]failedGroup
}

// assistanceTable holds the other directories in their order, as of one version of the directory.
type assistanceTable struct {
	version uint64
	list    []otherClient
}

// otherClient is another directory with its client, which is nil if the settings are those of a later version that this
// one cannot use.
type otherClient struct {
	OtherDirectory
	*assist.Client
}

// List returns the other directories in their order. It requires an administrator. Only the server itself gets the
// passwords.
func (as *Assistance) List(ctx context.Context, who note.Who) (list []OtherDirectory, err error) {
	if err := RequireAdmin(who); err != nil {
		return nil, err
	}
	err = as.read(ctx, func(r *store.Reader) error {
		list, err = assistanceIn(r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("directory: other directories: %w", err)
	}
	for i := range list {
		list[i].hide(who)
	}
	return list, nil
}

func (d *OtherDirectory) hide(who note.Who) {
	if !who.System && d.Password != "" {
		d.Password = hidden
	}
}

// Named finds another directory by its name, in any case. It requires an administrator, as List does.
func (as *Assistance) Named(ctx context.Context, who note.Who, name string) (OtherDirectory, error) {
	list, err := as.List(ctx, who)
	if err != nil {
		return OtherDirectory{}, err
	}
	for i := range list {
		if strings.EqualFold(list[i].Name, strings.TrimSpace(name)) {
			return list[i], nil
		}
	}
	return OtherDirectory{}, fmt.Errorf("%w: no directory %.100q", ErrNotFound, name)
}

// Add adds another directory.
func (as *Assistance) Add(ctx context.Context, who note.Who, f AssistanceFields) (OtherDirectory, error) {
	d, err := assistanceRecord.add(ctx, as.base, who, f)
	d.hide(who)
	return d, err
}

// Set changes another directory. It calls fn under the directory's lock, so fn must be quick. fn gets the fields with
// a hidden password, and must set it again if it changes the servers, their TLS or the bind DN: otherwise an
// administrator could have the stored password sent to another server.
func (as *Assistance) Set(ctx context.Context, who note.Who, id note.UNID,
	fn func(*AssistanceFields) error) (OtherDirectory, error) {
	d, err := assistanceRecord.set(ctx, as.base, who, id, func(f *AssistanceFields) error {
		was := *f
		was.URLs = slices.Clone(f.URLs)
		return setHidden(&f.Password, func() error { return fn(f) }, func() bool {
			return f.BindDN == was.BindDN && f.TLS == was.TLS && f.CA == was.CA && slices.Equal(f.URLs, was.URLs)
		})
	})
	d.hide(who)
	return d, err
}

// Remove deletes another directory for good. People whose password it keeps cannot sign in with it any more.
func (as *Assistance) Remove(ctx context.Context, who note.Who, id note.UNID) error {
	return as.destroy(ctx, who, id, formAssistance)
}

// now returns the other directories in their order. Clients of directories whose settings have not changed stay.
func (as *Assistance) now(ctx context.Context) ([]otherClient, error) {
	version := as.version.Load()
	as.mu.Lock()
	t := as.table
	as.mu.Unlock()
	if t != nil && t.version == version {
		return t.list, nil
	}
	var docs []OtherDirectory
	err := as.read(ctx, func(r *store.Reader) (err error) {
		docs, err = assistanceIn(r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("directory: other directories: %w", err)
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	if t = as.table; t != nil && t.version >= version {
		return t.list, nil
	}
	next := &assistanceTable{version: version, list: make([]otherClient, len(docs))}
	for i := range docs {
		next.list[i] = as.client(t, docs[i])
	}
	as.table = next
	t.close(next)
	return next.list, nil
}

// client returns the client of a directory: that of the table if the settings are the same, or a new one.
func (as *Assistance) client(t *assistanceTable, d OtherDirectory) otherClient {
	if t != nil {
		for i := range t.list {
			if o := &t.list[i]; o.ID == d.ID && reflect.DeepEqual(o.OtherDirectory.Settings, d.Settings) {
				return otherClient{d, o.Client}
			}
		}
	}
	err := d.Check()
	var c *assist.Client
	if err == nil {
		c, err = assist.New(as.env, d.Settings, as.stat)
	}
	if err != nil {
		as.env.Log.Error("directory assistance: cannot use the settings", "directory", d.Name, "err", err)
	}
	return otherClient{d, c}
}

// close closes the clients of a table that are not in the next one.
func (t *assistanceTable) close(next *assistanceTable) {
	if t == nil {
		return
	}
	for i := range t.list {
		c := t.list[i].Client
		kept := slices.ContainsFunc(next.list, func(o otherClient) bool { return o.Client == c })
		if c != nil && !kept {
			c.Close()
		}
	}
}

// close closes all clients.
func (as *Assistance) close() {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.table.close(&assistanceTable{})
	as.table = nil
}

// serving returns the directories that are on and have a use.
func (as *Assistance) serving(ctx context.Context, use string) ([]otherClient, error) {
	list, err := as.now(ctx)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(list), func(o otherClient) bool {
		return o.Off || o.Client == nil || !o.OtherDirectory.Serves(use)
	}), nil
}

// Test checks another directory step by step, and finds the entry of a person there if user is not "".
func (as *Assistance) Test(ctx context.Context, who note.Who, d *OtherDirectory, user string) ([]assist.Step, error) {
	if err := RequireAdmin(who); err != nil {
		return nil, err
	}
	list, err := as.now(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].ID == d.ID && list[i].Client != nil {
			return list[i].Client.Test(ctx, user), nil
		}
	}
	return nil, fmt.Errorf("%w: no directory %.100q", ErrNotFound, d.Name)
}

// Away is a directory that cannot be used now.
type Away struct {
	Name string
	Err  error
}

// Away asks the directories that are on if they serve requests, and returns those that do not, and the groups of others
// that could not be followed.
func (as *Assistance) Away(ctx context.Context) (out []Away, err error) {
	list, err := as.now(ctx)
	for i := range list {
		o := &list[i]
		if o.Off || o.Client == nil {
			continue
		}
		if err := o.Client.Away(ctx); err != nil {
			out = append(out, Away{o.OtherDirectory.Name, err})
		}
	}
	return append(out, as.unfollowed()...), err
}
