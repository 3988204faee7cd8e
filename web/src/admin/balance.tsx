// The balance of a cluster's members, and the moves that would even it out.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { count, size } from "../text";
import { Frame } from "../ui/above";
import { doing, Empty, Ends } from "./parts";
import { ta } from "./text";
import { run, type Balance, type BalanceLoad } from "./verbs";

/** The measures compared: homes by the use of their databases, replicas by their bytes. */
const measures: { title: "activity" | "bytes"; now: (s: BalanceLoad) => number; then: (s: BalanceLoad) => number; text: (n: number) => string }[] = [
  { title: "activity", now: (s) => s.activity, then: (s) => s.activity_then, text: count },
  { title: "bytes", now: (s) => s.bytes, then: (s) => s.bytes_then, text: size },
];

export function BalanceFrame({ onClose }: { onClose: () => void }) {
  const plan = useSignal<Balance | null>(null);
  const ask = (apply: boolean) => doing(async () => { plan.value = await run<Balance>("cluster balance", { apply }); });
  useEffect(() => void ask(false).then((ok) => { if (!ok) onClose(); }), []);
  const b = plan.value;
  return (
    <Frame title={ta("balance")} onClose={onClose}>
      {!b ? <p class="loading" aria-busy="true">{ta("loading")}</p> : (
        <form class="form" onSubmit={(e) => { e.preventDefault(); void ask(true); }}>
          <div class="columns">{measures.map((m) => <Bars key={m.title} b={b} m={m} />)}</div>
          {b.silent && <p class="notice warn">{ta("balanceSilent", b.silent.join(", "))}</p>}
          {b.moves.length === 0 ? <Empty icon="check" title={ta("balanceEven")} /> : (
            <div class="scroll-x" tabIndex={0}>
              <table class="table"><thead><tr><th>{ta("title")}</th><th>{ta("what")}</th><th>{ta("from")}</th><th>{ta("to")}</th><th class="number">{ta("activity")}</th><th class="number">{ta("bytes")}</th></tr></thead>
                <tbody>{b.moves.map((m) => (
                  <tr key={`${m.database} ${m.what} ${m.from}`}><th scope="row">{m.title}</th><td>{m.what === "home" ? ta("home") : ta("replica")}</td><td>{m.from}</td><td>{m.to}</td><td class="number">{count(m.activity)}</td><td class="number">{size(m.bytes)}</td></tr>
                ))}</tbody></table>
            </div>
          )}
          {b.applied && b.moves.length > 0 && <p role="status">{ta("balanceBegun")}</p>}
          {b.moves.length > 0 && !b.applied ? <Ends yes={ta("balanceApply")} onCancel={onClose} /> : <div class="ends"><button type="button" class="button" onClick={onClose}>{ta("close")}</button></div>}
        </form>
      )}
    </Frame>
  );
}

/** The load of each member, now and after the moves, in proportion to the fullest. */
function Bars({ b, m }: { b: Balance; m: (typeof measures)[number] }) {
  const most = Math.max(1, ...b.servers.flatMap((s) => [m.now(s), m.then(s)]));
  return (
    <section class="evenness"><h3>{ta(m.title)}</h3>
      <dl>{b.servers.map((s) => (
        <div key={s.server}><dt>{s.server}{s.capacity !== 100 && <small> {s.capacity} %</small>}</dt>
          <dd>
            <svg viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true"><rect class="now" width={(100 * m.now(s)) / most} height="6" /><rect class="then" y="8" width={(100 * m.then(s)) / most} height="6" /></svg>
            <span>{m.text(m.now(s))}{m.now(s) !== m.then(s) && ` → ${m.text(m.then(s))}`}</span>
          </dd></div>
      ))}</dl>
    </section>
  );
}
