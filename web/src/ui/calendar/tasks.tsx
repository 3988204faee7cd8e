// The list of tasks: those that are late first, then by the days on which they are due; those that are done last.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { addDays } from "../../state/days";
import { drawnAs } from "../../state/objects";
import { readQuickTask, type QuickTask } from "../../state/quick";
import { listedTasks, unknownTasks, type ShownTask } from "../../state/tasks";
import { tk } from "../../text/calendar";
import { tt, type TaskText } from "../../text/tasks";
import { Icon } from "../icons";
import { localAt } from "./open";
import { dragged } from "./taskdrag";
import { addAtOnce, dueAt } from "./taskopen";
import { TaskRow } from "./taskparts";
import { viewZone } from "../../state/calendars";
import { instant } from "../../state/zone";
import { dayText, timeText, today } from "./view";

const groups = ["overdue", "dueToday", "dueTomorrow", "dueWeek", "dueLater", "dueNone"] as const satisfies readonly TaskText[];

function groupOf(s: ShownTask): (typeof groups)[number] {
  if (!s.day) return "dueNone";
  if (s.day < today.value) return "overdue";
  if (s.day === today.value) return "dueToday";
  if (s.day === addDays(today.value, 1)) return "dueTomorrow";
  return s.day <= addDays(today.value, 7) ? "dueWeek" : "dueLater";
}

/** Groups of one day, and of none: a task can be dropped on each, also where it is not in the list. */
const dayGroups = ["dueToday", "dueTomorrow", "dueNone"] as const;

/** The day that a group stands for, "" for none; undefined: several days. */
const dayOf = (g: (typeof groups)[number]) => (g === "dueToday" ? today.value : g === "dueTomorrow" ? addDays(today.value, 1) : g === "dueNone" ? "" : undefined);

export function Tasks() {
  const all = listedTasks.value;
  const open = all.filter((s) => !s.done), done = all.filter((s) => s.done).sort((a, b) => (b.task.progressUpdated ?? "").localeCompare(a.task.progressUpdated ?? ""));
  return (
    <div class="tasks" tabIndex={-1}>
      {unknownTasks.value && <p class="notice" role="status">{tt("offlineTasks")}</p>}
      {groups.map((g) => {
        const list = open.filter((s) => groupOf(s) === g);
        return list.length === 0 ? null : (
          <section key={g} aria-label={tt(g)} data-day={dayOf(g)}>
            <h2 class={g === "overdue" ? "late" : ""}>{tt(g)} <span class="quiet">{list.length}</span></h2>
            <ul>{list.map((s) => <TaskRow key={drawnAs(s.key)} s={s} />)}</ul>
          </section>
        );
      })}
      {open.length === 0 && !unknownTasks.value && <div class="nothing"><Icon name="check" /><b>{tt("nothingToDo")}</b><p class="quiet">{tt("nothingHint")}</p></div>}
      {done.length > 0 && <details class="done-tasks"><summary>{tt("showDone", done.length)}</summary><ul>{done.map((s) => <TaskRow key={drawnAs(s.key)} s={s} />)}</ul></details>}
      {dragged.value && <div class="drop-days" aria-hidden="true">{dayGroups.map((g) => <span key={g} data-day={dayOf(g)}>{tt(g)}</span>)}</div>}
    </div>
  );
}

const whenOf = (q: QuickTask): string => {
  if (!q.day) return tt("quickNoDate");
  const day = dayText(q.day);
  return q.from === undefined ? day : `${day}, ${timeText(instant(localAt(q.day, q.from), viewZone.value))}`;
};

/** Quick entry: a line of text becomes a task. What it will be is said while one types. */
export function QuickTaskEntry() {
  const text = useSignal("");
  const input = useRef<HTMLInputElement>(null);
  const q = text.value.trim() ? readQuickTask(text.value, today.value) : undefined;
  const write = (line: string) => { if (input.current) text.value = input.current.value = line; };
  const done = async () => {
    if (!q) return;
    const line = text.value;
    write(""); // at once, so that a second Enter makes no second task
    const made = await addAtOnce({ title: q.title, ...(q.day ? dueAt(q.day, q.from) : {}), ...(q.important ? { priority: 1 } : {}) });
    if (!made && !text.value) write(line);
  };
  return (
    <form class="search quick" onSubmit={(e) => { e.preventDefault(); void done(); }}>
      <Icon name="plus" />
      <input id="quick" ref={input} aria-label={tt("quickTask")} placeholder={tt("quickTaskHint")} autocomplete="off" {...(q ? { "aria-describedby": "quick-says" } : {})} onInput={(e) => (text.value = e.currentTarget.value)}
        onKeyDown={(e) => { if (e.key === "Escape") { write(""); e.currentTarget.blur(); e.stopPropagation(); } }} />
      {q && (
        <div class="search-help" id="quick-says" role="status">
          <p><b dir="auto">{q.title}</b>{q.important && <span class="quiet"> · {tt("priorityHigh")}</span>}</p>
          <p>{whenOf(q)}</p>
          <p class="ends"><button class="button primary">{tk("save")}</button></p>
        </div>
      )}
    </form>
  );
}
