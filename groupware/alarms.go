package groupware

import (
	"context"
	"errors"
	"time"

	"doublet/calendar"
	"doublet/note"
	"doublet/store"
	"doublet/wire/ical"
)

// itemAlarmed is an item of the folder of removed entries: the time up to which alarms have sent their mail, in Unix
// seconds.
const itemAlarmed = "AlarmedUntil"

// Alarmed is an event or a task with an alarm that sends mail.
type Alarmed struct {
	Entry
	Object *calendar.Object
	// Zone is the time zone of its times without one.
	Zone *ical.Zone
}

// HasAlarms reports whether the mail file has, or had, events or tasks with alarms that send mail. It reads an index
// alone.
func (f *File) HasAlarms(ctx context.Context) (some bool, err error) {
	err = f.read(ctx, func(d *reading) error {
		ids, err := d.r.Lookup(indexEntries, alarmKey)
		some = len(ids) > 0
		return err
	})
	return some, err
}

// Alarmed calls fn for the events and tasks of the mail file with alarms that send mail, until fn returns false. It
// reads an index alone if there are none.
func (f *File) Alarmed(ctx context.Context, fn func(*Alarmed) bool) error {
	return f.read(ctx, func(d *reading) error {
		ids, err := d.r.Lookup(indexEntries, alarmKey)
		if err != nil {
			return err
		}
		for _, id := range ids {
			row, err := d.row(id)
			if err != nil {
				return err
			}
			if row == nil {
				continue
			}
			h, _ := d.home(Calendar, row)
			if h == nil {
				continue // it was removed
			}
			e, err := d.entry(h, id, true)
			if err != nil {
				return err
			}
			if e == nil {
				continue
			}
			o, bad := calendar.ReadObject(e.Text)
			if bad != nil {
				continue
			}
			items, err := d.r.FolderItems(h.Note)
			if err != nil {
				return err
			}
			p := readProperties(items)
			if !fn(&Alarmed{*e, o, ical.Named(p.TimeZone)}) {
				return nil
			}
		}
		return nil
	})
}

// AlarmedUntil returns the time up to which the alarms of the mail file have sent their mail, zero for none.
func (f *File) AlarmedUntil(ctx context.Context) (at time.Time, err error) {
	err = f.read(ctx, func(d *reading) error {
		h, err := d.r.FolderNamed(removedFolder)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		items, err := d.r.FolderItems(h.Note)
		if n := items.Get(itemAlarmed).AsInt(); n != 0 {
			at = time.Unix(n, 0).UTC()
		}
		return err
	})
	return at, err
}

// SetAlarmedUntil records the time up to which the alarms of the mail file have sent their mail. Only the server may.
func (c *Changing) SetAlarmedUntil(at time.Time) error {
	if !c.f.who.System {
		return store.ErrDenied
	}
	bin, err := c.bin()
	if err != nil {
		return err
	}
	return c.write().SetFolderItem(bin, itemAlarmed, note.Int(at.Unix()), 0)
}
