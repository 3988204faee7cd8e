package jmapd

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"doublet/directory/session"
	"doublet/note"
	"doublet/serve/jmapd/push"
	"doublet/store"
	"doublet/wire/jmap"
)

// OpenPush enables push over event streams, WebSockets and, if o.Web has subscriptions, push services. It must be
// called before the server handles requests. The server's limits and memory budget apply to WebSockets too.
func (s *Server) OpenPush(o push.Options) *push.Service {
	l := &s.opt.Limits
	o.Request, o.Requests, o.Take, o.Give, o.Stats = l.Request, l.ConcurrentRequests, s.takeOf, s.giveOf, s.opt.Stats
	p := push.New(s.env, pushSource{s}, o)
	s.Handle("GET "+PathEvents+"{$}", func(w http.ResponseWriter, r *http.Request,
		c *Caller) {
		p.Events(w, r, pushCaller(c))
	})
	s.Handle("GET "+PathWebSocket, func(w http.ResponseWriter, r *http.Request,
		c *Caller) {
		p.WebSocket(w, r, pushCaller(c))
	})
	extend := s.opt.Extend
	s.opt.Extend = func(dst []byte, base string) []byte {
		if extend != nil {
			dst = extend(dst, base)
		}
		return appendPushCapabilities(dst, base, p)
	}
	if p.Web() {
		for name, run := range map[string]func(*call, *push.Service) error{"PushSubscription/get": getSubscriptions,
			"PushSubscription/set": setSubscriptions} {
			s.methods[name] = s.bound(name, method{jmap.Core, func(c *call) error { return run(c, p) }})
		}
	}
	return p
}

// appendPushCapabilities appends the capabilities of push to the session object.
//
// Implements: RFC 8887 §3 Discovering support for JMAP over WebSocket
// Implements: RFC 9749 §3 urn:ietf:params:jmap:webpush-vapid
func appendPushCapabilities(dst []byte, base string, p *push.Service) []byte {
	// http becomes ws, and https becomes wss.
	url := "ws" + strings.TrimPrefix(base, "http") + PathWebSocket
	dst = append(jmap.AppendString(append(dst, ','), jmap.WebSocket), `:{"url":`...)
	dst = append(jmap.AppendString(dst, url), `,"supportsPush":true}`...)
	if key := p.ApplicationServerKey(); key != "" {
		dst = append(jmap.AppendString(append(dst, ','), jmap.WebPushVAPID), `:{"applicationServerKey":`...)
		dst = append(jmap.AppendString(dst, key), '}')
	}
	return dst
}

func pushCaller(c *Caller) push.Caller { return push.Caller{Account: c.Account, Credential: c.Session} }

// pushSource implements push.Source.
type pushSource struct{ s *Server }

func (p pushSource) caller(c *push.Caller) *Caller {
	return &Caller{Account: c.Account, Session: c.Credential}
}

func (p pushSource) Accounts(ctx context.Context, c *push.Caller) ([]push.Account, error) {
	list, err := p.s.Accounts(ctx, p.caller(c))
	out := make([]push.Account, 0, len(list))
	for _, a := range list {
		out = append(out, push.Account{ID: a.ID, Database: a.Database})
	}
	return out, err
}

func (p pushSource) Watch(a push.Account, fn func()) (func(), error) {
	return p.s.backend.Mail().File(note.Who{}, a.Database).Watch(fn)
}

// States returns no states for an account that was removed or that the caller may not read.
func (p pushSource) States(ctx context.Context, c *push.Caller, a push.Account) (map[string]string, error) {
	x := &Account{ID: a.ID, Personal: a.Database == c.Database, Database: a.Database,
		File: p.s.backend.Mail().File(c.Who, a.Database)}
	states, err := p.s.States(ctx, p.caller(c), x)
	if errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrOutOfService) {
		return nil, nil
	}
	return states, err
}

func (p pushSource) Call(ctx context.Context, c *push.Caller, request []byte) (push.Answer, *jmap.Problem) {
	a, problem := p.s.Call(ctx, p.caller(c), request)
	if problem != nil {
		return push.Answer{}, problem
	}
	return push.Answer{JSON: a.JSON, Release: a.Release}, nil
}

func (p pushSource) Refresh(ctx context.Context, c *push.Caller) error {
	return p.s.backend.Refresh(ctx, &c.Account)
}

// The properties of a subscription that /get returns. RFC 8620 section 7.2.1 forbids to return url and keys.
var subscriptionProperties = []string{"id", "deviceClientId", "verificationCode", "expires", "types"}

// getSubscriptions answers PushSubscription/get.
//
// Implements: RFC 8620 §7.2.1 PushSubscription/get
func getSubscriptions(c *call, p *push.Service) error {
	if err := c.allow("ids", "properties"); err != nil {
		return err
	}
	g, err := c.getObjects(nil)
	if err != nil {
		return err
	}
	if slices.Contains(g.properties, "url") || slices.Contains(g.properties, "keys") {
		return &jmap.Error{Type: "forbidden", Description: "url and keys are told to nobody."}
	}
	if err := g.only(subscriptionProperties...); err != nil {
		return err
	}
	caller := pushCaller(c.caller)
	list, err := p.Subscriptions(c.ctx, &caller)
	if err != nil {
		return err
	}
	find := func(id string) *session.Subscription {
		i := slices.IndexFunc(list, func(s session.Subscription) bool { return push.SubscriptionID(&s) == id })
		if i < 0 {
			return nil
		}
		return &list[i]
	}
	answerGet(&g, "", list, find, func(dst []byte, s *session.Subscription) []byte {
		return appendSubscription(dst, s, g.wants)
	})
	return nil
}

func appendSubscription(dst []byte, s *session.Subscription, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", push.SubscriptionID(s))
	if wants("deviceClientId") {
		o.Text("deviceClientId", s.Device)
	}
	if wants("verificationCode") {
		if s.Verified {
			o.Text("verificationCode", s.Code)
		} else {
			o.Raw("verificationCode", "null")
		}
	}
	if wants("expires") {
		o.Name("expires")
		o.B = jmap.AppendUTCDate(o.B, s.Ends)
	}
	if wants("types") {
		if s.AllTypes {
			o.Raw("types", "null")
		} else {
			o.Strings("types", s.Types...)
		}
	}
	return o.End()
}

// setSubscriptions answers PushSubscription/set.
//
// Implements: RFC 8620 §7.2.2 PushSubscription/set
func setSubscriptions(c *call, p *push.Service) error {
	if err := c.allow("create", "update", "destroy"); err != nil {
		return err
	}
	s := &set{c: c}
	if err := s.changes(); err != nil {
		return err
	}
	caller := pushCaller(c.caller)
	for _, x := range s.create {
		n, err := readNewSubscription(x.object)
		var sub session.Subscription
		if err == nil {
			sub, err = p.Subscribe(c.ctx, &caller, n)
		}
		if err != nil {
			s.notCreated = append(s.notCreated, failure{x.id, err})
			continue
		}
		object, err := c.subscriptionObject(&sub)
		if err != nil {
			return err
		}
		s.made(x.id, push.SubscriptionID(&sub), told(x.object, object))
	}
	for _, x := range s.update {
		change, err := c.subscriptionChange(p, &caller, &x)
		var sub session.Subscription
		if err == nil {
			sub, err = p.Resubscribe(c.ctx, &caller, x.real, change)
		}
		if err != nil {
			s.notUpdated = append(s.notUpdated, failure{x.id, err})
			continue
		}
		var told []byte
		if change.Expires != nil && !change.Expires.Equal(sub.Ends) {
			told = append(jmap.AppendUTCDate([]byte(`{"expires":`), sub.Ends), '}')
		}
		s.updated = append(s.updated, entry{x.id, told})
	}
	for _, id := range s.destroy {
		if err := p.Unsubscribe(c.ctx, &caller, id); err != nil {
			s.not = append(s.not, failure{id, err})
		} else {
			s.destroyed = append(s.destroyed, id)
		}
	}
	o := jmap.NewWriter(c.out)
	s.appendOutcome(&o)
	c.out = o.End()
	return nil
}

// readNewSubscription reads a subscription to create.
func readNewSubscription(v *jmap.Value) (n push.NewSubscription, err error) {
	n.AllTypes = true
	for i := range v.Len() {
		ok := true
		switch x := v.At(i); v.Name(i) {
		case "deviceClientId":
			n.Device, ok = x.Text()
		case "url":
			n.URL, ok = x.Text()
		case "keys":
			if x.IsNull() {
				break
			}
			var ok2 bool
			n.P256dh, ok = x.Get("p256dh").Text()
			n.Auth, ok2 = x.Get("auth").Text()
			ok = ok && ok2 && x.Len() == 2 && n.P256dh != ""
		case "verificationCode":
			ok = x.IsNull()
		case "expires":
			n.Expires, ok = readExpires(x)
		case "types":
			n.Types, n.AllTypes, ok = readTypes(x)
		default:
			ok = false
		}
		if !ok {
			return n, badProperties("A property cannot be what it is given to be, or not be given.", v.Name(i))
		}
	}
	if n.URL == "" {
		return n, badProperties("It is missing.", "url")
	}
	return n, nil
}

// subscriptionKind lists the properties of a PushSubscription that a client may change.
var subscriptionKind = kind{
	mutable: []string{"verificationCode", "expires", "types"},
	fixed:   oneOf("id", "deviceClientId", "url", "keys"),
}

// subscriptionChange reads a client's changes to a subscription. The client may send all properties that stay
// unchanged, even url and keys, which /get does not return.
func (c *call) subscriptionChange(p *push.Service, caller *push.Caller,
	x *patch) (change push.SubscriptionChange, err error) {
	list, err := p.Subscriptions(c.ctx, caller)
	if err != nil {
		return change, err
	}
	i := slices.IndexFunc(list, func(s session.Subscription) bool { return push.SubscriptionID(&s) == x.real })
	if i < 0 {
		return change, &jmap.Error{Type: "notFound"}
	}
	current, err := c.subscriptionObject(&list[i])
	if err != nil {
		return change, err
	}
	whole := current.With("url", jmap.Text(list[i].URL))
	if list[i].P256dh != "" {
		keys := jmap.MakeObject([]string{"p256dh", "auth"}, []jmap.Value{jmap.Text(list[i].P256dh),
			jmap.Text(list[i].Auth)})
		whole = whole.With("keys", *keys)
	}
	err = subscriptionKind.apply(x.object, &whole, func(v *jmap.Value) (err error) {
		change, err = readSubscriptionChange(v)
		return err
	})
	return change, err
}

// subscriptionObject returns a subscription as PushSubscription/get shows it.
func (c *call) subscriptionObject(s *session.Subscription) (*jmap.Value, error) {
	return c.rendered(func() error {
		c.out = appendSubscription(c.out, s, func(string) bool { return true })
		return nil
	})
}

func readSubscriptionChange(v *jmap.Value) (change push.SubscriptionChange, err error) {
	for i := range v.Len() {
		ok := true
		switch x := v.At(i); v.Name(i) {
		case "verificationCode":
			var code string
			code, ok = x.Text()
			change.Code = &code
		case "expires":
			var t time.Time
			t, ok = readExpires(x)
			change.Expires = &t
		case "types":
			change.SetTypes = true
			change.Types, change.AllTypes, ok = readTypes(x)
		default:
			ok = false
		}
		if !ok {
			return change, badProperties("A property cannot be what it is given to be, or not be changed.", v.Name(i))
		}
	}
	return change, nil
}

func readExpires(v *jmap.Value) (time.Time, bool) {
	if v.IsNull() {
		return time.Time{}, true
	}
	text, ok := v.Text()
	if !ok {
		return time.Time{}, false
	}
	return jmap.ParseDate(text, true)
}

func readTypes(v *jmap.Value) (list []string, all, ok bool) {
	if v.IsNull() {
		return nil, true, true
	}
	if v.Kind() != jmap.Array {
		return nil, false, false
	}
	for i := range v.Len() {
		s, ok := v.At(i).Text()
		if !ok {
			return nil, false, false
		}
		list = append(list, s)
	}
	return list, false, true
}
