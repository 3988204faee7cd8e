// The repetition of an event in the editor.

import { addDays, type Day } from "../../state/days";
import { weekStart } from "../../state/calendars";
import { weekDays, type Kind, type Repeat } from "../../state/recur";
import { tk } from "../../text/calendar";
import { kindText, unitOf, weekdayName } from "./words";

const kinds: Kind[] = ["never", "daily", "weekdays", "weekly", "monthly", "monthlyBy", "yearly"];

export function RepeatFields({ repeat: r, first, set, asBefore }: { repeat: Repeat; first: Day; set: (r: Repeat) => void; asBefore: boolean }) {
  const order = Array.from({ length: 7 }, (_, i) => (weekStart.value + i) % 7);
  const toggle = (n: number) => {
    const d = weekDays[n]!;
    set({ ...r, days: r.days.includes(d) ? r.days.filter((x) => x !== d) : weekDays.filter((x) => r.days.includes(x) || x === d) });
  };
  const repeats = r.kind !== "never" && r.kind !== "asBefore";
  return (
    <fieldset class="repeat">
      <legend class="visually-hidden">{tk("repeat")}</legend>
      <label class="field"><span>{tk("repeat")}</span>
        <select value={r.kind} onChange={(e) => set({ ...r, kind: e.currentTarget.value as Kind })}>
          {kinds.concat(asBefore ? ["asBefore"] : []).map((k) => <option key={k} value={k}>{kindText(k, first || "2026-01-01")}</option>)}
        </select></label>
      {repeats && r.kind !== "weekdays" && (
        <label class="field interval"><span>{tk("every")}</span><span class="with-unit"><input type="number" min={1} max={99} value={r.interval} onInput={(e) => set({ ...r, interval: Math.max(1, Math.min(99, Number(e.currentTarget.value) || 1)) })} />{unitOf(r.kind)}</span></label>
      )}
      {repeats && (
        <label class="field"><span>{tk("repeatEnds")}</span>
          <select value={r.end} onChange={(e) => set({ ...r, end: e.currentTarget.value as Repeat["end"], until: r.until < first ? addDays(first, 90) : r.until })}>
            <option value="never">{tk("endNever")}</option><option value="until">{tk("endUntil")}</option><option value="count">{tk("endCount")}</option>
          </select></label>
      )}
      {repeats && r.end === "until" && <label class="field"><span>{tk("lastDay")}</span><input type="date" required min={first} value={r.until} onInput={(e) => set({ ...r, until: e.currentTarget.value })} /></label>}
      {repeats && r.end === "count" && <label class="field interval"><span>{tk("endCount")}</span><span class="with-unit"><input type="number" min={1} max={999} value={r.count} onInput={(e) => set({ ...r, count: Math.max(1, Math.min(999, Number(e.currentTarget.value) || 1)) })} />{tk("times")}</span></label>}
      {r.kind === "weekly" && (
        <div class="week-days" role="group" aria-label={tk("onDays")}>
          {order.map((n) => <button key={n} type="button" aria-pressed={r.days.includes(weekDays[n]!)} aria-label={weekdayName(n)} onClick={() => toggle(n)}>{weekdayName(n, "short")}</button>)}
        </div>
      )}
    </fieldset>
  );
}
