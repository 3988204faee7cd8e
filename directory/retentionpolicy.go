package directory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"doublet/directory/retention"
	"doublet/note"
	"doublet/store"
)

// formRetention is the form of retention policies, which say how long mail is kept.
const formRetention = "RetentionPolicy"

// The names of a retention policy's items.
const (
	itemRetentionName    = "PolicyName"
	itemRetentionOff     = "PolicyDisabled"
	itemRetentionFor     = "PolicyFor" // UNIDs of people and groups
	itemRetentionFolders = "PolicyFolders"
	itemRetentionBelow   = "PolicySubfolders"
	itemRetentionLabels  = "PolicyKeywords"
	itemRetentionDays    = "PolicyDays"
	itemRetentionAction  = "PolicyAction"
	itemRetentionFlagged = "PolicyFlagged"
)

// indexRetention is the index of all retention policies, under one key.
const indexRetention uint64 = 11

// Limits on retention policies: their number, the people and groups of one, and the bytes of a name.
const (
	MaxRetentionPolicies = 200
	maxRetentionFor      = 1000
	maxRetentionName     = 100
)

func retentionKeys(form string, _ note.Items) [][]byte {
	if form != formRetention {
		return nil
	}
	return [][]byte{{'p'}}
}

// RetentionFields are the parts of a retention policy that an administrator sets.
type RetentionFields struct {
	// Name is unique in any case.
	Name string
	// Off switches the policy off.
	Off bool
	// For lists the UNIDs of people and groups. Setters also accept names and addresses, and turn them into UNIDs.
	// Empty: everyone.
	For []string
	retention.Policy
}

// RetentionPolicy is a retention policy.
type RetentionPolicy struct {
	ID note.UNID
	RetentionFields
}

func (f *RetentionFields) write(items note.Items) note.Items {
	x := fields{items}
	x.text(itemForm, formRetention)
	x.text(itemRetentionName, f.Name)
	x.bool(itemRetentionOff, f.Off)
	x.list(itemRetentionFor, f.For)
	x.list(itemRetentionFolders, f.Folders)
	x.bool(itemRetentionBelow, f.Below)
	x.list(itemRetentionLabels, f.Labels)
	x.int(itemRetentionDays, int64(f.Days))
	x.text(itemRetentionAction, string(f.Action))
	x.bool(itemRetentionFlagged, f.Flagged)
	return x.items
}

func readRetention(id note.UNID, items note.Items) RetentionPolicy {
	list := func(name string) []string { return slices.Clone(items.Get(name).AsTextList()) }
	return RetentionPolicy{ID: id, RetentionFields: RetentionFields{
		Name: items.Get(itemRetentionName).AsText(), Off: items.Get(itemRetentionOff).AsBool(),
		For: list(itemRetentionFor),
		Policy: retention.Policy{Folders: list(itemRetentionFolders), Below: items.Get(itemRetentionBelow).AsBool(),
			Labels: list(itemRetentionLabels), Days: int(items.Get(itemRetentionDays).AsInt()),
			Action:  retention.Action(items.Get(itemRetentionAction).AsText()),
			Flagged: items.Get(itemRetentionFlagged).AsBool()},
	}}
}

var retentionRecord = record[RetentionPolicy, RetentionFields]{formRetention, 0, readRetention,
	func(p *RetentionPolicy) *RetentionFields { return &p.RetentionFields }, (*RetentionFields).write,
	(*edit).checkRetention}

// checkRetention checks and normalizes fields, and turns people and groups into ids. was holds the policy's current
// fields, nil for a new policy.
func (e *edit) checkRetention(f, was *RetentionFields) error {
	f.Name = strings.TrimSpace(f.Name)
	if f.Name == "" || len(f.Name) > maxRetentionName ||
		strings.ContainsFunc(f.Name, func(r rune) bool { return r < ' ' }) {
		return fmt.Errorf("%w retention policy: a name has 1 to %d bytes in one line", ErrInvalid, maxRetentionName)
	}
	if err := f.Check(); err != nil {
		return fmt.Errorf("%w retention policy %q: %w", ErrInvalid, f.Name, err)
	}
	list, err := retentionIn(&e.w.Reader)
	if err != nil {
		return err
	}
	if was == nil && len(list) >= MaxRetentionPolicies {
		return fmt.Errorf("%w: at most %d retention policies", ErrTooMany, MaxRetentionPolicies)
	}
	for i := range list {
		if strings.EqualFold(list[i].Name, f.Name) && (was == nil || !strings.EqualFold(was.Name, f.Name)) {
			return fmt.Errorf("%w: a retention policy %q exists: choose another name, or change that one", ErrNameTaken,
				f.Name)
		}
	}
	return e.retentionFor(f, was)
}

func (e *edit) retentionFor(f, was *RetentionFields) error {
	if len(f.For) > maxRetentionFor {
		return fmt.Errorf("%w: %q is for more than %d people and groups; make a group", ErrTooMany, f.Name,
			maxRetentionFor)
	}
	for i, m := range f.For {
		if was != nil && slices.Contains(was.For, m) {
			continue // its entry may be gone meanwhile
		}
		id, err := personOrGroup(&e.w.Reader, m)
		if err == nil {
			err = e.exists(id)
		}
		if err != nil {
			return fmt.Errorf("retention policy %q for %.80q: %w", f.Name, m, err)
		}
		f.For[i] = id
	}
	slices.Sort(f.For)
	f.For = slices.Compact(f.For)
	return nil
}

// exists returns an error unless an id is that of a person or group.
func (e *edit) exists(id string) error {
	u, err := note.ParseUNID(id)
	if err != nil {
		return err
	}
	_, c, err := find(&e.w.Reader, u)
	if err != nil {
		return err
	}
	t, ok := makeTarget(u, c.Content.Items)
	if !ok || t.Kind == TargetMailIn {
		return fmt.Errorf("%w: no person or group has that id", ErrNotFound)
	}
	return nil
}

// Retention adds, changes, lists and removes retention policies, and finds those of a person.
type Retention struct{ *base }

// List returns the retention policies by name.
func (rs *Retention) List(ctx context.Context) (list []RetentionPolicy, err error) {
	err = rs.read(ctx, func(r *store.Reader) error {
		list, err = retentionIn(r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("directory: retention policies: %w", err)
	}
	return list, nil
}

// retentionIn reads the retention policies by name. Servers that were apart may have made two of one name.
func retentionIn(r *store.Reader) ([]RetentionPolicy, error) {
	ids, err := r.Lookup(indexRetention, []byte{'p'})
	if err != nil {
		return nil, err
	}
	list := make([]RetentionPolicy, 0, len(ids))
	err = eachDocument(r, ids, func(id note.UNID, items note.Items) { list = append(list, readRetention(id, items)) })
	slices.SortFunc(list, func(a, b RetentionPolicy) int {
		return cmp.Or(strings.Compare(lower(a.Name), lower(b.Name)), slices.Compare(a.ID[:], b.ID[:]))
	})
	return list, err
}

// Named finds a retention policy by its name, in any case.
func (rs *Retention) Named(ctx context.Context, name string) (RetentionPolicy, error) {
	list, err := rs.List(ctx)
	if err != nil {
		return RetentionPolicy{}, err
	}
	for i := range list {
		if strings.EqualFold(list[i].Name, strings.TrimSpace(name)) {
			return list[i], nil
		}
	}
	return RetentionPolicy{}, fmt.Errorf("%w: no retention policy %.100q", ErrNotFound, name)
}

// Add adds a retention policy.
func (rs *Retention) Add(ctx context.Context, who note.Who, f RetentionFields) (RetentionPolicy, error) {
	return retentionRecord.add(ctx, rs.base, who, f)
}

// Set changes a retention policy. It calls fn under the directory's lock, so fn must be quick.
func (rs *Retention) Set(ctx context.Context, who note.Who, id note.UNID,
	fn func(*RetentionFields) error) (RetentionPolicy, error) {
	return retentionRecord.set(ctx, rs.base, who, id, fn)
}

// Remove deletes a retention policy for good.
func (rs *Retention) Remove(ctx context.Context, who note.Who, id note.UNID) error {
	return rs.destroy(ctx, who, id, formRetention)
}

// Of returns the policies of a list that are for a person, in their order: those for everyone, for the person, and for
// a group that has the person as a member, also through other groups.
func (rs *Retention) Of(ctx context.Context, person note.UNID, list []RetentionPolicy) ([]RetentionPolicy, error) {
	groups, err := rs.allGroups(ctx, person)
	if err != nil {
		return nil, fmt.Errorf("directory: groups of %s: %w", person, err)
	}
	mine := func(m string) bool {
		id, err := note.ParseUNID(m)
		return err == nil && (id == person || slices.Contains(groups, id))
	}
	var out []RetentionPolicy
	for i := range list {
		if p := &list[i]; len(p.For) == 0 || slices.ContainsFunc(p.For, mine) {
			out = append(out, *p)
		}
	}
	return out, nil
}
