package jmapd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"doublet/groupware"
	"doublet/wire/jmap"
)

// cardClient is a client that knows the cards and address books of an account by /changes, and the results of a query
// by /queryChanges.
type cardClient struct {
	w            *world
	who, account string
	rng          *rand.Rand
	cards, books map[string]obj
	state        map[string]string
	query        obj
	results      []string
}

func (c *cardClient) args(more obj) obj {
	more["accountId"] = c.account
	return more
}

// start reads everything again.
func (c *cardClient) start() {
	c.state = map[string]string{}
	c.cards, c.state["ContactCard"] = c.all("ContactCard")
	c.books, c.state["AddressBook"] = c.all("AddressBook")
	c.results, c.state["query"] = c.found()
}

func (c *cardClient) all(kind string) (map[string]obj, string) {
	r := c.w.one(c.who, kind+"/get", c.args(obj{}))
	out := map[string]obj{}
	for _, v := range r["list"].([]any) {
		out[v.(obj)["id"].(string)] = v.(obj)
	}
	return out, r["state"].(string)
}

func (c *cardClient) found() ([]string, string) {
	r := c.w.one(c.who, "ContactCard/query", c.args(obj{"filter": c.query["filter"], "sort": c.query["sort"]}))
	return strs(r["ids"]), r["queryState"].(string)
}

// follow reads the changes of a type, in pieces of random size. It returns false if the server has forgotten them.
func (c *cardClient) follow(kind string, have map[string]obj) bool {
	for more := true; more; {
		args := c.args(obj{"sinceState": c.state[kind]})
		if n := c.rng.IntN(4); n > 0 {
			args["maxChanges"] = n
		}
		r := c.w.call(c.who, []any{kind + "/changes", args, "0"})[0]
		if r[0] == "error" {
			return false
		}
		x := r[1].(obj)
		for _, id := range strs(x["destroyed"]) {
			delete(have, id)
		}
		ids := slices.Concat(strs(x["created"]), strs(x["updated"]))
		for _, v := range c.w.one(c.who, kind+"/get", c.args(obj{"ids": ids}))["list"].([]any) {
			have[v.(obj)["id"].(string)] = v.(obj)
		}
		c.state[kind], more = x["newState"].(string), x["hasMoreChanges"].(bool)
	}
	return true
}

// followQuery applies the changes of the query's results.
func (c *cardClient) followQuery() bool {
	r := c.w.call(c.who, []any{"ContactCard/queryChanges", c.args(obj{"filter": c.query["filter"],
		"sort": c.query["sort"], "sinceQueryState": c.state["query"]}), "0"})[0]
	if r[0] == "error" {
		return false
	}
	x := r[1].(obj)
	gone := strs(x["removed"])
	c.results = slices.DeleteFunc(c.results, func(id string) bool { return slices.Contains(gone, id) })
	for _, v := range x["added"].([]any) {
		at := int(v.(obj)["index"].(float64))
		c.results = slices.Insert(c.results, at, v.(obj)["id"].(string))
	}
	c.state["query"] = x["newQueryState"].(string)
	return true
}

// check compares what the client knows with the account.
func (c *cardClient) check(step int) {
	t := c.w.t
	t.Helper()
	if !c.follow("ContactCard", c.cards) || !c.follow("AddressBook", c.books) || !c.followQuery() {
		c.start()
		return
	}
	cards, state := c.all("ContactCard")
	if !reflect.DeepEqual(cards, c.cards) {
		t.Fatalf("step %d: the client of %s has %d cards\n%v\nwant\n%v", step, c.who, len(c.cards), c.cards, cards)
	}
	if books, _ := c.all("AddressBook"); !reflect.DeepEqual(books, c.books) {
		t.Fatalf("step %d: the client of %s has the address books\n%v\nwant\n%v", step, c.who, c.books, books)
	}
	if results, _ := c.found(); !slices.Equal(results, c.results) {
		t.Fatalf("step %d: the client of %s has the results\n%v\nwant\n%v", step, c.who, c.results, results)
	}
	caller := *c.w.who[c.who]
	db, _ := parseAccountID(c.account)
	pushed, err := c.w.server.States(bg, &caller, &Account{ID: c.account, Personal: db == caller.Database, Database: db,
		File: c.w.files.File(caller.Who, db)})
	c.w.ok(err)
	if at := pushed["ContactCard"]; at != state && (at != "" || len(c.books) > 0) || c.state["ContactCard"] != state {
		t.Fatalf("step %d: the state is %s, pushed as %s, and known as %s", step, state, pushed["ContactCard"],
			c.state["ContactCard"])
	}
}

// TestCardsAreFollowed makes random changes over JMAP and as CardDAV makes them, while clients follow: two of alice,
// and one of bob, who may read one of her address books.
func TestCardsAreFollowed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := open(t, settings{})
			rng := rand.New(rand.NewPCG(seed, 5))
			mine := w.account("alice")
			shared := w.one("alice", "AddressBook/set", obj{"accountId": mine, "create": obj{"s": obj{"name": "Shared",
				"shareWith": obj{principalID(w.who["bob"].Who.Person): obj{"mayRead": true}}}}})
			book := shared["created"].(obj)["s"].(obj)["id"].(string)
			byName := obj{"sort": []any{obj{"property": "name/given"}, obj{"property": "created"}}}
			clients := []*cardClient{
				{w: w, who: "alice", account: mine, rng: rng, query: byName},
				{w: w, who: "alice", account: mine, rng: rng, query: obj{"filter": obj{"inAddressBook": book}}},
				{w: w, who: "bob", account: mine, rng: rng, query: obj{"filter": obj{"name": "n1"}}},
			}
			for _, c := range clients {
				c.start()
			}
			for step := range 150 {
				changeCards(w, rng, mine)
				if c := clients[rng.IntN(len(clients))]; rng.IntN(2) == 0 {
					c.check(step)
				}
			}
			for _, c := range clients {
				c.check(150)
			}
		})
	}
}

// changeCards makes a random change.
func changeCards(w *world, rng *rand.Rand, account string) {
	pick := func(kind string) string {
		list := w.one("alice", kind+"/get", obj{"accountId": account, "properties": []string{"id"}})["list"].([]any)
		if len(list) == 0 {
			return "none"
		}
		return list[rng.IntN(len(list))].(obj)["id"].(string)
	}
	set := func(kind string, args obj) { args["accountId"] = account; w.one("alice", kind+"/set", args) }
	card := func() obj {
		return obj{"addressBookIds": obj{pick("AddressBook"): true}, "name": obj{"full": fmt.Sprint("N", rng.IntN(4)),
			"components": []any{obj{"kind": "given", "value": fmt.Sprint("n", rng.IntN(4))}}},
			"emails": obj{fmt.Sprint("e", rng.IntN(3)): obj{"address": "a@x"}}}
	}
	switch rng.IntN(10) {
	case 0, 1:
		set("ContactCard", obj{"create": obj{"a": card(), "b": card()}})
	case 2, 3:
		set("ContactCard", obj{"update": obj{pick("ContactCard"): obj{"name/full": fmt.Sprint("M", rng.IntN(9)),
			"name/components": []any{obj{"kind": "given", "value": fmt.Sprint("n", rng.IntN(4))}}}}})
	case 4:
		to := obj{"addressBookIds": obj{pick("AddressBook"): true}}
		set("ContactCard", obj{"update": obj{pick("ContactCard"): to}})
	case 5:
		set("ContactCard", obj{"destroy": []string{pick("ContactCard"), pick("ContactCard")}})
	case 6:
		set("AddressBook", obj{"create": obj{"a": obj{"name": "New"}}, "onSuccessSetIsDefault": pick("AddressBook")})
	case 7:
		set("AddressBook", obj{"destroy": []string{pick("AddressBook")}, "onDestroyRemoveContents": rng.IntN(2) == 0})
	default:
		davCards(w, rng)
	}
	w.fix.Time.Advance(1e9)
}

// davCards makes a change as CardDAV makes it.
func davCards(w *world, rng *rand.Rand) {
	c := w.who["alice"]
	f := w.groupware.File(c.Who, c.Database)
	list, err := f.Collections(bg, groupware.AddressBook)
	w.ok(err)
	if len(list) == 0 {
		return // the next request creates one
	}
	book := list[rng.IntN(len(list))].Name
	name := fmt.Sprint("d", rng.IntN(4))
	switch rng.IntN(4) {
	case 0:
		err = f.Remove(bg, groupware.AddressBook, book, name, groupware.Condition{})
	case 1:
		_, err = f.Move(bg, groupware.AddressBook, groupware.Place{Collection: book, Name: name},
			groupware.Place{Collection: list[0].Name, Name: name}, groupware.Condition{}, groupware.Condition{})
	default:
		_, _, err = f.Put(bg, groupware.AddressBook, book, name, fmt.Appendf(nil,
			"BEGIN:VCARD\nVERSION:3.0\nUID:%s\nFN:N%d\nN:;n%d;;;\nX-A:1\nEND:VCARD\n", name, rng.IntN(3), rng.IntN(4)),
			groupware.Condition{})
	}
	var taken *groupware.UIDConflictError
	if !errors.Is(err, groupware.ErrNoEntry) && !errors.Is(err, groupware.ErrBadName) && !errors.As(err, &taken) {
		w.ok(err)
	}
}

// TestCardRace checks that a patch of a card that CardDAV changes at the same time keeps both changes.
func TestCardRace(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	caller := *w.who["alice"]
	f := w.groupware.File(caller.Who, caller.Database)
	w.ok(f.Ensure(bg, ""))
	put := func(fn string) string {
		e, _, err := f.Put(bg, groupware.AddressBook, groupware.DefaultContacts, "a", []byte(
			"BEGIN:VCARD\r\nVERSION:3.0\r\nUID:a\r\nFN:"+fn+"\r\nEND:VCARD\r\n"), groupware.Condition{})
		w.ok(err)
		return idOf(letterCard, e.UNID)
	}
	args, err := jmap.Parse(`{"accountId":"`+w.account("alice")+`","update":{"`+put("Old")+
		`":{"notes":{"n":{"note":"x"}}}}}`, jmap.Bounds{})
	w.ok(err)
	c := &call{batch: &batch{s: w.server, ctx: bg, caller: &caller, mem: w.server.memoryOf(&caller)}, args: args}
	defer c.mem.give()
	s, err := c.setArguments(false)
	w.ok(err)
	x := &cardSetting{set: s, file: f}
	x.books, err = c.collectionsOf(addressBooks)
	w.ok(err)
	w.ok(x.prepare()) // the patch is computed from the old card
	put("New")
	if err := x.commit(); !errors.Is(err, groupware.ErrChanged) {
		t.Fatalf("a patch of an older card: %v", err)
	}
	x.release()
	w.ok(x.run(func() {}))
	e, err := f.Entry(bg, groupware.AddressBook, groupware.DefaultContacts, "a")
	w.ok(err)
	card, err := readCard(&e)
	w.ok(err)
	if fmt.Sprint(card.card["name"]) != "map[full:New]" || card.card["notes"] == nil {
		t.Errorf("the card is %s", card.card.Append(nil))
	}
}
