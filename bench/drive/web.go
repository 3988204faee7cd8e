package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"doublet/bench/workload"
	client "doublet/client/jmap"
	wire "doublet/wire/jmap"
)

// webSession is a user with the full web client (web/src). It sends the requests of that client, in the same order:
// those of the user's actions, and beside them those by which the client keeps up with the server (view, Sync). A test
// compares them.
type webSession struct {
	*browser
	mailAccount
	view view
	last email // the last message read
	// listed means that the server completes recipients from its directory.
	listed bool
	// calendar is the page of the calendar, nil before it is opened.
	calendar *webCalendar
	// checked holds the recipients about which the client has asked; nil if the server does not check them.
	checked map[string]bool

	live context.Context // ends with the session
	end  context.CancelFunc
	work sync.WaitGroup // background work

	mu      sync.Mutex
	acting  bool // an action of the user is running
	works   bool // background work is running
	wanted  *beside
	asking  bool           // background work asks for changes
	telling bool           // a change is being told to the server
	heard   client.Changed // pushed meanwhile
	syncs   []Sync
}

// beside is background work: the bodies of the newest messages are loaded if they are missing, and before it the server
// is asked for changes, and for the list.
type beside struct{ ask, list bool }

// Sync is a piece of work by which a session kept up with the server; no user waited for it.
type Sync struct {
	Begun, Ended time.Time
	Traffic      Traffic
	Err          error
}

// Syncing is a Session that does such work.
type Syncing interface {
	// Syncs returns the work since the last call.
	Syncs() []Sync
}

// maxSyncs is the number of entries that are kept until the next call of Syncs.
const maxSyncs = 1000

// webUsing are the capabilities in every request of the client.
var webUsing = []string{wire.Core, wire.Mail, wire.SubmissionURN, wire.VacationResponse, wire.Quota}

// pushed are the types whose changes are pushed to the client.
var pushed = []string{"Mailbox", "Email", "EmailDelivery"}

// openWeb loads the client, signs in, shows the INBOX and listens for changes.
func (w *World) openWeb(ctx context.Context, u *User) (Session, Traffic, error) {
	b, err := w.newBrowser()
	if err != nil {
		return nil, Traffic{}, err
	}
	s := &webSession{browser: b, mailAccount: mailAccount{u: u}}
	o := client.Options{URL: b.base.String(), Sign: b.sign, Transport: b, Timeout: w.timeout(),
		TLS: b.transport.TLSClientConfig}
	if s.c, err = client.New(counting(w.Env, b.n), o); err != nil {
		return nil, Traffic{}, err
	}
	within, end := w.until(ctx)
	defer end()
	s.acting = true
	err = s.enter(within)
	t := s.acted()
	if err != nil {
		_ = s.Close()
		return nil, t, webError(err)
	}
	return s, t, nil
}

// webError does the work of jmapError, and turns status 401 into the error for a signed-out user.
func webError(err error) error {
	var p *wire.Problem
	if errors.As(err, &p) && p.Status == http.StatusUnauthorized {
		return signedOut()
	}
	return jmapError(err)
}

// enter performs all steps from loading the client to the list of the INBOX. It ends an earlier session.
func (s *webSession) enter(ctx context.Context) error {
	s.leave()
	s.live, s.end = context.WithCancel(context.Background())
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	s.jar, s.csrf = jar, ""
	if err := s.load(ctx, "/"); err != nil {
		return err
	}
	if err := s.signIn(ctx); err != nil {
		return err
	}
	session, err := s.c.Refresh(ctx)
	if err != nil {
		return err
	}
	if s.account, err = session.MailAccount(); err != nil {
		return err
	}
	s.listed = session.Capabilities.Get(wire.Principals) != nil
	if session.Capabilities.Get(wire.Recipients) != nil {
		s.checked = map[string]bool{}
	}
	using, keeps := slices.Clone(webUsing), session.Capabilities.Get(wire.Preferences) != nil
	if keeps {
		using = append(using, wire.Preferences)
	}
	r := client.NewRequest(using...)
	boxes := r.Get("Mailbox", s.account, nil)
	who := r.Get("Identity", s.account, nil)
	state := r.Get("Email", s.account, []string{})
	r.Get("Mailbox", s.account, nil, "role") // of the user's own account; the client can show others too
	if keeps {
		r.Call("Email/query", func(w *wire.Writer) { // for pinned messages, which lists show first
			w.Text("accountId", s.account)
			w.Raw("filter", `{"hasKeyword":"$pinned"}`)
			w.Uint("limit", 1)
		})
		r.Get("Preferences", s.account, nil)
	}
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return err
	}
	v, err := out.Get(boxes)
	if err == nil {
		err = s.mailboxes(v)
	}
	if err != nil {
		return err
	}
	folders := strings.Clone(stateOf(v, "state"))
	if v, err = out.Get(who); err != nil {
		return err
	}
	s.identities(v)
	if v, err = out.Get(state); err != nil {
		return err
	}
	s.view.begin(known{strings.Clone(stateOf(v, "state")), folders})
	if err := s.show(ctx); err != nil {
		return err
	}
	_, err = s.call(ctx, "Quota/get", func(w *wire.Writer) { w.Text("accountId", s.account); w.Raw("ids", "null") })
	var none *client.CallError
	if errors.As(err, &none) {
		err = nil // a server without quotas
	}
	if err != nil {
		return err
	}
	return s.listen(ctx)
}

// leave ends the background work.
func (s *webSession) leave() {
	if s.end != nil {
		s.end()
	}
	s.work.Wait()
	s.calendar = nil
}

// call performs one method call.
func (s *webSession) call(ctx context.Context, method string, fn func(*wire.Writer)) (*wire.Value, error) {
	r := client.NewRequest(webUsing...)
	h := r.Call(method, fn)
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	return out.Get(h)
}

// webFile matches files of the client as its page and its service worker name them. The worker has them as a list of
// strings, or as one string with commas between, as its minifier likes.
var webFile = regexp.MustCompile(
	"(?:src|href)=\"(/[^\"]+)\"|[\",`](/(?:assets/[^\",`]+|icon\\.svg|manifest\\.webmanifest|mail-frame))")

// load gets the client: a page of it, and the files named by the page and the service worker, unless they are cached.
// The worker caches them all, so a returning browser requests only the page and the worker.
func (s *webSession) load(ctx context.Context, page string) error {
	had := map[string]bool{}
	for _, name := range []string{page, "/sw.js"} {
		got, err := s.file(ctx, name)
		if err != nil {
			return err
		}
		if got == nil {
			continue
		}
		text, err := got.text()
		if err != nil {
			return err
		}
		for _, m := range webFile.FindAllSubmatch(text, -1) {
			to := string(m[1]) + string(m[2])
			if had[to] || to == "/lite/" {
				continue
			}
			had[to] = true
			if _, err := s.file(ctx, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// signIn finds that no user is signed in, and signs in.
func (s *webSession) signIn(ctx context.Context) error {
	header := func() http.Header { return http.Header{"Accept": {"application/json"}} }
	got, err := s.fetch(ctx, http.MethodGet, "/auth/session", header(), nil)
	if err != nil {
		return err
	}
	if got.status != http.StatusUnauthorized {
		return &Refusal{fmt.Sprintf("%d for a session that there is none of", got.status)}
	}
	// The page asks for the ways to sign in. Users of the benchmark have a password in any case.
	if _, err := s.fetch(ctx, http.MethodGet, "/auth/ways", header(), nil); err != nil {
		return err
	}
	body, err := json.Marshal(struct {
		User     string `json:"user"`
		Password string `json:"password"`
		Code     string `json:"code"`
		Keep     bool   `json:"keep"`
	}{User: s.u.Name, Password: s.u.Password})
	if err != nil {
		return err
	}
	h := header()
	h.Set("Content-Type", "application/json")
	if got, err = s.fetch(ctx, http.MethodPost, "/auth/sign-in", h, body); err != nil {
		return err
	}
	text, err := got.text()
	if err != nil {
		return err
	}
	var answer struct{ CSRF, Error, Detail string }
	err = json.Unmarshal(text, &answer)
	switch {
	case got.status != http.StatusOK:
		return &Refusal{fmt.Sprintf("%d %s", got.status, answer.Detail)}
	case err != nil || answer.CSRF == "":
		return fmt.Errorf("%w: signed in without a token", ErrProtocol)
	}
	s.csrf = answer.CSRF
	return nil
}

// listen opens the WebSocket for pushes, and opens it again when it breaks.
func (s *webSession) listen(ctx context.Context) error {
	socket, err := s.c.Socket(ctx)
	if err == nil {
		err = socket.Push(pushed, "")
	}
	if err != nil {
		return err
	}
	s.work.Add(1)
	s.w.Env.Go("bench push", func() {
		defer s.work.Done()
		for s.live.Err() == nil {
			var c client.Changed
			if c, err = socket.Next(s.live); err == nil {
				s.hear(c)
				continue
			}
			_ = socket.Close()
			if s.live.Err() != nil {
				return
			}
			now := s.w.Env.Clock.Now()
			s.synced(Sync{Begun: now, Ended: now, Err: err})
			for s.live.Err() == nil {
				select {
				case <-s.live.Done():
					return
				case <-s.w.Env.Clock.After(time.Second):
				}
				if socket, err = s.c.Socket(s.live); err == nil && socket.Push(pushed, "") == nil {
					break
				}
			}
		}
		_ = socket.Close()
	})
	return nil
}

// later starts background work. One goroutine does it at a time; further requests make it run again.
func (s *webSession) later(b beside) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.wanted; w != nil {
		b.ask, b.list = b.ask || w.ask, b.list || w.list
	}
	s.wanted = &b
	if s.works || s.live.Err() != nil {
		return
	}
	s.works = true
	s.work.Add(1)
	s.w.Env.Go("bench sync", func() {
		defer s.work.Done()
		for {
			s.mu.Lock()
			b := s.wanted
			if s.wanted = nil; b == nil || s.live.Err() != nil {
				s.works = false
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			begun := s.w.Env.Clock.Now()
			asked, err := s.catchUp(s.live, *b)
			if asked && s.live.Err() == nil {
				s.synced(Sync{Begun: begun, Ended: s.w.Env.Clock.Now(), Err: webError(err)})
			}
		}
	})
}

// synced records background work. Its traffic is its own, unless the user acted meanwhile: then it counts as the
// user's.
func (s *webSession) synced(x Sync) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.acting {
		x.Traffic = s.n.traffic()
	}
	if len(s.syncs) < maxSyncs {
		s.syncs = append(s.syncs, x)
	}
}

// Syncs implements Syncing.
func (s *webSession) Syncs() []Sync {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.syncs
	s.syncs = nil
	return out
}

// acted ends the user's action and returns its traffic.
func (s *webSession) acted() Traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acting = false
	return s.n.traffic()
}

// Do implements Session.
func (s *webSession) Do(ctx context.Context, p *workload.Planned) (Traffic, error) {
	within, end := s.w.until(ctx)
	defer end()
	s.mu.Lock()
	s.acting = true
	s.mu.Unlock()
	held, err := s.do(ctx, within, p)
	t := s.acted()
	t.Held = held
	return t, webError(err)
}

func (s *webSession) do(ctx, within context.Context, p *workload.Planned) (held time.Duration, err error) {
	switch p.Do {
	case workload.Open:
		err = s.show(within)
	case workload.Scroll:
		err = s.scroll(within)
	case workload.Read:
		err = s.read(within, p.Pick)
	case workload.Update:
		err = s.flag(within, p.Pick)
	case workload.Move:
		if s.archive == "" {
			err = s.folders(within)
		}
		if err == nil {
			err = s.putAway(within, p.Pick, s.archive)
		}
	case workload.Delete:
		err = s.putAway(within, p.Pick, s.trash)
	case workload.Poll:
		_, err = s.catchUp(within, beside{ask: true, list: true})
	case workload.Idle:
		held = s.w.idle(ctx, p)
	case workload.Send, workload.Reply, workload.Add:
		held, err = s.send(within, p)
	case workload.Calendar, workload.Appointment, workload.Invite, workload.RSVP:
		held, err = s.planned(within, p)
	case workload.Login:
		err = s.enter(within)
	default:
		err = fmt.Errorf("drive: the full client does not carry %s", p.Do)
	}
	return held, err
}

// Close implements Session.
func (s *webSession) Close() error {
	s.leave()
	s.c.Close()
	s.close()
	return nil
}

func stateOf(v *wire.Value, name string) string {
	text, _ := v.Get(name).Text()
	return text
}
