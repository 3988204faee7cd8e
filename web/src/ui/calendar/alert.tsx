// The choice of when an alert comes, before an event begins or a task is due.

import { tk } from "../../text/calendar";
import { alertText } from "./words";

type Alert = number | "none" | "asBefore";

const usual = [0, 5, 10, 15, 30, 60, 120, 1440, 2880, 10_080];

/** before is the choice that was there: it can be kept whatever it is. at names the moment itself. */
export function AlertSelect({ value, before, at = tk("alertAt"), disabled = false, set }: { value: Alert; before: Alert; at?: string; disabled?: boolean; set: (a: Alert) => void }) {
  const choices = usual.concat(typeof value === "number" && !usual.includes(value) ? [value] : []);
  return (
    <select value={String(value)} disabled={disabled} onChange={(e) => set(e.currentTarget.value === "none" || e.currentTarget.value === "asBefore" ? e.currentTarget.value : Number(e.currentTarget.value))}>
      <option value="none">{tk("alertNone")}</option>
      {choices.map((m) => <option key={m} value={String(m)}>{m === 0 ? at : alertText(m)}</option>)}
      {before === "asBefore" && <option value="asBefore">{tk("alertKept")}</option>}
    </select>
  );
}
