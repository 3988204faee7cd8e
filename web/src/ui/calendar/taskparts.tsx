// A task as the views show it: a check mark, and a button that opens it.

import { mayWriteList, type ShownTask } from "../../state/tasks";
import { tk } from "../../text/calendar";
import { tt } from "../../text/tasks";
import { Icon } from "../icons";
import { Mark, standingText } from "../unsaved";
import { draggable } from "./taskdrag";
import { dueText, messageOf, nameOf, openTask, tickTask } from "./taskopen";
import { dayText, timeText, today } from "./view";
import { addDays } from "../../state/days";

export const priorityOf = (n: number | undefined): "High" | "Medium" | "Low" | undefined => (!n ? undefined : n < 5 ? "High" : n === 5 ? "Medium" : "Low");

function Check({ s }: { s: ShownTask }) {
  return <input type="checkbox" class="task-check" checked={s.done} disabled={!mayWriteList(s.list)} aria-label={tt("markDone", nameOf(s))} onClick={(e) => e.stopPropagation()} onChange={(e) => void tickTask(s, e.currentTarget.checked)} />;
}

const labelOf = (s: ShownTask): string => {
  const p = priorityOf(s.task.priority);
  return [nameOf(s), dueText(s), s.done ? tt("done") : s.day && s.day < today.value ? tt("overdue") : "", p ? `${tt("priority")}: ${tt(`priority${p}`)}` : "", s.list.name, s.repeats ? tk("repeats") : "", standingText(s.standing)].filter(Boolean).join(", ");
};

const shortDay = (s: ShownTask): string => {
  const name = s.day === today.value ? tt("dueToday") : s.day === addDays(today.value, 1) ? tt("dueTomorrow") : s.day ? dayText(s.day, { weekday: "short", day: "numeric", month: "short" }) : "";
  return s.at === undefined ? name : `${name}, ${timeText(s.at)}`;
};

/** A line of the list of tasks. */
export function TaskRow({ s }: { s: ShownTask }) {
  const p = priorityOf(s.task.priority);
  const late = !s.done && !!s.day && s.day < today.value;
  return (
    <li class={`task ${s.done ? "done" : ""}`} {...draggable(s)} style={{ "--hue": s.list.hue }}>
      <Check s={s} />
      <button class="task-open" data-task={s.key} aria-label={labelOf(s)} onClick={() => openTask(s)}>
        <span class="what" dir="auto">{p && <b class={`priority ${p.toLowerCase()}`} title={tt(`priority${p}`)}>{p === "High" ? "!!" : p === "Medium" ? "!" : "↓"}</b>}{nameOf(s)}</span>
        {s.task.description && <span class="note quiet" dir="auto">{s.task.description.slice(0, 120)}</span>}
        <span class="facts">
          <Mark of={s.standing} />
          {s.day && <span class={late ? "late" : ""}>{shortDay(s)}</span>}
          {s.repeats && <Icon name="repeat" />}
          {messageOf(s.task) && <Icon name="unread" />}
          {s.task.progress === "in-process" && <span>{tt("in-process")}</span>}
          <span class="of-list"><i class="dot" />{s.list.name}</span>
        </span>
      </button>
    </li>
  );
}

/** A task on its day, above the hours or in the agenda. */
export function TaskChip({ s, look, style }: { s: ShownTask; look: string; style?: Record<string, string | number> }) {
  return (
    <div class={`event task-chip ${look} ${s.done ? "done" : ""}`} {...draggable(s)} style={{ "--hue": s.list.hue, ...style }}>
      <Check s={s} />
      <button data-task={s.key} aria-label={labelOf(s)} title={`${nameOf(s)}\n${dueText(s)}`} onClick={(e) => { e.stopPropagation(); openTask(s); }}>
        {s.at !== undefined && <span class="at">{timeText(s.at)}</span>}<span class="what" dir="auto">{nameOf(s)}</span><Mark of={s.standing} />
      </button>
    </div>
  );
}
