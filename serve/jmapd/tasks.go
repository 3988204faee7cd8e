package jmapd

import (
	"maps"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/wire/jmap"
)

// appendTasksCapability appends the account capability of tasks. create is set if the caller may create task lists in
// the account.
//
// Implements: draft-ietf-jmap-tasks §1.4.1 urn:ietf:params:jmap:tasks
func appendTasksCapability(o *jmap.Writer, create bool) {
	o.Object(jmap.Tasks, func(o *jmap.Writer) {
		o.Text("minDateTime", minDateTime)
		o.Text("maxDateTime", maxDateTime)
		o.Text("maxExpandedQueryDuration", durationText(maxExpandedQuery))
		o.Bool("mayCreateTaskList", create)
	})
}

// taskLists is the type TaskList: a calendar that holds tasks.
//
// Implements: draft-ietf-jmap-tasks §3 TaskList/get, TaskList/changes, TaskList/set
var taskLists = &collectionType{
	kind: groupware.Calendar, letter: letterTaskList,
	properties: taskListProperties,
	patch: kind{
		mutable: []string{"name", "description", "color", "sortOrder", "isSubscribed", "isVisible", "timeZone",
			"shareWith"},
		fixed:    oneOf("id", "role", "myRights"),
		defaults: map[string]jmap.Value{"sortOrder": jmap.MakeNumber(0), "isVisible": jmap.True()},
	},
	readers: taskListReaders(), rights: calendarRights, is: holds(calendar.Task),
	append:       appendCalendar(letterTaskList, taskListProperties),
	components:   []string{calendar.Task},
	withContents: "onDestroyRemoveTasks", notEmpty: "taskListHasTask",
}

// taskListReaders returns those of calendarReaders for properties that a TaskList has.
func taskListReaders() map[string]propertyReader {
	out := maps.Clone(calendarReaders)
	for _, name := range []string{"includeInAvailability", "defaultAlertsWithTime", "defaultAlertsWithoutTime"} {
		delete(out, name)
	}
	return out
}

// taskListProperties are those of a TaskList.
var taskListProperties = []string{"id", "role", "name", "description", "color", "sortOrder", "isSubscribed",
	"isVisible", "timeZone", "shareWith", "myRights"}

// tasks is the type Task. People of a task are kept, and not told of it.
//
// Implements: draft-ietf-jmap-tasks §4 Task/get, Task/changes, Task/set, Task/copy, Task/query, Task/queryChanges
var tasks = &objectType{
	name: "Task", noun: "task", component: calendar.Task, jsType: "Task", letter: letterTask,
	collections: taskLists, place: "taskListId", base: "baseTaskId", inside: "inTaskList",
	appendPlace: func(w *jmap.Writer, id string) { w.Text("taskListId", id) },
	placed:      func(v *jmap.Value) (string, bool) { return v.Text() },
}
