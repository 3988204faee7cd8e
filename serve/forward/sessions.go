package forward

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"doublet/bus"
	"doublet/directory/session"
	"doublet/note"
)

// Verbs of the requests about browsers: to find a session by its id, and to use a code of a second factor.
const (
	verbFind = "session.find"
	verbCode = "session.code"
	// verbGuess is the verb of requests to count a guess of a code.
	verbGuess = "session.guess"
)

// askWithin is the timeout for mates. It is short, because a person waits at a browser.
const askWithin = 2 * time.Second

// Sessions asks mates about sessions of browsers. It implements session.Mates. Outside a cluster it asks nobody.
type Sessions struct {
	s *Service
}

// Sessions returns the Sessions of the service's server.
func (s *Service) Sessions() Sessions { return Sessions{s} }

// Ask implements session.Mates.
func (x Sessions) Ask(ctx context.Context, id note.UNID) session.Told {
	node, mates := x.s.cluster()
	if node == nil {
		return session.Told{}
	}
	list := node.Holders(session.SharedID)
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	answers := make(chan session.Told, len(list))
	for _, mate := range list {
		x.s.env.Go("session of a mate", func() {
			var t session.Told
			answer, err := mates.Request(ctx, mate, verbFind, id[:])
			if err == nil {
				err = json.Unmarshal(answer, &t)
			}
			if err != nil {
				t = session.Told{} // it has no usable answer
			}
			answers <- t
		})
	}
	for range list {
		select {
		case t := <-answers:
			if t.Ended || t.Session.ID == id {
				return t
			}
		case <-ctx.Done():
			return session.Told{}
		}
	}
	return session.Told{}
}

// UseCode implements session.Mates.
func (x Sessions) UseCode(ctx context.Context, person note.UNID, step int64) (fresh, asked bool) {
	answer, asked := x.askHome(ctx, verbCode, binary.BigEndian.AppendUint64(person[:len(person):len(person)],
		uint64(step)))
	if !asked || len(answer) != 1 {
		return false, false
	}
	return answer[0] == 1, true
}

// Guess implements session.Mates.
func (x Sessions) Guess(ctx context.Context, g session.CountedGuess) (out session.Guessing, asked bool) {
	body, err := json.Marshal(g)
	if err != nil {
		return out, false
	}
	answer, asked := x.askHome(ctx, verbGuess, body)
	if !asked || json.Unmarshal(answer, &out) != nil {
		return session.Guessing{}, false
	}
	return out, true
}

// askHome sends a request to the home of the sessions database. asked is false if this server is the home, or if the
// home does not answer.
func (x Sessions) askHome(ctx context.Context, verb string, body []byte) (answer []byte, asked bool) {
	node, mates := x.s.cluster()
	if node == nil {
		return nil, false
	}
	p, err := node.Where(ctx, session.SharedID)
	if err != nil || p.Self {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	answer, err = mates.Request(ctx, p.Server, verb, body)
	return answer, err == nil
}

// ServeSessions answers mates from now on, from the sessions of this server.
func ServeSessions(to Handlers, x *session.Service) {
	h := sessionsHere{x}
	to.Handle(verbFind, h.answerFind)
	to.Handle(verbCode, h.answerCode)
	to.Handle(verbGuess, h.answerGuess)
}

// sessionsHere answers mates from the sessions of this server.
type sessionsHere struct{ *session.Service }

// answerFind answers a mate's question about a session.
func (h sessionsHere) answerFind(ctx context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	var id note.UNID
	if len(body) != len(id) {
		return nil, bus.Refuse(codeMalformed, "this is no id of a session")
	}
	t, err := h.Tell(ctx, note.UNID(body))
	if err != nil {
		return nil, err
	}
	return json.Marshal(t)
}

// answerCode uses a code for a mate, if this server is the home.
func (h sessionsHere) answerCode(ctx context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	var person note.UNID
	if len(body) != len(person)+8 {
		return nil, bus.Refuse(codeMalformed, "this is no use of a code")
	}
	copy(person[:], body)
	fresh, err := h.UseCodeAtHome(ctx, person, int64(binary.BigEndian.Uint64(body[len(person):])))
	switch {
	case errors.Is(err, session.ErrNotHome):
		return nil, bus.Refuse(codeNotHome, err.Error())
	case err != nil:
		return nil, err
	case fresh:
		return []byte{1}, nil
	}
	return []byte{0}, nil
}

// answerGuess counts a guess for a mate, if this server is the home.
func (h sessionsHere) answerGuess(ctx context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	var g session.CountedGuess
	if err := json.Unmarshal(body, &g); err != nil || g.Person.IsZero() || g.Bucket.IsZero() {
		return nil, bus.Refuse(codeMalformed, "this is no guess")
	}
	out, err := h.GuessAtHome(ctx, g)
	if errors.Is(err, session.ErrNotHome) {
		return nil, bus.Refuse(codeNotHome, err.Error())
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}
