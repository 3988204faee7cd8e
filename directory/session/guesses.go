package session

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// Whoever shows a person's password and guesses the code of their second factor is slowed down over days, by the count of wrong
// codes in guessesKept, wherever in the cluster they came in. A guess is written down before its code is looked at, so that many
// at once are no more than many one after the other, and marked afterwards if the code was right.
//
// A browser that has shown a code before is counted by itself: guesses from elsewhere do not shut it out. A new password begins
// a new count, since nobody can guess who does not know it.

const (
	guessesKept = 30 * 24 * time.Hour
	// freeGuesses cost nothing. Each further one takes a minute, and twice the time of the one before it, until the longest.
	freeGuesses  = 5
	guessDelay   = time.Minute
	longestDelay = 24 * time.Hour
	// browserKnown is the time for which a browser is known without showing a code.
	browserKnown = 180 * 24 * time.Hour
)

// Guess is an attempt to give a code.
type Guess struct {
	Person note.UNID
	// PasswordID is that of the password which was given with it.
	PasswordID string
	// Browser is the token of a browser, from KnowBrowser; "" and the tokens of others are of none that is known.
	Browser string
	Address string
}

// Guessing is the decision about a guess.
type Guessing struct {
	// ID is that of the guess, for Right; the zero one where it may not be made now.
	ID note.UNID
	// After is when the next one may be made, of one that may not.
	After time.Time
}

// guesses counts guesses at second factors, and the codes that were used, for the whole cluster.
type guesses struct{ *base }

// bucket returns the id by which a guess is counted.
func (gs *guesses) bucket(g *Guess) note.UNID {
	if id, ok := gs.browser(g.Browser, g.Person); ok {
		return note.DeriveUNID([]byte("guess of browser"), g.Person[:], id[:], []byte(g.PasswordID))
	}
	return note.DeriveUNID([]byte("guess"), g.Person[:], []byte(g.PasswordID))
}

// CountedGuess is a guess as members tell it each other. It travels as JSON.
type CountedGuess struct {
	Person, Bucket note.UNID
	Address        string
}

// Guess counts an attempt to give a code, before the code is looked at.
func (gs *guesses) Guess(ctx context.Context, g Guess) (Guessing, error) {
	c := CountedGuess{g.Person, gs.bucket(&g), short(g.Address)}
	if m := gs.mates.Load(); m != nil {
		if out, asked := (*m).Guess(ctx, c); asked {
			return out, nil
		}
	}
	return gs.guess(ctx, &c)
}

// GuessAtHome is Guess for a mate. Errors: ErrNotHome.
func (gs *guesses) GuessAtHome(ctx context.Context, c CountedGuess) (Guessing, error) {
	if gs.adopt(ctx); gs.place.id() != SharedID || !gs.s.Leads(SharedID) {
		return Guessing{}, ErrNotHome
	}
	return gs.guess(ctx, &c)
}

func (gs *guesses) guess(ctx context.Context, c *CountedGuess) (out Guessing, err error) {
	now := gs.now()
	id := gs.s.UNID()
	err = gs.update(ctx, func(w *store.Writer) error {
		out = Guessing{}
		list, err := wrongCodes(&w.Reader, c.Person, now)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(g madeGuess) bool { return g.bucket != c.Bucket })
		if n := len(list); n >= freeGuesses {
			after := list[n-1].at.Add(delayOf(n))
			if now.Before(after) {
				out.After = after
				return nil
			}
		}
		items := note.Items(nil).With(itemForm, note.Text(formGuess)).With(itemPerson, note.Text(c.Person.String())).With(itemBucket, note.Text(c.Bucket.String())).
			With(itemCreated, note.Int(now.Unix())).With(itemAddress, note.Text(c.Address)).With(itemEnds, note.Int(now.Add(guessesKept).Unix()))
		_, err = w.Create(store.New{UNID: id, Content: note.Content{Items: items}})
		out.ID = id
		return err
	})
	if err != nil {
		return Guessing{}, fmt.Errorf("session: guess: %w", err)
	}
	return out, nil
}

// delayOf returns the time after the last of n wrong codes at which the next one may be tried.
func delayOf(n int) time.Duration {
	d := guessDelay
	for ; n > freeGuesses && d < longestDelay; n-- {
		d *= 2
	}
	return min(d, longestDelay)
}

// Right says that the code of a guess was right: it counts for nothing. It is a note of its own, which nobody edits, since the
// guess may not have come here yet.
func (gs *guesses) Right(ctx context.Context, guess note.UNID) error {
	items := note.Items(nil).With(itemForm, note.Text(formRight)).With(itemEnds, note.Int(gs.now().Add(guessesKept+time.Hour).Unix()))
	err := gs.update(ctx, func(w *store.Writer) error {
		_, err := w.Create(store.New{UNID: rightOf(guess), Content: note.Content{Items: items}})
		return err
	})
	if err != nil && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrGrave) {
		return fmt.Errorf("session: guess: %w", err)
	}
	return nil
}

func rightOf(guess note.UNID) note.UNID { return note.DeriveUNID([]byte("right guess"), guess[:]) }

// madeGuess is one that was written down.
type madeGuess struct {
	bucket  note.UNID
	at      time.Time
	address string
}

// wrongCodes are a person's guesses that were not right, the oldest first.
func wrongCodes(r *store.Reader, person note.UNID, now time.Time) (list []madeGuess, err error) {
	ids, err := r.Lookup(indexGuesses, personKey(person))
	for _, id := range ids {
		u, items, bad := document(r, id)
		if bad != nil {
			return nil, bad
		}
		_, bad = r.Find(rightOf(u))
		if bad == nil || errors.Is(bad, store.ErrGrave) || unix(items.Get(itemEnds)).Before(now) {
			continue
		}
		if !errors.Is(bad, store.ErrNotFound) {
			return nil, bad
		}
		b, bad := note.ParseUNID(items.Get(itemBucket).AsText())
		if bad != nil {
			return nil, fmt.Errorf("%w: guess %s", store.ErrDamaged, u)
		}
		list = append(list, madeGuess{b, unix(items.Get(itemCreated)), items.Get(itemAddress).AsText()})
	}
	slices.SortStableFunc(list, func(a, b madeGuess) int { return a.at.Compare(b.at) })
	return list, err
}

// Wrong tells a person of the wrong codes that were given with their password.
type Wrong struct {
	Count     int       `json:"count"`
	Since     time.Time `json:"since,omitzero"`
	Last      time.Time `json:"last,omitzero"`
	Addresses []string  `json:"addresses,omitempty"`
}

// From are the addresses, for people.
func (w *Wrong) From() string { return strings.Join(w.Addresses, ", ") }

// maxAddresses bounds those of Wrong, the last ones.
const maxAddresses = 10

// WrongCodes are those of a person in the last 30 days.
func (gs *guesses) WrongCodes(ctx context.Context, person note.UNID) (out Wrong, err error) {
	err = gs.read(ctx, func(r *store.Reader) error {
		list, err := wrongCodes(r, person, gs.now())
		if out = (Wrong{Count: len(list)}); len(list) == 0 {
			return err
		}
		out.Since, out.Last = list[0].at, list[len(list)-1].at
		for _, g := range slices.Backward(list) {
			if g.address != "" && len(out.Addresses) < maxAddresses && !slices.Contains(out.Addresses, g.address) {
				out.Addresses = append(out.Addresses, g.address)
			}
		}
		return err
	})
	if err != nil {
		return Wrong{}, fmt.Errorf("session: %w", err)
	}
	return out, nil
}

// The token of a browser: person, id, and when it was made, with a keyed hash.
const browserToken = 16 + 16 + 8

// KnowBrowser makes the token of a browser in which a person has shown a code, in place of the one that it shows.
func (gs *guesses) KnowBrowser(old string, person note.UNID) string {
	id, ok := gs.browser(old, person)
	if !ok {
		gs.env.Fill(id[:])
	}
	b := append(append(person[:len(person):len(person)], id[:]...), binary.BigEndian.AppendUint64(nil, uint64(gs.now().Unix()))...)
	return base64.RawURLEncoding.EncodeToString(append(b, gs.mac("browser", string(b))[:16]...))
}

// BrowserLife returns the time for which a browser keeps its token.
func (gs *guesses) BrowserLife() time.Duration { return browserKnown }

// browser is the id of a token that was made for a person.
func (gs *guesses) browser(token string, person note.UNID) (id note.UNID, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) != browserToken+16 || !bytes.Equal(b[:16], person[:]) || !hmac.Equal(b[browserToken:], gs.mac("browser", string(b[:browserToken]))[:16]) {
		return id, false
	}
	made := time.Unix(int64(binary.BigEndian.Uint64(b[32:browserToken])), 0)
	copy(id[:], b[16:])
	return id, gs.now().Before(made.Add(browserKnown))
}
