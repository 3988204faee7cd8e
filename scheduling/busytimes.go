package scheduling

import (
	"context"
	"errors"
	"time"

	"doublet/calendar"
	"doublet/note"
	"doublet/store"
)

// Calendars are those of one person, room or resource.
type Calendars struct {
	File note.DatabaseID
	// MailServer is the server that holds the mail file. See directory.PersonFields.
	MailServer note.UNID
}

// Busy is the answer about the calendars of one person: the busy times, or the reason that there are none.
type Busy struct {
	Periods []calendar.Period
	// Replica is set if the times are from a replica whose primary's server does not answer.
	Replica *Replica
	// Err is store.ErrDenied if the person does not share busy times with the person who asks, or ErrAway.
	Err error
}

// Replica is the state of a replica whose primary's server does not answer.
type Replica struct {
	// AsOf is the time of the server's last answer: changes there since then are not in the replica. Zero: it has not
	// answered since the server with the replica started.
	AsOf time.Time
}

// String returns a sentence for people who read an answer from the replica.
func (r *Replica) String() string {
	if r.AsOf.IsZero() {
		return "The server of this calendar does not answer."
	}
	return "As of " + r.AsOf.UTC().Format(time.RFC3339) + "; the server of this calendar is away."
}

// Comment returns what people are told with the times, "" for nothing.
func (b *Busy) Comment() string {
	if b.Replica == nil {
		return ""
	}
	return b.Replica.String()
}

// ErrAway reports that no server that has the mail file answers.
var ErrAway = errors.New("scheduling: no server with the mail file answers")

// Elsewhere asks other servers for busy times: the members of the cluster, and the other places of the domain.
type Elsewhere interface {
	// Busy asks the servers of calendars for the busy times that a person may see. It returns an answer for each
	// element of list, within seconds.
	Busy(ctx context.Context, asker note.UNID, list []Calendars, from, to time.Time) []Busy
	// Silent reports that the server of a mail file's primary does not answer, and the time of its last answer.
	Silent(file note.DatabaseID) (since time.Time, silent bool)
}

// BusyTimes returns the busy times between two instants that who may see, for each element of list. Mail files that are
// not on this server are asked for at others.
func (s *Service) BusyTimes(ctx context.Context, who note.Who, list []Calendars, from, to time.Time) []Busy {
	out := make([]Busy, len(list))
	var away []int
	for i, c := range list {
		if out[i] = s.BusyHere(ctx, who, c.File, from, to); errors.Is(out[i].Err, ErrAway) {
			away = append(away, i)
		}
	}
	if len(away) == 0 || s.opt.Elsewhere == nil || who.Person.IsZero() {
		return out
	}
	asked := make([]Calendars, len(away))
	for k, i := range away {
		asked[k] = list[i]
	}
	for k, b := range s.opt.Elsewhere.Busy(ctx, who.Person, asked, from, to) {
		out[away[k]] = b
	}
	return out
}

// BusyHere returns the busy times of a mail file's calendars from the replica of this server: ErrAway without one.
func (s *Service) BusyHere(ctx context.Context, who note.Who, file note.DatabaseID, from, to time.Time) Busy {
	list, err := s.groupware.File(who, file).Busy(ctx, "", from, to)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrOutOfService) {
		err = ErrAway
	}
	out := Busy{Periods: list, Err: err}
	if err == nil {
		out.Replica = s.Replica(file)
	}
	return out
}

// Replica returns the state of this server's replica of a mail file, nil unless the server of its primary does not
// answer.
func (s *Service) Replica(file note.DatabaseID) *Replica {
	if s.opt.Elsewhere == nil {
		return nil
	}
	since, silent := s.opt.Elsewhere.Silent(file)
	if !silent {
		return nil
	}
	return &Replica{AsOf: since}
}
