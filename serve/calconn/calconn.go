// Package calconn asks other servers for the busy times of people whose mail files are not on this one: the members of
// the cluster, and the other places of the domain. It is the Calendar Connector of Domino. Servers of one domain
// authenticate each other and share the directory, so that a question names the person who asks; the server with the
// mail file reads this person's groups from its own directory and applies the access lists.
package calconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/calendar"
	"doublet/cluster"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/replica/https"
	"doublet/scheduling"
	"doublet/stat"
	"doublet/store"
)

// verb is the verb of the requests to members of the cluster.
const verb = "calendar.busy"

// Limits of a question.
const (
	// maxCalendars is the maximum number of calendars of one question, maxRange its longest time. maxPeriods is the
	// maximum number of busy times of one answer, so that it fits a message of the bus.
	maxCalendars = 50
	maxRange     = 400 * 24 * time.Hour
	maxPeriods   = 10_000
	// askWithin is the timeout for one server. A person waits.
	askWithin = 2 * time.Second
	// rounds is the maximum number of servers that are asked about one calendar.
	rounds = 3
)

// Node is the part of the cluster that knows where databases are: a *cluster.Opens.
type Node interface {
	Where(ctx context.Context, db note.DatabaseID) (cluster.Place, error)
	Holders(db note.DatabaseID) []note.UNID
	Silent(db note.DatabaseID) (since time.Time, silent bool)
}

// Options connect a Connector to the other servers.
type Options struct {
	// Cluster returns this server's node and its end of the bus, nil outside a cluster.
	Cluster func() (Node, bus.Bus)
	// Own returns the key with which this server authenticates in the domain, nil if it has none.
	Own   func() *pki.Own
	Stats *stat.Tree
}

// Connector asks other servers. It implements scheduling.Elsewhere.
type Connector struct {
	env     *env.Env
	servers *directory.Servers
	opt     Options

	asked, failed *stat.Counter
}

// New returns a Connector.
func New(e *env.Env, d *directory.Directory, o Options) *Connector {
	return &Connector{
		env: e, servers: d.Servers, opt: o,
		asked:  o.Stats.Counter("CalConn.Requests.Sent", "questions about free time that were sent to other servers"),
		failed: o.Stats.Counter("CalConn.Requests.Failed", "questions about free time that a server did not answer"),
	}
}

// question asks for the busy times of the calendars in mail files, by id, between two instants, as the person asker, a
// UNID, may see them.
type question struct {
	Asker string    `json:"asker"`
	Files []string  `json:"files"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
}

// answer is that about one calendar. Away means that the server has no replica of the mail file, Denied that the asker
// may not see the busy times. Silent means that the busy times are from a replica whose primary's server does not
// answer, since AsOf in seconds since 1970; 0: since the server with the replica started.
type answer struct {
	Away   bool     `json:"away,omitempty"`
	Denied bool     `json:"denied,omitempty"`
	Busy   []period `json:"busy,omitempty"`
	Silent bool     `json:"silent,omitempty"`
	AsOf   int64    `json:"asOf,omitempty"`
}

// period is a calendar.Period: its beginning in seconds since 1970, its length in seconds, and its calendar.Busy.
type period [3]int64

// server is a server that may have a mail file: a member of the cluster, or one of another place with an address.
type server struct {
	id   note.UNID
	name string
	url  string // "" for a member of the cluster
	key  bus.Key
}

// Busy implements scheduling.Elsewhere.
func (c *Connector) Busy(ctx context.Context, asker note.UNID, list []scheduling.Calendars,
	from, to time.Time) []scheduling.Busy {
	out := make([]scheduling.Busy, len(list))
	candidates := make([][]server, len(list))
	for i := range list {
		out[i].Err = scheduling.ErrAway
		candidates[i] = c.candidates(ctx, &list[i])
	}
	for turn := range rounds {
		by := map[note.UNID][]int{}
		at := map[note.UNID]server{}
		for i, servers := range candidates {
			if turn < len(servers) && errors.Is(out[i].Err, scheduling.ErrAway) {
				s := servers[turn]
				at[s.id], by[s.id] = s, append(by[s.id], i)
			}
		}
		c.askAll(at, func(s server) {
			for part := range slices.Chunk(by[s.id], maxCalendars) {
				q := question{Asker: asker.String(), From: from, To: to}
				for _, i := range part {
					q.Files = append(q.Files, list[i].File.String())
				}
				answers := c.ask(ctx, s, &q)
				if answers == nil {
					return // silent now: it is not waited for again
				}
				for k, b := range answers {
					out[part[k]] = b
				}
			}
		})
	}
	return out
}

// Silent implements scheduling.Elsewhere.
func (c *Connector) Silent(file note.DatabaseID) (since time.Time, silent bool) {
	if node, _ := c.opt.Cluster(); node != nil {
		return node.Silent(file)
	}
	return since, false
}

// askAll calls ask for each server at the same time, and returns when all have returned. No two of them have a calendar
// in common.
func (c *Connector) askAll(servers map[note.UNID]server, ask func(server)) {
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Add(1)
		c.env.Go("free time of another server", func() {
			defer wg.Done()
			ask(s)
		})
	}
	wg.Wait()
}

// candidates lists the servers that may have a mail file, the best one first.
func (c *Connector) candidates(ctx context.Context, of *scheduling.Calendars) (list []server) {
	away, err := c.servers.Away(ctx, of.MailServer)
	if err != nil {
		return nil
	}
	if away {
		place, err := c.servers.PlaceOf(ctx, of.MailServer)
		if err != nil {
			return nil
		}
		for i := range place.Servers {
			s := &place.Servers[i]
			if url := s.Door("web"); url != "" {
				list = append(list, server{id: s.ID, name: s.Name, url: url, key: s.Key})
			}
		}
		return list
	}
	node, _ := c.opt.Cluster()
	if node == nil {
		return nil
	}
	if p, err := node.Where(ctx, of.File); err == nil && !p.Self {
		list = append(list, server{id: p.Server, name: p.Name})
	}
	for _, id := range node.Holders(of.File) {
		if len(list) == 0 || list[0].id != id {
			list = append(list, server{id: id, name: id.String()})
		}
	}
	return list
}

// ask asks one server. It returns nothing if the server does not answer.
func (c *Connector) ask(ctx context.Context, s server, q *question) []scheduling.Busy {
	c.asked.Inc()
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	list, err := c.exchange(ctx, s, q)
	if err != nil {
		c.failed.Inc()
		c.env.Log.Warn("free time: another server does not answer", "server", s.name, "err", err)
	}
	return list
}

func (c *Connector) exchange(ctx context.Context, s server, q *question) ([]scheduling.Busy, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	raw, err := c.send(ctx, s, body)
	if err != nil {
		return nil, err
	}
	var answers []answer
	if err := json.Unmarshal(raw, &answers); err != nil {
		return nil, err
	}
	if len(answers) != len(q.Files) {
		return nil, fmt.Errorf("%d answers to %d questions", len(answers), len(q.Files))
	}
	out := make([]scheduling.Busy, len(answers))
	for i := range answers {
		out[i] = answers[i].read(q)
	}
	return out, nil
}

func (c *Connector) send(ctx context.Context, s server, body []byte) ([]byte, error) {
	if s.url == "" {
		_, mates := c.opt.Cluster()
		if mates == nil {
			return nil, bus.ErrNoServer
		}
		return mates.Request(ctx, s.id, verb, body)
	}
	own := c.opt.Own()
	if own == nil {
		return nil, errors.New("this server has no key of its own")
	}
	client, err := https.NewClient(c.env, https.ClientOptions{URL: s.url, TLS: own.Client(s.key, c.env.Clock.Now),
		Silence: askWithin})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Busy(ctx, body)
}

// read returns the busy times of an answer, within the time of the question.
func (a *answer) read(q *question) (out scheduling.Busy) {
	switch {
	case a.Away:
		out.Err = scheduling.ErrAway
	case a.Denied:
		out.Err = store.ErrDenied
	case a.Silent:
		out.Replica = &scheduling.Replica{}
		if a.AsOf != 0 {
			out.Replica.AsOf = time.Unix(a.AsOf, 0).UTC()
		}
	}
	for _, p := range a.Busy {
		x := calendar.Period{From: time.Unix(p[0], 0).UTC(), To: time.Unix(p[0]+p[1], 0).UTC()}
		x.Busy = calendar.BusyConfirmed
		if p[2] == int64(calendar.BusyTentative) {
			x.Busy = calendar.BusyTentative
		}
		if x.From.Before(x.To) && x.From.Before(q.To) && x.To.After(q.From) {
			out.Periods = append(out.Periods, x)
		}
	}
	return out
}
