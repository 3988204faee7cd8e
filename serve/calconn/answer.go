package calconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"doublet/bus"
	"doublet/directory"
	"doublet/note"
	"doublet/replica"
	"doublet/scheduling"
	"doublet/stat"
	"doublet/store"
)

// codeMalformed is the code of a refusal of a request that cannot be read.
const codeMalformed = "malformed"

// errMalformed reports a question that cannot be read, or one above the limits.
var errMalformed = fmt.Errorf("%w: this is no question about free time", replica.ErrFormat)

// Desk answers the questions of other servers from the replicas of this one.
type Desk struct {
	names      *directory.Names
	scheduling *scheduling.Service
	answered   *stat.Counter
}

// NewDesk returns a Desk.
func NewDesk(d *directory.Directory, s *scheduling.Service, stats *stat.Tree) *Desk {
	return &Desk{names: d.Names, scheduling: s,
		answered: stats.Counter("CalConn.Requests.Answered", "questions of other servers about free time")}
}

// Handlers registers handlers for the requests of other members. It is a bus.Bus, or a membership that forwards to one.
type Handlers interface {
	Handle(verb string, fn bus.Handler)
}

// Serve answers the members of the cluster from now on.
func (d *Desk) Serve(to Handlers) {
	to.Handle(verb, func(ctx context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
		out, err := d.Answer(ctx, body)
		if errors.Is(err, errMalformed) {
			return nil, bus.Refuse(codeMalformed, err.Error())
		}
		return out, err
	})
}

// Answer answers the question of a server of the cluster or the domain. Errors match replica.ErrFormat for a question
// that cannot be read or is above the limits.
func (d *Desk) Answer(ctx context.Context, body []byte) ([]byte, error) {
	var q question
	if err := json.Unmarshal(body, &q); err != nil || len(q.Files) > maxCalendars || !q.From.Before(q.To) ||
		q.To.Sub(q.From) > maxRange {
		return nil, errMalformed
	}
	asker, err := note.ParseUNID(q.Asker)
	if err != nil {
		return nil, errMalformed
	}
	d.answered.Inc()
	who, err := d.names.WhoOf(ctx, asker)
	stranger := errors.Is(err, directory.ErrNotFound) || errors.Is(err, directory.ErrDisabled)
	if err != nil && !stranger {
		return nil, err
	}
	room := maxPeriods
	answers := make([]answer, len(q.Files))
	for i, id := range q.Files {
		file, err := note.ParseDatabaseID(id)
		switch {
		case err != nil:
			return nil, errMalformed
		case stranger:
			answers[i].Denied = true
		default:
			answers[i] = d.of(ctx, who, file, &q, &room)
		}
	}
	return json.Marshal(answers)
}

// of answers about one mail file. room is the number of busy times that the whole answer has still room for.
func (d *Desk) of(ctx context.Context, who note.Who, file note.DatabaseID, q *question, room *int) (a answer) {
	b := d.scheduling.BusyHere(ctx, who, file, q.From, q.To)
	switch {
	case errors.Is(b.Err, store.ErrDenied):
		a.Denied = true
	case b.Err != nil || len(b.Periods) > *room:
		a.Away = true
	default:
		*room -= len(b.Periods)
		if b.Replica != nil {
			a.Silent = true
			if at := b.Replica.AsOf; !at.IsZero() {
				a.AsOf = at.Unix()
			}
		}
		for _, p := range b.Periods {
			a.Busy = append(a.Busy, period{p.From.Unix(), int64(p.To.Sub(p.From) / time.Second), int64(p.Busy)})
		}
	}
	return a
}
