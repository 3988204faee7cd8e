import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { say } from "../state/screen";
import { count, fullDate, shortDate, size } from "../text";
import { Domino, Icon } from "../ui/icons";
import { ask, Badge, doing, Empty, Find, Ghosts, go, Head, leave, Opened, tell, Text, Two, useLive, usePages, where } from "./parts";
import { ta } from "./text";
import { run, type Queued, type TraceStep } from "./verbs";

const stateKind = (s = "") => (s.includes("dead") || s.includes("failed") ? "bad" : s.includes("held") ? "warn" : "plain");

interface Destination { destination: string; due: number; waiting: number; sending: number; connections: number; failures: number; retry?: string; host?: string; reply?: string }

export function Queue() {
  const tab = useSignal<"messages" | "destinations" | "trace">("messages");
  const id = where.value.item;
  const from = useSignal("");
  const to = useSignal("");
  const state = useSignal("");
  const chosen = useSignal<Set<string>>(new Set());
  const pages = usePages<Queued>("queue list", () => ({ ...(from.value ? { from: from.value } : {}), ...(to.value ? { to: to.value } : {}), ...(state.value ? { state: state.value } : {}) }));
  // The queue changes by itself.
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden && pages.state.value === "ready" && pages.items.value.length <= 50) pages.reload(); }, 5000);
    return () => clearInterval(timer);
  }, []);
  const tabs = [["messages", ta("messagesTab")], ["destinations", ta("destinations")], ["trace", ta("trace")]] as const;
  const act = (verb: string, ids: string[]) => doing(async () => {
    let last = "";
    for (const x of ids) last = (await run<{ done: string }>(verb, { id: x })).done;
    chosen.value = new Set();
    pages.reload();
    say(ids.length === 1 ? last : ta("selectedCount", ids.length));
  });
  const many = [...chosen.value].filter((x) => pages.items.value.some((q) => q.id === x));
  return (
    <Two
      label={ta("queue")} onClose={() => go("queue")}
      title={<>
        <Head title={ta("queue")}><button class="tool" aria-label={ta("refresh")} title={ta("refresh")} onClick={pages.reload}><Icon name="refresh" /></button></Head>
        <div class="tabs" role="tablist">{tabs.map(([k, n]) => <button role="tab" aria-selected={tab.value === k} onClick={() => (tab.value = k)}>{n}</button>)}</div>
      </>}
      detail={id ? <One key={id} id={id} act={act} trace={() => { tab.value = "trace"; }} /> : null}
    >
      {tab.value === "messages" && <>
        <div class="tools">
          <Find text={from} hint={ta("filterFrom")} /><Find text={to} hint={ta("filterTo")} />
          <label class="field tight"><span class="visually-hidden">{ta("state")}</span><select value={state.value} onChange={(e) => (state.value = e.currentTarget.value)}>{["", "waiting", "pending", "held", "dead"].map((s) => <option value={s}>{s === "" ? ta("anyState") : ta(s as "held")}</option>)}</select></label>
        </div>
        {many.length > 0 && <div class="tools chosen" role="toolbar" aria-label={ta("selectedCount", many.length)}>
          <strong>{ta("selectedCount", many.length)}</strong><span class="grow" />
          <button class="button" onClick={() => void act("queue retry", many)}>{ta("retry")}</button>
          <button class="button" onClick={() => void act("queue hold", many)}>{ta("hold")}</button>
          <button class="button" onClick={() => void act("queue release", many)}>{ta("release")}</button>
          <button class="button danger" onClick={() => ask(ta("dropAsk"), ta("dropText"), ta("drop"), () => void act("queue drop", many))}>{ta("drop")}</button>
        </div>}
        <div class="lines-box" aria-busy={pages.state.value === "loading"}>
          {pages.items.value.length === 0 && (pages.state.value === "loading" ? <Ghosts /> : <Empty icon="queue" title={from.value || to.value || state.value ? ta("nothingFound") : ta("queueEmpty")} text={ta("queueEmptyHint")} />)}
          <ul class="lines" aria-label={ta("messagesTab")}>{pages.items.value.map((q) => (
            <li key={q.id} class="pickable">
              <input class="pick" type="checkbox" aria-label={`${ta("select")}: ${q.from} → ${q.to.join(", ")}`} checked={chosen.value.has(q.id)} onChange={(e) => {
                const next = new Set(chosen.value);
                if (e.currentTarget.checked) next.add(q.id); else next.delete(q.id);
                chosen.value = next;
              }} />
              <button class="line" aria-current={id === q.id} onClick={() => go("queue", q.id)}>
                <span class="what"><strong>{q.to.slice(0, 3).join(", ")}{q.to.length > 3 ? ` +${q.to.length - 3}` : ""}</strong><small>{ta("from")} {q.from || "<>"} · {size(q.size)}</small></span>
                {q.state && <Badge kind={stateKind(q.state)}>{q.state}</Badge>}
                <small class="quiet">{shortDate(q.created)}</small>
              </button>
            </li>
          ))}</ul>
          {pages.rest.value && <button class="button wide-button" onClick={pages.more}>{ta("more")}</button>}
        </div>
      </>}
      {tab.value === "destinations" && <Destinations />}
      {tab.value === "trace" && <Trace start={id} />}
    </Two>
  );
}

function Destinations() {
  const live = useLive<{ destinations?: Destination[] }>("show queue", () => ({ by_destination: true }), 3);
  const list = live.value.value?.destinations ?? [];
  if (live.value.value && list.length === 0) return <Empty icon="queue" title={ta("queueEmpty")} text={ta("queueEmptyHint")} />;
  return (
    <div class="lines-box scroll-x" tabIndex={0}>
      <table class="table"><thead><tr><th>{ta("to")}</th><th class="number">{ta("due")}</th><th class="number">{ta("waiting")}</th><th class="number">{ta("sending")}</th><th class="number">{ta("failures")}</th><th>{ta("lastReply")}</th></tr></thead>
        <tbody>{list.map((d) => <tr key={d.destination}><td>{d.destination}{d.retry && <small class="under">{ta("nextTry", fullDate(d.retry))}</small>}</td><td class="number">{count(d.due)}</td><td class="number">{count(d.waiting)}</td><td class="number">{count(d.sending)}</td><td class="number">{count(d.failures)}</td><td class="prose">{[d.host, d.reply].filter(Boolean).join(": ")}</td></tr>)}</tbody></table>
    </div>
  );
}

function Trace({ start }: { start: string }) {
  const what = useSignal(start);
  const steps = useSignal<TraceStep[] | null>(null);
  const look = () => void doing(async () => { steps.value = await run<TraceStep[]>("trace", { what: what.value.trim() }); });
  useEffect(() => { if (start) look(); }, []);
  return (
    <div class="lines-box pad">
      <form class="inline-form" onSubmit={(e) => { e.preventDefault(); look(); }}><Text label={ta("traceAsk")} value={what} required /><button class="button">{ta("trace")}</button></form>
      {steps.value?.length === 0 && <p class="quiet">{ta("traceNothing")}</p>}
      <ol class="trace">{(steps.value ?? []).map((s) => (
        <li><time dateTime={s.time}>{fullDate(s.time)}</time><strong>{s.event}</strong> <span>{s.to}</span>{s.host && <small>{s.host}{s.secure ? ` · ${s.secure}` : ""}</small>}{s.reply && <small class="reply">{s.reply}</small>}</li>
      ))}</ol>
    </div>
  );
}

function One({ id, act, trace }: { id: string; act: (verb: string, ids: string[]) => Promise<unknown>; trace: () => void }) {
  const message = useSignal<Queued | null>(null);
  const close = () => leave("queue", id);
  const turn = useRef(0);
  const load = () => {
    const mine = ++turn.current;
    void run<Queued>("queue show", { id }).then((q) => { if (mine === turn.current) message.value = q; }, (e: unknown) => {
      if (mine !== turn.current) return; // it was dropped meanwhile, or is not looked at any more
      tell(e);
      close();
    });
  };
  useEffect(() => {
    load();
    return () => { turn.current++; };
  }, [id]);
  const q = message.value;
  if (!q) return <p class="loading" aria-busy="true">{ta("loading")}</p>;
  const held = q.state === "held";
  const then = (verb: string) => {
    const mine = ++turn.current;
    const done = act(verb, [id]);
    if (verb === "queue drop") close();
    else void done.then(() => setTimeout(() => { if (mine === turn.current) load(); }, 400));
  };
  return (
    <div class="detail">
      <Opened title={q.to.join(", ")} sub={`${ta("from")} ${q.from || "<>"}`} face={<Domino of={q.from} size={52} />} onClose={close} />
      <div class="buttons">
        <button class="button primary" onClick={() => then("queue retry")}><Icon name="refresh" />{ta("retry")}</button>
        {held ? <button class="button" onClick={() => then("queue release")}><Icon name="play" />{ta("release")}</button> : <button class="button" onClick={() => then("queue hold")}><Icon name="pause" />{ta("hold")}</button>}
        <button class="button" onClick={trace}>{ta("trace")}</button>
        <button class="button danger" onClick={() => ask(ta("dropAsk"), ta("dropText"), ta("drop"), () => then("queue drop"))}><Icon name="trash" />{ta("drop")}</button>
      </div>
      <dl class="facts">
        <dt>{ta("state")}</dt><dd><Badge kind={stateKind(q.state)}>{q.state}</Badge> {q.reason}</dd>
        <dt>{ta("waitingSince")}</dt><dd>{fullDate(q.created)}</dd>
        <dt>{ta("size")}</dt><dd>{size(q.size)}</dd>
      </dl>
      <section class="block"><h2>{ta("recipients")}</h2>
        <ul class="plain-list">{(q.recipients ?? []).map((r) => (
          <li key={r.address}><span class="what"><span>{r.address} <Badge kind={stateKind(r.state)}>{r.state}</Badge></span>
            <small>{ta("attempts", r.attempts)}{r.next ? ` · ${ta("nextTry", fullDate(r.next))}` : ""}</small>{r.reply && <small class="reply">{r.host ? `${r.host}: ` : ""}{r.reply}</small>}</span></li>
        ))}</ul></section>
      {q.header && <section class="block"><h2>{ta("header")}</h2><pre class="source boxed" tabIndex={0}>{q.header}</pre></section>}
      <p class="fine">{ta("id")} {q.id}</p>
    </div>
  );
}
