package jmap

import (
	"fmt"
	"maps"
	"slices"

	wire "doublet/wire/jmap"
)

// Get adds a Foo/get of objects by id (nil: all), with these properties (none: all).
//
// Implements: RFC 8620 §5.1 /get, as a client
func (r *Request) Get(kind, account string, ids []string, properties ...string) Handle {
	return r.Call(kind+"/get", func(w *wire.Writer) {
		w.Text("accountId", account)
		if ids == nil {
			w.Raw("ids", "null")
		} else {
			w.Strings("ids", ids...)
		}
		propertiesOf(w, properties)
	})
}

// GetReferred is Get with the ids from an earlier response.
func (r *Request) GetReferred(kind, account string, ids wire.Reference, properties ...string) Handle {
	return r.Call(kind+"/get", func(w *wire.Writer) {
		w.Text("accountId", account)
		w.Refer("ids", ids)
		propertiesOf(w, properties)
	})
}

func propertiesOf(w *wire.Writer, list []string) {
	if len(list) > 0 {
		w.Strings("properties", list...)
	}
}

// Query holds the arguments of a Foo/query.
type Query struct {
	Filter          func(*wire.Writer) // nil: no filter
	Sort            string             // a property; "" for the server's default order
	Ascending       bool
	Position, Limit int // Limit 0: the server's limit
	Total           bool
	CollapseThreads bool // only for Emails
}

// Query adds a Foo/query.
//
// Implements: RFC 8620 §5.5 /query, as a client
func (r *Request) Query(kind, account string, q *Query) Handle {
	return r.Call(kind+"/query", func(w *wire.Writer) {
		w.Text("accountId", account)
		if q.Filter != nil {
			w.Object("filter", q.Filter)
		}
		if q.Sort != "" {
			w.Name("sort")
			w.B = append(w.B, '[')
			key := wire.NewWriter(w.B)
			key.Text("property", q.Sort)
			key.Bool("isAscending", q.Ascending)
			w.B = append(key.End(), ']')
		}
		if q.Position > 0 {
			w.Uint("position", uint64(q.Position))
		}
		if q.Limit > 0 {
			w.Uint("limit", uint64(q.Limit))
		}
		if q.Total {
			w.Bool("calculateTotal", true)
		}
		if q.CollapseThreads {
			w.Bool("collapseThreads", true)
		}
	})
}

// Changes adds a Foo/changes since a state, with at most most changes (0: the server's limit).
//
// Implements: RFC 8620 §5.2 /changes, as a client
func (r *Request) Changes(kind, account, since string, most int) Handle {
	return r.Call(kind+"/changes", func(w *wire.Writer) {
		w.Text("accountId", account)
		w.Text("sinceState", since)
		if most > 0 {
			w.Uint("maxChanges", uint64(most))
		}
	})
}

// Set holds the arguments of a Foo/set.
type Set struct {
	Create map[string]func(*wire.Writer)
	// Update maps ids to functions that print a PatchObject.
	Update  map[string]func(*wire.Writer)
	Destroy []string
	More    func(*wire.Writer) // other arguments
}

// Set adds a Foo/set. OutcomeOf returns its results.
//
// Implements: RFC 8620 §5.3 /set, as a client
func (r *Request) Set(kind, account string, s *Set) Handle {
	return r.Call(kind+"/set", func(w *wire.Writer) {
		w.Text("accountId", account)
		objects(w, "create", s.Create)
		objects(w, "update", s.Update)
		if len(s.Destroy) > 0 {
			w.Strings("destroy", s.Destroy...)
		}
		if s.More != nil {
			s.More(w)
		}
	})
}

func objects(w *wire.Writer, name string, m map[string]func(*wire.Writer)) {
	if len(m) > 0 {
		w.Object(name, func(in *wire.Writer) {
			for _, id := range slices.Sorted(maps.Keys(m)) {
				in.Key(id)
				o := wire.NewWriter(in.B)
				m[id](&o)
				in.B = o.End()
			}
		})
	}
}

// Outcome holds the response to a Foo/set, Email/import or Email/copy.
type Outcome struct{ v *wire.Value }

// OutcomeOf returns the Outcome of a call.
func (r *Response) OutcomeOf(h Handle) (Outcome, error) {
	v, err := r.Get(h)
	return Outcome{v}, err
}

// refusals lists the members of a response that hold SetErrors.
var refusals = [...]string{"notCreated", "notUpdated", "notDestroyed"}

// Err returns the first SetError as a *CallError, or nil if there is none.
func (o Outcome) Err() error {
	for _, name := range refusals {
		if list := o.v.Get(name); list.Kind() == wire.Object && list.Len() > 0 {
			return &CallError{Method: name + " " + list.Name(0), Err: wire.ReadError(list.At(0))}
		}
	}
	return nil
}

// Created returns the id of the object that was created under a creation id.
func (o Outcome) Created(creation string) (string, error) {
	if made := o.v.Get("created").Get(creation); made.Kind() == wire.Object {
		if id, ok := made.Get("id").Text(); ok {
			return id, nil
		}
	}
	if e := o.v.Get("notCreated").Get(creation); e.Kind() == wire.Object {
		return "", &CallError{Method: "create " + creation, Err: wire.ReadError(e)}
	}
	return "", fmt.Errorf("%w: no result for %s", ErrProtocol, creation)
}

// Updated returns an error if an object was not updated.
func (o Outcome) Updated(id string) error {
	if list := o.v.Get("updated"); list.Kind() == wire.Object {
		for i := range list.Len() {
			if list.Name(i) == id {
				return nil
			}
		}
	}
	return o.refused("notUpdated", id)
}

// Destroyed returns an error if an object was not destroyed.
func (o Outcome) Destroyed(id string) error {
	list := o.v.Get("destroyed")
	for i := range list.Len() {
		if s, ok := list.At(i).Text(); ok && s == id {
			return nil
		}
	}
	return o.refused("notDestroyed", id)
}

func (o Outcome) refused(name, id string) error {
	if e := o.v.Get(name).Get(id); e.Kind() == wire.Object {
		return &CallError{Method: name + " " + id, Err: wire.ReadError(e)}
	}
	return fmt.Errorf("%w: no result for %s", ErrProtocol, id)
}
