import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { count, fullDate, shortDate } from "../text";
import { Icon } from "../ui/icons";
import { Badge, doing, Empty, Find, go, Head, leave, Opened, tell, Text, Two, useLive, where } from "./parts";
import { ta } from "./text";
import { run } from "./verbs";

/** An event as show events lists it. */
interface Row {
  id: string; severity: string; state: string; type: string; probe: string; target?: string;
  first: string; last: string; changed: string; count: number; assigned?: string; silenced?: string; cause: string;
}

/** An event as event show has it. */
interface Event extends Row { remedy?: string; reopened?: number; comment?: string; history?: string[] }

const severities = ["fatal", "failure", "warning-high", "warning-low", "normal"];
const kindOf = (severity: string) => (severity === "fatal" || severity === "failure" ? "bad" : severity.startsWith("warning") ? "warn" : "plain");
const quiet = (e: Row) => Boolean(e.silenced && new Date(e.silenced) > new Date());

export function Events() {
  const id = where.value.item;
  const target = useSignal("");
  const severity = useSignal("");
  const state = useSignal("open");
  const live = useLive<Row[]>("show events", () => ({
    state: state.value, limit: 500, ...(target.value ? { target: target.value } : {}), ...(severity.value ? { severity: severity.value } : {}),
  }), 5);
  const list = live.value.value;
  return (
    <Two
      label={ta("eventList")} onClose={() => go("events")}
      title={<Head title={ta("eventList")}><button class="tool" aria-label={ta("refresh")} title={ta("refresh")} onClick={live.reload}><Icon name="refresh" /></button></Head>}
      detail={id ? <One key={id} id={id} reload={live.reload} /> : null}
    >
      <div class="tools">
        <Find text={target} hint={ta("filterTarget")} />
        <label class="field tight"><span class="visually-hidden">{ta("severity")}</span><select value={severity.value} onChange={(e) => (severity.value = e.currentTarget.value)}><option value="">{ta("anySeverity")}</option>{severities.slice(0, 4).map((s) => <option value={s}>≥ {s}</option>)}</select></label>
        <label class="field tight"><span class="visually-hidden">{ta("state")}</span><select value={state.value} onChange={(e) => (state.value = e.currentTarget.value)}>{["open", "closed", "permanently-closed", "any"].map((s) => <option value={s}>{s === "any" ? ta("anyState") : s}</option>)}</select></label>
      </div>
      <div class="lines-box" aria-busy={!list}>
        {list?.length === 0 && <Empty icon="check" title={state.value === "open" ? ta("allWell") : ta("nothing")} />}
        <ul class="lines" aria-label={ta("eventList")}>{(list ?? []).map((e) => (
          <li key={e.id}><button class="line" aria-current={id === e.id} onClick={() => go("events", e.id)}>
            <span class="what"><strong>{e.probe}{e.target ? ` · ${e.target}` : ""}</strong><small>{e.cause}</small></span>
            {e.state === "open" ? <Badge kind={kindOf(e.severity)}>{e.severity}</Badge> : <Badge kind="plain">{e.state}</Badge>}
            <small class="quiet">{shortDate(e.changed)}</small>
          </button></li>
        ))}</ul>
      </div>
    </Two>
  );
}

function One({ id, reload }: { id: string; reload: () => void }) {
  const event = useSignal<Event | null>(null);
  const person = useSignal("");
  const comment = useSignal("");
  const period = useSignal("4h");
  const turn = useRef(0);
  const close = () => leave("events", id);
  const load = () => {
    const mine = ++turn.current;
    void run<Event>("event show", { id }).then((e) => {
      if (mine !== turn.current) return;
      event.value = e;
      person.value = e.assigned ?? "";
      comment.value = e.comment ?? "";
    }, (e: unknown) => {
      if (mine !== turn.current) return;
      tell(e);
      close();
    });
  };
  useEffect(() => {
    load();
    return () => { turn.current++; };
  }, [id]);
  const e = event.value;
  if (!e) return <p class="loading" aria-busy="true">{ta("loading")}</p>;
  const act = (verb: string, args: object) => void doing(async () => {
    await run(verb, { id, ...args });
    load();
    reload();
  }, ta("done"));
  return (
    <div class="detail">
      <Opened title={`${e.probe}${e.target ? ` · ${e.target}` : ""}`} sub={e.type} onClose={close} />
      <div class="buttons">
        {e.state === "open"
          ? <><button class="button" onClick={() => act("event close", {})}>{ta("close")}</button><button class="button" onClick={() => act("event close", { permanently: true })}>{ta("closeForGood")}</button></>
          : <button class="button" onClick={() => act("event reopen", {})}>{ta("mayReopen")}</button>}
        {quiet(e)
          ? <button class="button" onClick={() => act("event unsilence", {})}>{ta("unsilence")}</button>
          : <><label class="field tight"><span class="visually-hidden">{ta("silenceFor")}</span><select value={period.value} onChange={(x) => (period.value = x.currentTarget.value)}>{["1h", "4h", "1d", "7d", "30d"].map((p) => <option value={p}>{p}</option>)}</select></label>
            <button class="button" onClick={() => act("event silence", { for: period.value })}>{ta("silence")}</button></>}
      </div>
      <dl class="facts">
        <dt>{ta("state")}</dt><dd><Badge kind={e.state === "open" ? kindOf(e.severity) : "plain"}>{e.state === "open" ? e.severity : e.state}</Badge>{quiet(e) && <> <Badge kind="plain">{ta("silencedUntil", fullDate(e.silenced!))}</Badge></>}</dd>
        <dt>{ta("cause")}</dt><dd>{e.cause}</dd>
        {e.remedy && <><dt>{ta("remedy")}</dt><dd>{e.remedy}</dd></>}
        <dt>{ta("firstFound")}</dt><dd>{fullDate(e.first)}</dd>
        <dt>{ta("lastFound")}</dt><dd>{fullDate(e.last)} · {count(e.count)}×</dd>
      </dl>
      <form class="inline-form" onSubmit={(x) => { x.preventDefault(); act("event assign", { person: person.value.trim() }); }}><Text label={ta("assignedTo")} value={person} /><button class="button">{ta("assign")}</button></form>
      <form class="inline-form" onSubmit={(x) => { x.preventDefault(); act("event comment", { text: comment.value.trim() }); }}><Text label={ta("comment")} value={comment} required /><button class="button">{ta("write")}</button></form>
      <section class="block"><h2>{ta("history")}</h2>
        <ol class="trace">{[...(e.history ?? [])].reverse().map((h) => {
          const [at = "", ...rest] = h.split(" ");
          return <li><time dateTime={at}>{fullDate(at)}</time> <span>{rest.join(" ")}</span></li>;
        })}</ol></section>
      <p class="fine">{ta("id")} {e.id}</p>
    </div>
  );
}
