import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { count, size } from "../text";
import { Icon } from "../ui/icons";
import { Chart, type Point } from "./chart";
import { gauge, hours, paused, rate, show, stats, total, watch } from "./measure";
import { Find, Head } from "./parts";
import { span, ta } from "./text";
import type { Stat } from "./verbs";

const few = (v: number) => (v >= 100 ? count(Math.round(v)) : count(Math.round(v * 10) / 10));
const perSecond = (v: number) => `${few(v)}/s`;
const milliseconds = (v: number) => ta("ms", few(v * 1000));

interface View { title: string; points: Point[]; text: (v: number) => string; tone?: "flag" }

/** The charts that are always there. */
export const views = {
  delivered: (): View => ({ title: ta("delivered"), points: rate("Mail.Delivered"), text: perSecond }),
  waiting: (): View => ({ title: ta("waitingMail"), points: gauge("Mail.Waiting"), text: few, tone: "flag" }),
  commands: (): View => ({ title: ta("transactions"), points: rate("Server.Trans.Total"), text: perSecond }),
  connections: (): View => ({ title: ta("connections"), points: gauge("Server.Listen.Connections"), text: few }),
  requests: (): View => ({ title: ta("httpRequests"), points: rate("HTTP.Requests"), text: perSecond }),
  active: (): View => ({ title: ta("activeUsers"), points: gauge("Server.Users.Active15Min"), text: few }),
  deliverTime: (): View => ({ title: ta("deliverTime"), points: gauge("Mail.DeliverTime.P95"), text: milliseconds }),
  memory: (): View => ({ title: ta("memory"), points: gauge("Platform.Memory.Heap.Bytes"), text: size }),
  log: (): View => ({ title: ta("logBytes"), points: rate("Database.RM.Log.BytesWritten"), text: (v) => `${size(Math.round(v))}/s` }),
  behind: (): View => ({ title: ta("behind"), points: gauge("FullText.Behind.Seconds"), text: span, tone: "flag" }),
  failed: (): View => ({ title: ta("failedSignIns"), points: rate("Directory.Authentication.Failed"), text: perSecond, tone: "flag" }),
  sessions: (): View => ({ title: ta("sessions"), points: total("IMAP.Sessions.Current", "POP3.Sessions.Current", "JMAP.Push.Connections"), text: few }),
};

export function One({ view }: { view: View }) {
  return <Chart title={view.title} points={view.points} text={view.text} hours={hours.value} {...(view.tone ? { tone: view.tone } : {})} />;
}

/** A statistic as a chart: a counter as what it grows in a second. */
function viewOf(s: Stat): View {
  const text = s.unit === "bytes" ? size : s.unit === "seconds" ? (v: number) => (v < 10 ? milliseconds(v) : span(v)) : few;
  return s.kind === "counter" ? { title: `${s.name} · ${ta("perSecond")}`, points: rate(s.name), text: s.unit === "bytes" ? (v) => `${size(Math.round(v))}/s` : perSecond } : { title: s.name, points: gauge(s.name), text };
}

function valueOf(s: Stat): string {
  if (s.kind === "text") return s.text ?? "";
  if (s.unit === "bytes") return size(s.value);
  if (s.unit === "seconds") return s.value < 10 ? milliseconds(s.value) : span(s.value);
  return count(Math.round(s.value * 1000) / 1000);
}

export function Statistics() {
  const text = useSignal("");
  const own = useSignal<string[]>([]);
  useEffect(watch, []);
  useEffect(() => () => show(0), []); // other pages show the last minutes
  const all = [...stats.value.values()];
  const want = text.value.toLowerCase();
  const list = want ? all.filter((s) => s.name.toLowerCase().includes(want) || s.help?.toLowerCase().includes(want)) : all;
  const toggle = (name: string) => (own.value = own.value.includes(name) ? own.value.filter((x) => x !== name) : [name, ...own.value]);
  return (
    <section class="pane whole" aria-label={ta("statistics")}>
      <Head title={ta("statistics")}>
        <label class="field tight"><span class="visually-hidden">{ta("range")}</span><select name="range" value={String(hours.value)} onChange={(e) => show(Number(e.currentTarget.value))}>
          <option value="0">{ta("range_live")}</option><option value="24">{ta("range_day")}</option><option value="168">{ta("range_week")}</option><option value="840">{ta("range_month")}</option></select></label>
        <span class={`live ${paused.value ? "" : "on"}`}>{paused.value ? ta("stopped") : ta("live")}</span>
        <button class="tool" aria-label={paused.value ? ta("resume") : ta("pause")} title={paused.value ? ta("resume") : ta("pause")} onClick={() => (paused.value = !paused.value)}><Icon name={paused.value ? "play" : "pause"} /></button>
      </Head>
      <div class="lines-box pad" tabIndex={0}>
        <div class="charts">
          {own.value.flatMap((name) => { const s = stats.value.get(name); return s ? [<div class="own-chart" key={name}><One view={viewOf(s)} /><button class="tool" aria-label={`${ta("hideChart")}: ${name}`} title={ta("hideChart")} onClick={() => toggle(name)}><Icon name="close" /></button></div>] : []; })}
          {Object.entries(views).map(([k, v]) => <One key={k} view={v()} />)}
        </div>
        <section class="block"><h2>{ta("allStatistics")}</h2>
          <Find text={text} hint={ta("searchStatistics")} />
          <table class="table stats"><thead><tr><th>{ta("name")}</th><th class="number">{ta("value")}</th></tr></thead>
            <tbody>{list.map((s) => (
              <tr key={s.name}><td>{s.kind === "text" ? s.name : <button class="link" title={ta("showChart", s.name)} aria-pressed={own.value.includes(s.name)} onClick={() => toggle(s.name)}>{s.name}</button>}<small class="under">{s.help}</small></td><td class="number">{valueOf(s)}</td></tr>
            ))}</tbody></table>
        </section>
      </div>
    </section>
  );
}
