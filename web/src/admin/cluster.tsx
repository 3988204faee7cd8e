import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { openMenu, say } from "../state/screen";
import { count } from "../text";
import { DominoFace, Icon } from "../ui/icons";
import { Frame } from "../ui/above";
import { BalanceFrame } from "./balance";
import { Chart, Spark, type Point } from "./chart";
import { gauge, rate, watch } from "./measure";
import { ask, Badge, doing, Empty, Ends, Head, Text, useLive } from "./parts";
import { span, ta } from "./text";
import { run, type ClusterDatabase, type ClusterEvent, type ClusterStatus, type Done, type Member } from "./verbs";

const seconds = (nanoseconds: number) => nanoseconds / 1e9;
const short = (nanoseconds: number) => (nanoseconds < 1e9 ? ta("ms", count(Math.round(nanoseconds / 1e5) / 10)) : span(seconds(nanoseconds)));

function standing(m: Member): { kind: "good" | "warn" | "bad" | "plain"; word: string } {
  if (!m.alive) return { kind: "bad", word: ta("silent") };
  if (m.state !== "active") return { kind: "warn", word: m.state === "leaving" ? ta("leaving") : m.state };
  if (!m.serving) return { kind: "warn", word: ta("catchingUp") };
  if (m.restricted) return { kind: "warn", word: ta("restricted") };
  if (m.full) return { kind: "warn", word: ta("full") };
  if (m.busy) return { kind: "warn", word: ta("busy") };
  return { kind: "good", word: ta("alive") };
}

/** The state of a replica that is like any other. */
const serving = "in service";

const hues = { good: 168, warn: 36, bad: 350, plain: 205 };

/** The pips of an availability index: twelve when a server is free, none when it is not there. */
function pips(m: Member): [number, number] {
  const n = m.alive ? Math.max(1, Math.round((Math.min(100, m.availability_index) / 100) * 12)) : 0;
  return [Math.min(6, n), Math.max(0, n - 6)];
}

export function Cluster() {
  const live = useLive<ClusterStatus>("show cluster", () => ({}), 2);
  const balancing = useSignal(false);
  const history = useRef(new Map<string, { index: number[]; waiting: number[] }>());
  useEffect(watch, []);
  const s = live.value.value;
  useEffect(() => {
    for (const m of s?.members ?? []) {
      const h = history.current.get(m.name) ?? { index: [], waiting: [] };
      h.index = [...h.index, m.alive ? m.availability_index : 0].slice(-90);
      h.waiting = [...h.waiting, m.waiting].slice(-90);
      history.current.set(m.name, h);
    }
  }, [s]);
  if (!s) {
    return (
      <section class="pane whole" aria-label={ta("cluster")}><Head title={ta("cluster")} />
        {live.error.value ? <Empty icon="cluster" title={ta("noCluster")} text={ta("noClusterHint")} /> : <p class="loading" aria-busy="true">{ta("loading")}</p>}
      </section>
    );
  }
  return (
    <section class="pane whole" aria-label={ta("cluster")}>
      <Head title={`${ta("cluster")} · ${s.cluster}`}><span class="live on">{ta("live")}</span><button class="button" onClick={() => (balancing.value = true)}>{ta("balanceAsk")}</button></Head>
      {balancing.value && <BalanceFrame onClose={() => (balancing.value = false)} />}
      <div class="lines-box pad" tabIndex={0}>
        <Picture s={s} />
        <Events list={s.events ?? []} />
        <div class="members">{[...s.members].sort((a, b) => Number(b.self ?? false) - Number(a.self ?? false) || a.name.localeCompare(b.name)).map((m) => <MemberCard key={m.name} m={m} h={history.current.get(m.name)} reload={live.reload} />)}</div>
        <div class="charts">
          <Chart title={ta("queueDepth")} points={gauge("Replica.Cluster.WorkQueueDepth")} text={(v) => count(Math.round(v))} tone="flag" />
          <Chart title={ta("lag")} points={gauge("Replica.Cluster.SecondsOnQueue")} text={span} tone="flag" />
          <Chart title={`${ta("redirects")}: ${ta("failover")}`} points={points("Server.Cluster.OpenRedirects.Failover.Successful")} text={(v) => `${count(Math.round(v * 10) / 10)}/s`} />
          <Chart title={`${ta("redirects")}: ${ta("loadBalance")}`} points={points("Server.Cluster.OpenRedirects.LoadBalance.Successful")} text={(v) => `${count(Math.round(v * 10) / 10)}/s`} />
        </div>
        <Where s={s} />
      </div>
    </section>
  );
}

/** The present problems, each with its cause as far as the server knows it. */
function Events({ list }: { list: ClusterEvent[] }) {
  if (list.length === 0) return null;
  return (
    <section class="block" aria-label={ta("events")} aria-live="polite"><h2>{ta("events")}</h2>
      <ul class="events">{list.map((e) => <li key={`${e.kind} ${e.server ?? ""}`}><Badge kind="warn">{e.kind}</Badge> {e.server && <b>{e.server}</b>} {e.cause} <small>{new Date(e.since).toLocaleString()}</small></li>)}</ul>
    </section>
  );
}

const points = (name: string): Point[] => rate(name);

/** The cluster as a picture: each member a domino whose pips are its availability, from here to each a line. */
function Picture({ s }: { s: ClusterStatus }) {
  const w = 640;
  const h = 280;
  const others = s.members.filter((m) => !m.self).sort((a, b) => a.name.localeCompare(b.name));
  const self = s.members.find((m) => m.self);
  const place = new Map<string, [number, number]>();
  if (self) place.set(self.name, [110, h / 2 - 8]);
  others.forEach((m, i) => {
    const angle = others.length === 1 ? 0 : (i / (others.length - 1) - 0.5) * 1.9;
    place.set(m.name, [150 + Math.cos(angle) * 380, h / 2 - 8 + Math.sin(angle) * 110]);
  });
  const alive = s.members.filter((m) => m.alive).length;
  return (
    <figure class="picture">
      <svg viewBox={`0 0 ${w} ${h}`} role="img" aria-label={ta("clusterPicture", s.members.length, alive)}>
        {self && others.map((m) => {
          const [x1, y1] = place.get(self.name)!;
          const [x2, y2] = place.get(m.name)!;
          const d = `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`;
          return (
            <g class={`wire ${standing(m).kind}`}>
              <path d={d} stroke-width={1.5 + Math.min(9, Math.log2(m.waiting + 1) * 1.4)} stroke-dasharray={m.alive ? undefined : "3 7"} />
              {m.alive && m.waiting > 0 && <path class="flow" d={d} stroke-width="2.5" stroke-dasharray="2 16" />}
              <text x={(x1 + x2) / 2} y={(y1 + y2) / 2 - 8} text-anchor="middle">{m.waiting > 0 ? `${count(m.waiting)} · ${short(m.lag)}` : m.alive ? short(m.probe_time) : ta("silent")}</text>
            </g>
          );
        })}
        {s.members.map((m) => {
          const [x, y] = place.get(m.name)!;
          const [a, b] = pips(m);
          return <g class="node"><DominoFace a={a} b={b} hue={hues[standing(m).kind]} size={58} x={x - 16} y={y - 29} /><text x={x} y={y + 46} text-anchor="middle">{m.name}</text></g>;
        })}
      </svg>
      <figcaption>
        <span>{ta("clusterPicture", s.members.length, alive)}. {ta("mapHint")}</span>
        <span class="figures"><b>{count(s.databases)}</b> {ta("replicasHere")} <b>{count(s.led)}</b> {ta("led")} {s.homeless > 0 && <Badge kind="bad">{count(s.homeless)} {ta("homeless")}</Badge>} {s.degraded > 0 && <Badge kind="warn">{count(s.degraded)} {ta("degraded")}</Badge>}</span>
      </figcaption>
    </figure>
  );
}

function MemberCard({ m, h, reload }: { m: Member; h: { index: number[]; waiting: number[] } | undefined; reload: () => void }) {
  const editing = useSignal(false);
  const { kind, word } = standing(m);
  const [a, b] = pips(m);
  return (
    <article class="card" aria-label={m.name}>
      <header><DominoFace a={a} b={b} hue={hues[kind]} size={46} /><div><h3>{m.name}</h3><small>{m.self ? ta("thisServer") : `${ta("probe")} ${short(m.probe_time)}`}</small></div><Badge kind={kind}>{word}</Badge></header>
      <dl class="tiles">
        <div><dt>{ta("availability")}</dt><dd>{m.alive ? m.availability_index : 0}<Spark points={h?.index ?? []} max={100} /></dd></div>
        <div><dt>{ta("users")}</dt><dd>{count(m.users)}</dd></div>
        <div><dt>{ta("led")}</dt><dd>{count(m.led)}</dd></div>
        {!m.self && <div><dt>{ta("queueDepth")}</dt><dd>{count(m.waiting)}<Spark points={h?.waiting ?? []} /></dd></div>}
        {!m.self && <div><dt>{ta("lag")}</dt><dd>{short(m.lag)}</dd></div>}
        {m.site && <div><dt>{ta("site")}</dt><dd>{m.site}</dd></div>}
        {!!m.capacity && m.capacity !== 100 && <div><dt>{ta("capacityOf")}</dt><dd>{m.capacity} %</dd></div>}
        {!!m.threshold && <div><dt>{ta("threshold")}</dt><dd>{m.threshold}</dd></div>}
      </dl>
      {m.error && <p class="reply">{m.error}</p>}
      <div class="buttons">
        <button class="button" onClick={() => (editing.value = true)}>{ta("edit")}</button>
        {m.state === "active" && <button class="button danger" onClick={() => ask(ta("leaveAsk", m.name), ta("leaveText"), ta("leave"), () => void doing(async () => { say((await run<Done>("cluster leave", { server: m.name })).done); reload(); }))}>{ta("leave")}</button>}
        {!m.self && (m.state !== "active" || !m.alive) && <button class="button danger" onClick={() => ask(ta("removeMemberAsk", m.name), ta("removeMemberText"), ta("remove"), () => void doing(async () => { say((await run<Done>("cluster remove", { server: m.name })).done); reload(); }))}>{ta("remove")}</button>}
      </div>
      {editing.value && <EditMember m={m} onClose={() => { editing.value = false; reload(); }} />}
    </article>
  );
}

function EditMember({ m, onClose }: { m: Member; onClose: () => void }) {
  const threshold = useSignal(String(m.threshold ?? 0));
  const users = useSignal("");
  const restricted = useSignal(m.restricted ?? false);
  const capacity = useSignal(String(m.capacity ?? 100));
  const site = useSignal(m.site ?? "");
  return (
    <Frame title={ta("setMember", m.name)} small onClose={onClose}>
      <form class="form" onSubmit={(e) => {
        e.preventDefault();
        void doing(() => run("cluster set", { server: m.name, threshold: Number(threshold.value), restricted: restricted.value, capacity: Number(capacity.value), site: site.value || "-", ...(users.value === "" ? {} : { max_users: Number(users.value) }) }), ta("saved")).then((ok) => { if (ok) onClose(); });
      }}>
        <Text label={ta("threshold")} value={threshold} inputMode="numeric" hint={ta("noneZero")} />
        <Text label={ta("maxUsers")} value={users} inputMode="numeric" hint={ta("noneZero")} />
        <Text label={ta("capacity")} value={capacity} inputMode="numeric" />
        <Text label={ta("site")} value={site} hint={ta("siteHint")} />
        <label class="check"><input type="checkbox" checked={restricted.value} onChange={(e) => (restricted.value = e.currentTarget.checked)} />{ta("restricted")}</label>
        <Ends yes={ta("save")} onCancel={onClose} />
      </form>
    </Frame>
  );
}

/** Databases by servers: where each has its home and its replicas. */
function Where({ s }: { s: ClusterStatus }) {
  const list = useSignal<ClusterDatabase[]>([]);
  const next = useSignal("");
  const load = (after: string) => void run<{ databases: ClusterDatabase[] | null; next?: string }>("show cluster databases", { limit: 50, ...(after ? { after } : {}) }).then((page) => {
    list.value = after ? [...list.value, ...(page.databases ?? [])] : (page.databases ?? []);
    next.value = page.next ?? "";
  }, () => undefined);
  useEffect(() => load(""), []);
  return (
    <section class="block"><h2>{ta("whereAre")}</h2>
      <div class="scroll-x" tabIndex={0}>
        <table class="table matrix"><thead><tr><th>{ta("title")}</th>{s.members.map((m) => <th key={m.name}>{m.name}</th>)}</tr></thead>
          <tbody>{list.value.filter((d) => !d.deleted).map((d) => (
            <tr key={d.id}><th scope="row">{d.title}<small class="under">{d.kind}</small></th>
              {s.members.map((m) => {
                const r = d.replicas.find((x) => x.server === m.name);
                if (!r) return <td key={m.name}><span class="visually-hidden">–</span></td>;
                const isHome = d.home === m.name;
                const word = r.state !== serving ? (r.state === "out of service" ? ta("out") : r.state) : isHome ? ta("home") : ta("replica");
                const act = (verb: string, more: object = {}) => void doing(async () => { say((await run<Done>(verb, { database: d.id, server: m.name, ...more })).done); load(""); });
                return <td key={m.name}><button class={`spot ${r.state !== serving ? "out" : isHome ? "home" : ""}`} aria-haspopup="menu" title={word} aria-label={`${d.title}, ${m.name}: ${word}`}
                  onClick={(e) => openMenu(e.currentTarget, [
                    ...(isHome || r.state !== serving ? [] : [{ text: ta("moveHome", m.name), icon: "check", run: () => act("cluster move") }]),
                    r.state === serving
                      ? { text: ta("takeOut"), icon: "pause", run: () => ask(ta("outReplicaAsk", d.title, m.name), ta("outReplicaText"), ta("takeOut"), () => act("cluster replica", { state: "out" })) }
                      : { text: ta("putIn"), icon: "play", run: () => act("cluster replica", { state: "serving" }) },
                  ])}><Icon name={r.state !== serving ? "pause" : isHome ? "check" : "database"} /></button></td>;
              })}</tr>
          ))}</tbody></table>
      </div>
      {next.value && <button class="button wide-button" onClick={() => load(next.value)}>{ta("more")}</button>}
    </section>
  );
}
