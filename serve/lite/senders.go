package lite

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"doublet/client/oneclick"
	"doublet/client/reach"
	"doublet/mail/identity"
	"doublet/mail/verify"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/mime"
)

// maxBlockedShown is the most bytes of blocked senders that the page of settings lists.
const maxBlockedShown = 4000

// blockable returns the address of a message's only author in the form of a blocked sender. It returns "" if there is
// none, or if it is the user's own.
func (v *visit) blockable(e *mime.Envelope) (string, error) {
	if len(e.From) != 1 || e.From[0].Host == "" {
		return "", nil
	}
	sender, err := mailbox.ParseSender(e.From[0].Mailbox + "@" + e.From[0].Host)
	if err != nil {
		return "", nil // an address that cannot be blocked
	}
	x, err := v.identities()
	isIt := func(i identity.Identity) bool { return strings.EqualFold(i.Email, sender) }
	if err != nil || slices.ContainsFunc(x.All, isIt) {
		return "", err
	}
	return sender, nil
}

// block delivers the mail of the messages' senders to Junk from now on, or ends that.
func (a *action) block(ids []note.UNID, on bool) error {
	for _, id := range ids {
		l, err := a.v.open(a.v.box, id, false)
		if err != nil {
			return err
		}
		sender, err := a.v.blockable(l.env)
		if err == nil && sender == "" {
			err = errForm
		}
		if err == nil {
			err = a.v.setBlocked(a.v.box, sender, on)
		}
		if err != nil {
			return err
		}
	}
	if on {
		return a.v.back("senders.blocked", len(ids), "")
	}
	return a.v.back("senders.unblocked", len(ids), "")
}

// setBlocked adds a sender to the blocked ones of the user's mail file, or removes it.
func (v *visit) setBlocked(own *box, sender string, on bool) error {
	r, err := own.Change(v.ctx, 1, func(c *mailbox.Changing, _ int) error {
		list, err := c.BlockedSenders()
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == sender })
		if on {
			list = append(list, sender)
		}
		return c.SetBlockedSenders(list)
	})
	if err == nil {
		err = r.Errs[0]
	}
	return err
}

// setSender blocks a sender whom the user typed, or ends that.
func (v *visit) setSender(text string, on bool) error {
	sender, err := mailbox.ParseSender(text)
	if err != nil {
		return err
	}
	own, err := v.own()
	if err != nil {
		return err
	}
	return v.setBlocked(own, sender, on)
}

// readBlocked fills in the blocked senders of the page of settings.
func (v *visit) readBlocked(p *settingsPage) error {
	own, err := v.own()
	if err != nil {
		return err
	}
	return own.Read(v.ctx, func(d *mailbox.Reading) error {
		list, err := d.BlockedSenders()
		room := maxBlockedShown
		for _, s := range list {
			if room -= len(s); room < 0 {
				break
			}
			p.Blocked = append(p.Blocked, s)
		}
		p.BlockedMore = len(list) - len(p.Blocked)
		return err
	})
}

// ways are the ways to leave the mailing list of a message, "" where there is none.
type ways struct {
	Host       string // of the server to which a request is offered (RFC 8058)
	Mail, Page string // addresses of the page to write a message, and of the list's page (RFC 2369)
}

// maxWay is the longest address of a way to leave a list, in bytes.
const maxWay = 1000

// waysOf returns the ways to leave the mailing list of a message.
func (v *visit) waysOf(l *letter) (w ways, err error) {
	head, err := l.head()
	if err != nil {
		return w, err
	}
	list, _ := mime.Get(head, "List-Unsubscribe")
	for rest, ok := list, true; ok; {
		if _, rest, ok = strings.Cut(rest, "<"); !ok {
			break
		}
		var raw string
		raw, rest, ok = strings.Cut(rest, ">")
		raw = strings.Join(strings.Fields(raw), "")
		u, bad := url.Parse(raw)
		switch {
		case !ok || bad != nil || len(raw) > maxWay:
		case u.Scheme == "mailto" && w.Mail == "":
			w.Mail = pathCompose + "?mailto=" + url.QueryEscape(raw)
		case u.Scheme == "https" && u.Host != "" && w.Page == "":
			w.Page = raw
		}
	}
	if _, err := v.oneClick(head); err == nil && w.Page != "" {
		if u, err := url.Parse(w.Page); err == nil {
			w.Host = fit(u.Host, 80, 90)
		}
	}
	return w, nil
}

// oneClick returns the URL to which a request leaves the list of a message with this header.
func (v *visit) oneClick(head []byte) (string, error) {
	if v.s.opt.Lists == nil {
		return "", verify.ErrNoOneClick
	}
	return verify.OneClick(head, v.ours)
}

// leaveList leaves the mailing list of a message by a request to the list's server.
func (a *action) leaveList(ids []note.UNID) error {
	v := a.v
	l, err := v.open(v.box, ids[0], false)
	if err != nil {
		return err
	}
	head, err := l.head()
	if err != nil {
		return err
	}
	to, err := v.oneClick(head)
	if err == nil {
		err = v.s.opt.Lists.Leave(v.ctx, to)
	}
	var refused *oneclick.Refused
	status, key := http.StatusUnprocessableEntity, ""
	switch {
	case err == nil:
		return v.back("senders.left", 1, "")
	case errors.Is(err, verify.ErrNoOneClick), errors.Is(err, verify.ErrUnsigned), errors.Is(err, reach.ErrAddress):
		key = "listUnproven"
	case errors.Is(err, oneclick.ErrBusy):
		status, key = http.StatusServiceUnavailable, "listBusy"
	case v.ctx.Err() != nil:
		return v.ctx.Err()
	default:
		if status, key = http.StatusBadGateway, "listRefused"; !errors.As(err, &refused) {
			v.s.env.Log.Warn("lite: list not left", "person", v.id.Name, "error", err)
		}
	}
	p := v.frame("")
	p.say(key, true)
	v.s.show(v.w, status, "plain.html", p)
	return nil
}
