// The settings of the calendar: kept by the server, for every browser.

import { regionalWeekStart } from "../../state/calendars";
import { own, setOwn } from "../../state/own";
import { say } from "../../state/screen";
import { browserZone } from "../../state/zone";
import { t } from "../../text";
import { tk } from "../../text/calendar";
import { weekdayName } from "./words";

export function CalendarSettings() {
  const set = async (name: string, value: string) => {
    const problem = await setOwn(name, value || null);
    if (problem) say(problem === "offline" ? t("cannotReach") : t("refusedByServer", problem));
  };
  return (
    <section>
      <h3>{tk("settings")}</h3>
      <div class="two">
        <label class="field"><span>{tk("weekStart")}</span>
          <select value={own.value.get("calendar:week") ?? ""} onChange={(e) => void set("calendar:week", e.currentTarget.value)}>
            <option value="">{tk("asBrowser", weekdayName(regionalWeekStart()))}</option>
            {[1, 6, 0].map((n) => <option key={n} value={String(n)}>{weekdayName(n)}</option>)}
          </select></label>
        <label class="field"><span>{tk("zone")}</span>
          <select value={own.value.get("calendar:zone") ?? ""} onChange={(e) => void set("calendar:zone", e.currentTarget.value)}>
            <option value="">{tk("asBrowser", browserZone())}</option>
            {Intl.supportedValuesOf("timeZone").map((z) => <option key={z} value={z}>{z.replaceAll("_", " ")}</option>)}
          </select></label>
      </div>
    </section>
  );
}
