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
	// Err is store.ErrDenied if the person does not share busy times with the person who asks, or ErrAway.
	Err error
}

// ErrAway reports that no server that has the mail file answers.
var ErrAway = errors.New("scheduling: no server with the mail file answers")

// Elsewhere asks other servers for busy times: the members of the cluster, and the other places of the domain.
type Elsewhere interface {
	// Busy asks the servers of calendars for the busy times that a person may see. It returns an answer for each
	// element of list, within seconds.
	Busy(ctx context.Context, asker note.UNID, list []Calendars, from, to time.Time) []Busy
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
	return Busy{Periods: list, Err: err}
}
