package drive

import (
	"context"
	"sync"

	client "doublet/client/jmap"
	wire "doublet/wire/jmap"
)

// webTasks are the tasks of the calendar page (web/src/state/tasks.ts) over JMAP Tasks (draft-ietf-jmap-tasks). A nil
// *webTasks is that of a server without tasks, and does nothing.
type webTasks struct {
	c       *client.Client
	account string

	mu           sync.Mutex
	lists, tasks string // the states of what was read
}

// As in web/src/state/tasks.ts and web/src/jmap/tasks.ts: tasks that are asked for at once, and their properties.
const (
	mostOpenTasks = 500
	mostDoneTasks = 100
)

var taskProperties = []string{"id", "baseTaskId", "uid", "taskListId", "title", "description", "start", "due",
	"timeZone", "showWithoutTime", "priority", "progress", "progressUpdated", "percentComplete", "recurrenceRules",
	"recurrenceId", "links", "alerts"}

// read reads the task lists, the open tasks, and those that were done last.
func (t *webTasks) read(ctx context.Context) error {
	if t == nil {
		return nil
	}
	r := client.NewRequest(wire.Core, wire.Tasks)
	lists := r.Get("TaskList", t.account, nil)
	open := r.Call("Task/query", func(q *wire.Writer) {
		q.Text("accountId", t.account)
		q.Raw("filter", `{"operator":"OR","conditions":[{"progress":"needs-action"},{"progress":"in-process"},`+
			`{"progress":"failed"}]}`)
		q.Uint("limit", mostOpenTasks)
	})
	tasks := r.GetReferred("Task", t.account, open.At("/ids"), taskProperties...)
	done := r.Call("Task/query", func(q *wire.Writer) {
		q.Text("accountId", t.account)
		q.Raw("filter", `{"progress":"completed"}`)
		q.Raw("sort", `[{"property":"updated","isAscending":false}]`)
		q.Uint("limit", mostDoneTasks)
	})
	past := r.GetReferred("Task", t.account, done.At("/ids"), taskProperties...)
	out, err := t.c.Do(ctx, r)
	for _, h := range []client.Handle{open, done, past} {
		if err == nil {
			_, err = out.Get(h)
		}
	}
	if err != nil {
		return err
	}
	return t.reached(out, lists, tasks, "state")
}

// hear reads all again if a list or a task changed. It asks first, because a change of an event moves the states of
// tasks too.
func (t *webTasks) hear(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	r := client.NewRequest(wire.Core, wire.Tasks)
	lists := r.Changes("TaskList", t.account, t.lists, 0)
	tasks := r.Changes("Task", t.account, t.tasks, 0)
	t.mu.Unlock()
	out, err := t.c.Do(ctx, r)
	if err != nil {
		return err
	}
	for _, h := range []client.Handle{lists, tasks} {
		v, err := out.Get(h)
		if err != nil || v.Get("created").Len()+v.Get("updated").Len()+v.Get("destroyed").Len() > 0 {
			return t.read(ctx) // the server may not know the changes any more
		}
	}
	return t.reached(out, lists, tasks, "newState")
}

// reached keeps the states that two answers, about task lists and about tasks, have in the member of that name.
func (t *webTasks) reached(out *client.Response, lists, tasks client.Handle, name string) error {
	l, err := out.Get(lists)
	if err != nil {
		return err
	}
	k, err := out.Get(tasks)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.lists, t.tasks = stateOf(l, name), stateOf(k, name)
	t.mu.Unlock()
	return nil
}
