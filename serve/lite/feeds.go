package lite

import (
	"errors"
	"net/http"
	"strings"

	"doublet/client/reach"
	"doublet/groupware"
	"doublet/groupware/feed"
	"doublet/note"
)

// feedsPage lists the calendars with their links, and those that show feeds of other servers.
type feedsPage struct {
	*frame
	Calendars []feedRow
	MayNew    bool
	Address   string // that was typed and refused
}

// maxFeeds bounds the calendars of the page.
const maxFeeds = 20

// feedRow is a calendar of the page.
type feedRow struct {
	ID, Name, Full, Busy, Source, Error, Done string
	MayShare, MayDelete                       bool
}

// feeds shows the links and feeds of the calendars.
func (v *visit) feeds() error {
	p, err := v.planner()
	if err != nil {
		return err
	}
	return v.showFeeds(p, "", nil)
}

// showFeeds shows the page. why is the reason for which a feed was refused, or nil.
func (v *visit) showFeeds(p *planner, address string, why error) error {
	if v.s.opt.Feeds == nil || v.s.opt.Sources == nil {
		return errNotFound
	}
	fr, _, err := v.framed("feedsTitle", note.UNID{})
	if err != nil {
		return err
	}
	fr.Here = "calendar"
	list, err := p.calendars()
	if err != nil {
		return err
	}
	page := &feedsPage{frame: fr, MayNew: v.box.ID == "", Address: fit(address, 500, 1000)}
	for i := range list[:min(len(list), maxFeeds)] {
		c := &list[i]
		links := v.s.opt.Feeds.Links(v.box.db, c)
		row := feedRow{ID: c.UNID.String(), Name: fit(c.Title, 80, 120), Full: v.absolute(links.Full),
			Busy: v.absolute(links.Busy), Source: fit(c.Source.URL, 300, 500), Error: fit(c.Source.Error, 300, 500),
			MayShare:  c.Rights&note.Administer != 0,
			MayDelete: c.Source.URL != "" && c.Rights&note.Remove != 0}
		if !c.Source.Done.IsZero() {
			row.Done = v.Long(c.Source.Done)
		}
		page.Calendars = append(page.Calendars, row)
	}
	status := http.StatusOK
	if v.toldOf(fr, ""); why != nil {
		key := ""
		if status, key = refusal(why); errors.Is(why, reach.ErrAddress) {
			status, key = http.StatusBadRequest, "feedsBadAddress"
		}
		fr.say(key, true)
	}
	v.s.show(v.w, status, "feeds.html", page)
	return nil
}

// absolute returns a link with the server's name, as the browser knows it.
func (v *visit) absolute(link string) string {
	if !strings.HasPrefix(link, "/") {
		return link
	}
	return map[bool]string{true: "https://", false: "http://"}[v.r.TLS != nil] + v.r.Host + link
}

// changeFeeds makes or revokes a link, or subscribes to a feed, reads it again, or deletes its calendar.
func (v *visit) changeFeeds() error {
	p, err := v.planner()
	if err != nil {
		return err
	}
	if v.s.opt.Feeds == nil || v.s.opt.Sources == nil {
		return errNotFound
	}
	do := v.form.Get("do")
	if do == "subscribe" {
		return v.subscribe(p)
	}
	list, err := p.calendars()
	if err != nil {
		return err
	}
	id, err := unid(v.form.Get("c"))
	if err != nil {
		return err
	}
	c := collectionOf(list, id)
	if c == nil {
		return errNotFound
	}
	yes, no := true, false
	choice, known := map[string]feed.Choice{"full": {Full: &yes}, "nofull": {Full: &no}, "busy": {Busy: &yes},
		"nobusy": {Busy: &no}}[do]
	err = p.Change(v.ctx, func(w *groupware.Changing) error {
		switch {
		case known:
			return v.s.opt.Feeds.Set(w, c.Name, choice)
		case do == "again":
			return w.ReadAgain(c.Name)
		case do == "delete" && c.Source.URL != "":
			return w.Delete(groupware.Calendar, c.Name)
		}
		return errForm
	})
	if err != nil {
		return err
	}
	return v.leave(pathFeeds, "said", "saved")
}

// subscribe makes a calendar that shows the feed at the address of the form.
func (v *visit) subscribe(p *planner) error {
	address := v.form.line("address")
	err := p.Change(v.ctx, func(w *groupware.Changing) error {
		_, err := v.s.opt.Sources.Subscribe(w, address, "")
		return err
	})
	if errors.Is(err, reach.ErrAddress) || errors.Is(err, groupware.ErrFull) {
		return v.showFeeds(p, address, err)
	}
	if err != nil {
		return err
	}
	return v.leave(pathFeeds, "said", "feedsSubscribed")
}
