package lite

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/note"
	"doublet/store"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// Bounds of the page of tasks: tasks that it reads, sorts and shows, and the time in which it looks for an instance of
// a task that recurs.
const (
	maxTasksRead  = 10_000
	maxTasks      = 1000
	maxTasksShown = 30
	taskPast      = 366 * 24 * time.Hour
	taskAhead     = 3 * 366 * 24 * time.Hour
)

// tasksPage is the list of tasks: those that are not done, or those that are.
type tasksPage struct {
	*frame
	Done, MayNew, More bool
	Other              string // address of the other list
	Tasks              []taskRow
	Lists              []target
}

// taskRow is a task as the page lists it. Of one that recurs it is the first instance that is not done.
type taskRow struct {
	ID, Instance, ETag, Title, Due, List, Href string
	Late, Done, Important, MayTick, Recurs     bool
	at                                         time.Time // zero without a due time
	changed                                    string
}

// agenda is the tasks of the selected mail file, as the user sees them.
type agenda struct{ *planner }

func (v *visit) agenda() (*agenda, error) {
	p, err := v.planner()
	return &agenda{p}, err
}

// lists returns the task lists whose tasks the user may read.
func (p *agenda) lists() ([]groupware.Collection, error) { return p.holding(calendar.Task) }

// listTargets returns the task lists that take tasks; chosen is the UNID of the one that is selected.
func (p *agenda) listTargets(chosen note.UNID) (out []target, err error) {
	all, err := p.lists()
	for i := range all {
		c := &all[i]
		if c.UNID != chosen && (c.Rights&note.Insert == 0 || len(out) >= maxTargets) {
			continue
		}
		t := target{c.UNID.String(), fit(c.Title, 60, 100)}
		if c.UNID == chosen || chosen.IsZero() && c.Name == groupware.DefaultTasks {
			out = append([]target{t}, out...)
		} else {
			out = append(out, t)
		}
	}
	return out, err
}

// tasks shows the list of tasks.
func (v *visit) tasks() error {
	p, err := v.agenda()
	if err != nil {
		return err
	}
	fr, _, err := v.framed("taskTasks", note.UNID{})
	if err != nil {
		return err
	}
	fr.Here = "calendar"
	page := &tasksPage{frame: fr, Done: v.form.Get("done") != ""}
	if page.Other = v.at(pathTasks, "done", "1"); page.Done {
		page.Other = v.at(pathTasks)
	}
	if page.Lists, err = p.listTargets(note.UNID{}); err != nil {
		return err
	}
	page.MayNew = len(page.Lists) > 0
	if err := p.taskRows(page); err != nil {
		return err
	}
	v.toldOf(fr, "")
	v.s.show(v.w, http.StatusOK, "tasks.html", page)
	return nil
}

// taskRows puts the tasks on the page: by their due times, those without one last; of those that are done the newest
// first.
func (p *agenda) taskRows(page *tasksPage) error {
	lists, err := p.lists()
	if err != nil {
		return err
	}
	var ids []note.UNID
	always := groupware.Range{From: time.Unix(-1<<40, 0), To: time.Unix(1<<40, 0), Floating: p.zone,
		Component: calendar.Task}
	if err := p.Times(p.v.ctx, always, func(t *groupware.Times) bool {
		ids = append(ids, t.UNID)
		return true
	}); err != nil {
		return err
	}
	slices.Reverse(ids) // those that came last are read if there are too many
	read := 0
	err = p.ByID(p.v.ctx, groupware.Calendar, ids, true, func(e *groupware.Entry) bool {
		in := collectionOf(lists, e.Collection)
		if o, err := calendar.ReadObject(e.Text); err == nil && e.Component == calendar.Task && in != nil {
			if r := p.taskRow(e, o, in); r.Done == page.Done {
				page.Tasks = append(page.Tasks, r)
			}
		}
		read++
		page.More = read < len(ids) && (read == maxTasksRead || len(page.Tasks) == maxTasks)
		return !page.More
	})
	slices.SortStableFunc(page.Tasks, func(a, b taskRow) int {
		if page.Done {
			return strings.Compare(b.changed, a.changed)
		}
		if a.at.IsZero() != b.at.IsZero() {
			return map[bool]int{true: 1, false: -1}[a.at.IsZero()]
		}
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.Title, b.Title))
	})
	if len(page.Tasks) > maxTasksShown {
		page.Tasks, page.More = page.Tasks[:maxTasksShown], true
	}
	return err
}

// taskRow returns the row of a task.
func (p *agenda) taskRow(e *groupware.Entry, o *calendar.Object, in *groupware.Collection) taskRow {
	part := o.Parts[0]
	r := taskRow{ID: e.UNID.String(), ETag: e.ETag, List: fit(in.Title, 40, 60), Recurs: o.Series.Recurs(),
		MayTick: in.Rights&note.Write != 0, changed: part.Text("LAST-MODIFIED")}
	value, err := eventValue(o, nil)
	if r.Done = isDone(part); r.Recurs {
		if x := p.nextOpen(o); x == nil {
			r.Done = true
		} else {
			r.Done, r.Instance, part = false, x.ID.Format(instanceForm), o.Parts[x.Part]
			value, err = eventValue(o, x)
		}
	}
	r.Href = p.v.at(pathTask, "e", r.ID)
	r.Title = cmp.Or(fit(part.Text("SUMMARY"), 100, 160), p.v.T("calNoTitle"))
	r.Important = part.Text("PRIORITY") == "1"
	if err == nil {
		r.Due, r.at, r.Late = p.dueOf(value)
	}
	return r
}

// isDone reports whether a task is completed or cancelled.
func isDone(c *ical.Component) bool {
	progress := calendar.Progress(c)
	return progress == "completed" || progress == "cancelled"
}

// nextOpen returns the first instance of a task that is not done, nil if there is none near today.
func (p *agenda) nextOpen(o *calendar.Object) (found *calendar.Occurrence) {
	_ = o.Series.Between(p.v.Now.Add(-taskPast), p.v.Now.Add(taskAhead), p.zone, func(x calendar.Occurrence) bool {
		if !isDone(o.Parts[x.Part]) {
			found = &x
		}
		return found == nil
	}) // a rule that takes too long to expand has no instance that is shown
	return found
}

// dueOf returns when a task of JSCalendar is due: in words, as an instant to sort by, and whether that has passed.
func (p *agenda) dueOf(e *jmap.Value) (words string, at time.Time, late bool) {
	due, _ := e.Get("due").Text()
	local, ok := calendar.ParseLocal(due)
	if !ok {
		return "", time.Time{}, false
	}
	if day, _ := e.Get("showWithoutTime").Bool(); day {
		at = p.zone.At(local)
		return p.v.Speech.Day(local), at, !p.v.Now.Before(p.zone.At(local.AddDate(0, 0, 1)))
	}
	zone, _ := e.Get("timeZone").Text()
	at = cmp.Or(namedZone(zone), p.zone).At(local)
	wall := p.zone.Wall(at)
	return p.v.Speech.Day(wall) + ", " + wall.Format(clock), at, p.v.Now.After(at)
}

// task reads the task that the request names, and its instance if it names one.
func (p *agenda) task() (*found, error) { return p.find(calendar.Task) }

// changeTask writes, ticks, moves or deletes a task.
func (v *visit) changeTask() error {
	p, err := v.agenda()
	if err != nil {
		return err
	}
	do := v.form.Get("do")
	if do == "save" {
		return v.saveTask(p)
	}
	x, err := p.task()
	if err != nil {
		return err
	}
	switch do {
	case "done", "open":
		err = p.tick(x, do == "done")
	case "delete":
		err = p.Remove(v.ctx, groupware.Calendar, x.in.Name, x.Name, groupware.Condition{})
	default:
		return errForm
	}
	if err != nil {
		return err
	}
	return v.leave(pathTasks, "said", "saved")
}

// tick marks a task, or an instance, as done or not.
func (p *agenda) tick(x *found, done bool) error {
	if x.in.Rights&note.Write == 0 {
		return store.ErrDenied
	}
	text := `{"progress":"needs-action","percentComplete":null}`
	if done {
		text = `{"progress":"completed","percentComplete":100}`
	}
	return p.putTask(x, mustJSON(text))
}

// putTask writes changes of a task, or of its instance. Nobody is told of tasks.
func (p *agenda) putTask(x *found, changed *jmap.Value) (err error) {
	stamps := p.stamps(x.object, true)
	o := x.object
	if x.at != nil && o.Series.Recurs() {
		o, err = o.EditInstance(*x.at, changed, stamps)
	} else {
		all := *changed
		for i := range stamps.Len() {
			all = all.With(stamps.Name(i), *stamps.At(i))
		}
		o, err = o.Edit(&all)
	}
	if err != nil {
		return err
	}
	_, _, err = p.Put(p.v.ctx, groupware.Calendar, x.in.Name, x.Name, o.Text(), groupware.Condition{ETag: x.ETag})
	return err
}
