package directory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"doublet/note"
	"doublet/store"
)

// formMailRule is the form of mail rules, which the servers of the domain apply to messages when they accept them.
const formMailRule = "MailRule"

// The names of a mail rule's items.
const (
	itemRuleName     = "RuleName"
	itemRulePosition = "RulePosition"
	itemRuleOff      = "RuleDisabled"
	itemRuleText     = "RuleText"
)

// indexMailRules is the index of all mail rules, under one key.
const indexMailRules uint64 = 10

// MaxMailRules is the maximum number of mail rules.
const MaxMailRules = 200

// maxRuleName and maxRuleText limit the parts of a mail rule, in bytes.
const (
	maxRuleName = 100
	maxRuleText = 32 << 10
)

func mailRuleKeys(form string, _ note.Items) [][]byte {
	if form != formMailRule {
		return nil
	}
	return [][]byte{{'m'}}
}

// MailRuleFields are the parts of a mail rule that an administrator sets.
type MailRuleFields struct {
	// Name is unique in any case.
	Name string
	// Position is the place in the order, from 1. Rules with equal positions, which servers that were apart may have
	// set, are ordered by ID.
	Position int
	// Off switches the rule off.
	Off bool
	// Text holds conditions and actions. The directory does not read it; package mail/mailrule has its grammar.
	Text string
}

// MailRule is a mail rule.
type MailRule struct {
	ID note.UNID
	MailRuleFields
}

func (f *MailRuleFields) write(items note.Items) note.Items {
	x := fields{items}
	x.text(itemForm, formMailRule)
	x.text(itemRuleName, f.Name)
	x.int(itemRulePosition, int64(f.Position))
	x.bool(itemRuleOff, f.Off)
	x.text(itemRuleText, f.Text)
	return x.items
}

func readMailRule(id note.UNID, items note.Items) MailRule {
	return MailRule{ID: id, MailRuleFields: MailRuleFields{
		Name: items.Get(itemRuleName).AsText(), Position: int(items.Get(itemRulePosition).AsInt()),
		Off: items.Get(itemRuleOff).AsBool(), Text: items.Get(itemRuleText).AsText(),
	}}
}

func (f *MailRuleFields) check(others []MailRule) error {
	f.Name = strings.TrimSpace(f.Name)
	switch {
	case f.Name == "", len(f.Name) > maxRuleName, strings.ContainsFunc(f.Name, func(r rune) bool { return r < ' ' }):
		return fmt.Errorf("%w mail rule: a name has 1 to %d bytes in one line", ErrInvalid, maxRuleName)
	case len(f.Text) > maxRuleText:
		return fmt.Errorf("%w mail rule %q: %d bytes, at most %d", ErrInvalid, f.Name, len(f.Text), maxRuleText)
	}
	if slices.ContainsFunc(others, func(o MailRule) bool { return strings.EqualFold(o.Name, f.Name) }) {
		return fmt.Errorf("%w: a mail rule %q exists: choose another name, or change that one", ErrNameTaken, f.Name)
	}
	return nil
}

// MailRules adds, changes, orders, lists and removes mail rules.
type MailRules struct {
	*base
	table atomic.Pointer[mailRuleTable]
}

// mailRuleTable holds all mail rules in their order, as of one version of the directory.
type mailRuleTable struct {
	version, edition uint64
	rules            []MailRule
}

// List returns the mail rules in their order, and a number that changes whenever they change. The list is shared and
// must not be changed.
func (ms *MailRules) List(ctx context.Context) (list []MailRule, edition uint64, err error) {
	version := ms.version.Load()
	old := ms.table.Load()
	if old != nil && old.version == version {
		return old.rules, old.edition, nil
	}
	t := &mailRuleTable{version: version, edition: 1}
	err = ms.read(ctx, func(r *store.Reader) error {
		t.rules, err = mailRulesIn(r)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("directory: mail rules: %w", err)
	}
	if old != nil {
		if t.edition = old.edition; !slices.Equal(t.rules, old.rules) {
			t.edition++
		}
	}
	// Another call may have stored a later edition; a table that replaces it would take its number again.
	if !ms.table.CompareAndSwap(old, t) {
		return ms.List(ctx)
	}
	return t.rules, t.edition, nil
}

// mailRulesIn reads the mail rules in their order.
func mailRulesIn(r *store.Reader) ([]MailRule, error) {
	ids, err := r.Lookup(indexMailRules, []byte{'m'})
	if err != nil {
		return nil, err
	}
	list := make([]MailRule, 0, len(ids))
	err = eachDocument(r, ids, func(id note.UNID, items note.Items) { list = append(list, readMailRule(id, items)) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b MailRule) int {
		if a.Position != b.Position {
			return a.Position - b.Position
		}
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	return list, nil
}

// Named finds a mail rule by its name, in any case.
func (ms *MailRules) Named(ctx context.Context, name string) (MailRule, error) {
	list, _, err := ms.List(ctx)
	if err != nil {
		return MailRule{}, err
	}
	for i := range list {
		if strings.EqualFold(list[i].Name, strings.TrimSpace(name)) {
			return list[i], nil
		}
	}
	return MailRule{}, fmt.Errorf("%w: no mail rule %.100q", ErrNotFound, name)
}

// Add adds a mail rule at its position, or at the end if the position is 0.
func (ms *MailRules) Add(ctx context.Context, who note.Who, f MailRuleFields) (MailRule, error) {
	if err := RequireAdmin(who); err != nil {
		return MailRule{}, err
	}
	x := MailRule{ID: ms.s.UNID(), MailRuleFields: f}
	return x, ms.update(ctx, who, func(e *edit) error {
		list, err := mailRulesIn(&e.w.Reader)
		if err != nil {
			return err
		}
		if len(list) >= MaxMailRules {
			return fmt.Errorf("%w: at most %d mail rules", ErrTooMany, MaxMailRules)
		}
		x.MailRuleFields = f
		if err := x.check(list); err != nil {
			return err
		}
		return e.order(&x, list, func() error { return e.create(x.ID, x.write(nil)) })
	})
}

// Set changes a mail rule. It calls fn under the directory's lock, so fn must be quick. A changed Position moves the
// rule; beyond the last one it is the end.
func (ms *MailRules) Set(ctx context.Context, who note.Who, id note.UNID,
	fn func(*MailRuleFields) error) (x MailRule, err error) {
	if err := RequireAdmin(who); err != nil {
		return x, err
	}
	return x, ms.update(ctx, who, func(e *edit) error {
		list, err := mailRulesIn(&e.w.Reader)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(list, func(o MailRule) bool { return o.ID == id })
		if at < 0 {
			return fmt.Errorf("%w: no mail rule has the id %s", ErrNotFound, id)
		}
		x = list[at]
		x.Position = at + 1
		list = slices.Delete(list, at, at+1)
		if err := fn(&x.MailRuleFields); err != nil {
			return err
		}
		if err := x.check(list); err != nil {
			return err
		}
		return e.order(&x, list, func() error { return e.rewriteRule(&x) })
	})
}

// order puts a rule at its position among the others, numbers all of them from 1, and writes what changed.
func (e *edit) order(x *MailRule, others []MailRule, write func() error) error {
	if x.Position < 1 || x.Position > len(others) {
		x.Position = len(others) + 1
	}
	for i := range others {
		o := &others[i]
		want := i + 1
		if want >= x.Position {
			want++
		}
		if o.Position == want {
			continue
		}
		o.Position = want
		if err := e.rewriteRule(o); err != nil {
			return err
		}
	}
	return write()
}

func (e *edit) rewriteRule(x *MailRule) error {
	return e.change(x.ID, formMailRule, func(items note.Items) (note.Items, error) { return x.write(items), nil })
}

// Remove deletes a mail rule for good.
func (ms *MailRules) Remove(ctx context.Context, who note.Who, id note.UNID) error {
	return ms.destroy(ctx, who, id, formMailRule)
}
