package lite

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/note"
	"doublet/store"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// taskForm is a task as its form shows it. What the form does not show stays as it is in the task.
type taskForm struct {
	Subject, Text string
	Due, Clock    string // day and clock time of Zone, "" for none
	Zone          string // "" for times without a zone
	Repeat, Until string // as those of eventForm
	Priority      string // of iCalendar, 0 for none

	lead time.Duration // from the start to the due time, 0 without a start
}

// priorities are the choices of the form: none, high, medium, low.
var priorities = []string{"0", "1", "5", "9"}

// taskFormPage is the form of a task.
type taskFormPage struct {
	*frame
	taskForm
	ID, ETag, Cancel    string
	Lists               []target
	Repeats, Priorities []choice
	MayDelete           bool
	ZoneNote            string
}

// readTaskForm returns the form of a task of JSCalendar.
func readTaskForm(e *jmap.Value) taskForm {
	text := func(name string) string { s, _ := e.Get(name).Text(); return s }
	f := taskForm{Subject: text("title"), Text: text("description"), Zone: text("timeZone"), Priority: "0"}
	if n, ok := e.Get("priority").Int(); ok {
		f.Priority = strconv.FormatInt(n, 10)
	}
	start, hasStart := calendar.ParseLocal(text("start"))
	if due, ok := calendar.ParseLocal(cmp.Or(text("due"), text("start"))); ok {
		if f.Due = due.Format(dayLayout); !isTrue(e.Get("showWithoutTime")) {
			f.Clock = due.Format(clock)
		}
		if f.lead = due.Sub(start); !hasStart {
			start, f.lead = due, 0
		}
	}
	f.Repeat, f.Until = readRepeat(e.Get("recurrenceRules"), start)
	return f
}

func isTrue(v *jmap.Value) bool { on, _ := v.Bool(); return on }

// taskPage shows the form of a task, or of a new one.
func (v *visit) taskPage() error {
	p, err := v.agenda()
	if err != nil {
		return err
	}
	if v.form.Get("e") == "" {
		return v.showTaskForm(p, nil, p.newTaskForm(), nil)
	}
	x, err := p.task()
	if err != nil {
		return err
	}
	e, err := eventValue(x.object, nil)
	if err != nil {
		return err
	}
	return v.showTaskForm(p, x, readTaskForm(e), nil)
}

func (p *agenda) newTaskForm() taskForm {
	return taskForm{Repeat: "never", Priority: "0", Zone: cmp.Or(p.zone.Name, ical.UTC.Name)}
}

// showTaskForm shows a form; x is nil for a new task, and why the reason for which the form was refused, or nil.
func (v *visit) showTaskForm(p *agenda, x *found, f taskForm, why error) error {
	title, chosen := "taskNew", note.UNID{}
	if x != nil {
		title, chosen = "taskEdit", x.Collection
	} else if u, err := unid(v.form.Get("list")); err == nil {
		chosen = u
	}
	fr, _, err := v.framed(title, note.UNID{})
	if err != nil {
		return err
	}
	fr.Here = "calendar"
	page := &taskFormPage{frame: fr, taskForm: f, Cancel: v.at(pathTasks), ETag: v.form.Get("state")}
	if page.Lists, err = p.listTargets(chosen); err != nil {
		return err
	}
	if x != nil {
		page.ID, page.ETag = x.UNID.String(), cmp.Or(page.ETag, x.ETag)
		page.MayDelete = x.in.Rights&note.Expunge != 0
		if x.in.Rights&note.Write == 0 {
			return store.ErrDenied
		}
	}
	for _, r := range repeats {
		page.Repeats = append(page.Repeats, choice{r, v.T("calRepeat_" + r), r == f.Repeat})
	}
	if f.Repeat == "asBefore" {
		page.Repeats = append(page.Repeats, choice{f.Repeat, v.T("calAsBefore"), true})
	}
	for _, n := range priorities {
		page.Priorities = append(page.Priorities, choice{n, v.T("taskPriority_" + n), n == f.Priority})
	}
	if !slices.Contains(priorities, f.Priority) {
		page.Priorities = append(page.Priorities, choice{f.Priority, clip(f.Priority, 5), true})
	}
	if f.Clock != "" && f.Zone != p.zone.Name {
		page.ZoneNote = v.T("calInZone", clip(cmp.Or(f.Zone, v.T("calFloating")), 60))
	}
	status := http.StatusOK
	if why != nil {
		status = v.eventRefusal(fr, why)
	}
	v.s.show(v.w, status, "taskform.html", page)
	return nil
}

// saveTask writes the task of the form.
func (v *visit) saveTask(p *agenda) error {
	f := v.form
	given := taskForm{Subject: f.line("title"), Text: strings.TrimRight(f.Get("text"), "\n"), Due: f.line("due"),
		Clock: f.line("time"), Zone: cmp.Or(f.line("zone"), p.zone.Name, ical.UTC.Name),
		Repeat: cmp.Or(f.line("repeat"), "never"),
		Until:  f.line("until"), Priority: cmp.Or(f.line("priority"), "0")}
	var x *found
	var err error
	if f.Get("e") != "" {
		if x, err = p.task(); err != nil {
			return err
		}
	}
	if err := v.writeTask(p, x, given); err != nil {
		return v.showTaskForm(p, x, given, err)
	}
	return v.leave(pathTasks, "said", "saved")
}

// writeTask creates a task, or changes it as its form did and moves it to the list of the form.
func (v *visit) writeTask(p *agenda, x *found, given taskForm) error {
	lists, err := p.lists()
	if err != nil {
		return err
	}
	id, err := unid(v.form.Get("list"))
	in := collectionOf(lists, id)
	if err != nil || in == nil {
		return errNotFound
	}
	before, e := p.newTaskForm(), jmap.MakeObject(nil, nil)
	if x != nil {
		if v.form.Get("state") != x.ETag {
			return groupware.ErrChanged
		}
		if e, err = eventValue(x.object, nil); err != nil {
			return err
		}
		before = readTaskForm(e)
	}
	changed, err := taskChanges(before, given)
	if err == nil {
		changed, err = shifted(e, changed)
	}
	if err != nil {
		return err
	}
	if x == nil {
		name := v.s.plans.NewName(groupware.Calendar)
		o := calendar.New(calendar.Task, strings.TrimSuffix(name, ".ics"), v.s.env.Clock.Now())
		x = &found{Entry: groupware.Entry{Name: name}, object: o, in: in}
		return p.createTask(x, changed)
	}
	if x.in.Rights&note.Write == 0 {
		return store.ErrDenied
	}
	if changed.Len() > 0 {
		if err := p.putTask(x, changed); err != nil {
			return err
		}
	}
	if in.UNID == x.in.UNID {
		return nil
	}
	return p.Change(v.ctx, func(w *groupware.Changing) error { return w.Shift(groupware.Calendar, x.UNID, in.Name) })
}

// createTask writes a new task.
func (p *agenda) createTask(x *found, changed *jmap.Value) error {
	o, err := x.object.Edit(changed)
	if err != nil {
		return err
	}
	_, _, err = p.Put(p.v.ctx, groupware.Calendar, x.in.Name, x.Name, o.Text(), groupware.Condition{New: true})
	return err
}

// taskChanges returns the properties of JSCalendar that differ between two forms.
func taskChanges(before, after taskForm) (*jmap.Value, error) {
	out := jmap.MakeObject(nil, nil)
	set := func(name string, v jmap.Value) {
		next := out.With(name, v)
		out = &next
	}
	if after.Subject == "" {
		return nil, badEvent("taskNeedsTitle")
	}
	for _, t := range []struct{ name, was, is string }{{"title", before.Subject, after.Subject},
		{"description", before.Text, after.Text}} {
		if t.was != t.is {
			set(t.name, jmap.Text(t.is))
		}
	}
	if before.Priority != after.Priority {
		n, err := strconv.ParseInt(after.Priority, 10, 8)
		if err != nil {
			return nil, errForm
		}
		set("priority", jmap.MakeNumber(n))
	}
	return out, after.setDue(before, set)
}

// setDue sets the due time of a form, and how the task repeats: one that does starts when it is due.
func (f *taskForm) setDue(before taskForm, set func(string, jmap.Value)) error {
	moved := before.Due != f.Due || before.Clock != f.Clock
	if !moved && before.Repeat == f.Repeat && before.Until == f.Until {
		return nil
	}
	if f.Due == "" {
		if f.Repeat != "never" {
			return badEvent("taskNeedsDue")
		}
		for _, name := range []string{"start", "due", "timeZone", "showWithoutTime", "recurrenceRules",
			"recurrenceOverrides"} {
			set(name, jmap.Value{})
		}
		return nil
	}
	due, err := f.dueTime()
	if err != nil {
		return err
	}
	if moved {
		set("due", jmap.Text(due.Format(localTime)))
		set("showWithoutTime", *mustJSON(strconv.FormatBool(f.Clock == "")))
		set("timeZone", jmap.Value{})
		if f.Clock != "" && f.Zone != "" {
			set("timeZone", jmap.Text(f.Zone))
		}
	}
	return f.setRule(before, due, moved, set)
}

// dueTime returns the due time on the clocks of Zone.
func (f *taskForm) dueTime() (time.Time, error) {
	day, err1 := time.Parse(dayLayout, f.Due)
	at, err2 := time.Parse(clock, cmp.Or(f.Clock, "00:00"))
	if err1 != nil || err2 != nil || day.Year() < 1 || day.Year() > 9998 {
		return day, badEvent("calBadTime")
	}
	return day.Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute), nil
}

// setRule sets how the task of a form repeats. moved says that its due time changes.
func (f *taskForm) setRule(before taskForm, due time.Time, moved bool, set func(string, jmap.Value)) error {
	switch {
	case f.Repeat == "asBefore" && moved:
		return badEvent("calCannotMove") // the form has no words for the rule, which the new day may not fit
	case f.Repeat == "asBefore":
		return nil
	case f.Repeat == "never":
		if before.Repeat != "never" || moved {
			set("start", jmap.Value{})
		}
		if before.Repeat != "never" {
			set("recurrenceRules", jmap.Value{})
			set("recurrenceOverrides", jmap.Value{})
		}
		return nil
	}
	start := due.Add(-before.lead)
	set("start", jmap.Text(start.Format(localTime)))
	return (&eventForm{Repeat: f.Repeat, Until: f.Until}).setRepeat(start, set)
}
