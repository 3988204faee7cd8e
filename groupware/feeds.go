package groupware

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// items of the folder of a calendar that is published, or that shows the feed of another server.
const (
	itemFeed           = "Feed"     // see Published.Full
	itemBusyFeed       = "BusyFeed" // see Published.Busy
	itemSource         = "Source"   // see Source
	itemSourceETag     = "SourceETag"
	itemSourceModified = "SourceModified"
	itemSourceError    = "SourceError"
	itemSourceFails    = "SourceFails"
	itemSourceDone     = "SourceDone" // Unix seconds, as those below
	itemSourceTried    = "SourceTried"
	itemSourceNext     = "SourceNext"
)

// Published has the numbers of the links by which everyone reads a calendar, "" for a link that there is not: with all
// public entries, and with busy times alone. A link that is revoked and made again has another number.
type Published struct{ Full, Busy string }

// Source is the feed of another server that a calendar shows. Those who do not administer the calendar see of it the
// host of the URL and the times.
type Source struct {
	URL string
	// ETag and Modified are the validators of the last answer (RFC 9110 section 8.8).
	ETag, Modified string
	// Error says why the last attempt failed, "" if it did not. Fails counts the failed attempts since a good one.
	Error string
	Fails int
	// Done is the time of the last good attempt, Tried that of the last one, Next that of the next one. The zero time
	// of Next means at once.
	Done, Tried, Next time.Time
}

// outward returns the source for those who do not administer the calendar: the host alone, because addresses of feeds
// often have a secret in them, and errors may repeat them.
func (s Source) outward() Source {
	if s.URL == "" {
		return s
	}
	out := Source{URL: "https:", Done: s.Done, Tried: s.Tried, Next: s.Next}
	if u, err := url.Parse(s.URL); err == nil {
		out.URL = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}).String()
	}
	return out
}

// MaxSources bounds the calendars of a mail file that show feeds of other servers.
const MaxSources = 20

func readFeeds(items note.Items) (p Published, s Source) {
	text := func(name string) string { return items.Get(name).AsText() }
	at := func(name string) time.Time {
		if n := items.Get(name).AsInt(); n != 0 {
			return time.Unix(n, 0).UTC()
		}
		return time.Time{}
	}
	return Published{text(itemFeed), text(itemBusyFeed)}, Source{URL: text(itemSource), ETag: text(itemSourceETag),
		Modified: text(itemSourceModified), Error: text(itemSourceError),
		Fails: int(items.Get(itemSourceFails).AsInt()),
		Done:  at(itemSourceDone), Tried: at(itemSourceTried), Next: at(itemSourceNext)}
}

// showsFeed reports whether a calendar shows the feed of another server. It does if that cannot be read: nobody writes
// there.
func showsFeed(d *reading, h *layout.Folder) bool {
	items, err := d.r.FolderItems(h.Note)
	return err != nil || items.Get(itemSource) != nil
}

// Publish sets the numbers of the links of a calendar. The person needs the right to administer it.
func (c *Changing) Publish(name string, p Published) error {
	h, err := c.find(Calendar, name, note.Administer)
	if err != nil {
		return err
	}
	return c.setTexts(h, map[string]string{itemFeed: p.Full, itemBusyFeed: p.Busy})
}

// setTexts sets items of a folder that differ; "" removes one.
func (c *Changing) setTexts(h *layout.Folder, texts map[string]string) error {
	have, err := c.r.FolderItems(h.Note)
	if err != nil {
		return err
	}
	for name, text := range texts {
		if have.Get(name).AsText() == text {
			continue
		}
		var v note.Value
		if text != "" {
			v = note.Text(text)
		}
		if err := c.write().SetFolderItem(h.Note, name, v, 0); err != nil {
			return err
		}
	}
	return nil
}

// SubscribeTo creates a calendar that shows a feed. Nobody but the server writes into it, whatever its access list
// says. The person needs the right to create folders. It returns ErrFull if the mail file has MaxSources of them.
func (c *Changing) SubscribeTo(name string, p Properties, url string) error {
	n := 0
	for _, h := range c.r.AllFolders() {
		if items, err := c.r.FolderItems(h.Note); err != nil {
			return err
		} else if items.Get(itemSource) != nil {
			n++
		}
	}
	if n >= MaxSources {
		return fmt.Errorf("%w: at most %d feeds", ErrFull, MaxSources)
	}
	if err := c.Create(Calendar, name, p); err != nil {
		return err
	}
	h, err := c.find(Calendar, name, note.Lookup)
	if err != nil {
		return err
	}
	return c.setTexts(h, map[string]string{itemSource: url})
}

// SetSource records the outcome of an attempt to read the feed of a calendar. Only the server may.
func (c *Changing) SetSource(name string, s Source) error {
	h, err := c.find(Calendar, name, note.Lookup)
	if err != nil {
		return err
	}
	if !c.f.who.System {
		return store.ErrDenied
	}
	if err := c.setTexts(h, map[string]string{itemSourceETag: s.ETag, itemSourceModified: s.Modified,
		itemSourceError: cut(s.Error, maxText)}); err != nil {
		return err
	}
	unix := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.Unix()
	}
	for _, x := range []struct {
		name string
		n    int64
	}{{itemSourceFails, int64(s.Fails)}, {itemSourceDone, unix(s.Done)}, {itemSourceTried, unix(s.Tried)},
		{itemSourceNext, unix(s.Next)}} {
		if err := c.write().SetFolderItem(h.Note, x.name, note.Int(x.n), 0); err != nil {
			return err
		}
	}
	return nil
}

// Discard removes an entry for good. Clients that synchronize are told its name.
func (c *Changing) Discard(kind Kind, collection, name string) error {
	return c.take(kind, collection, name, Condition{}, moved)
}

// Sources returns the names of the calendars of the mail file that show a feed, with the time of the next attempt of
// each. It reads an index alone if there is none.
func (f *File) Sources(ctx context.Context) (next map[string]time.Time, err error) {
	err = f.read(ctx, func(d *reading) error {
		ids, err := d.r.Lookup(indexEntries, sourceKey)
		if err != nil || len(ids) == 0 {
			return err
		}
		next = map[string]time.Time{}
		return d.eachCalendar(func(h *layout.Folder, name string, _ *Properties) {
			items, bad := d.r.FolderItems(h.Note)
			if _, s := readFeeds(items); bad == nil && s.URL != "" {
				next[name] = s.Next
			}
		})
	})
	return next, err
}

// ByUNID returns the calendar with a UNID, without regard to the rights of the person: a link grants them.
func (f *File) ByUNID(ctx context.Context, u note.UNID) (c Collection, err error) {
	err = f.read(ctx, func(d *reading) error {
		for _, h := range d.r.AllFolders() {
			if h.UNID == u && d.holds(Calendar, h) {
				found, err := (&reading{f: d.f.svc.File(note.System, d.f.db), r: d.r}).collection(h)
				if err == nil {
					c = *found
				}
				return err
			}
		}
		return ErrNoCollection
	})
	return c, err
}

// ReadAgain makes the server read the feed of a calendar soon: a minute after the last attempt, or at once. The person
// needs the right to administer the calendar.
func (c *Changing) ReadAgain(name string) error {
	h, err := c.find(Calendar, name, note.Administer)
	if err != nil {
		return err
	}
	items, err := c.r.FolderItems(h.Note)
	if err != nil {
		return err
	}
	_, s := readFeeds(items)
	if s.URL == "" {
		return fmt.Errorf("%w: %s shows no feed", ErrNoCollection, name)
	}
	at := s.Tried.Add(time.Minute)
	if s.Tried.IsZero() || !s.Next.After(at) {
		return nil // it is due already
	}
	return c.write().SetFolderItem(h.Note, itemSourceNext, note.Int(at.Unix()), 0)
}
