import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { say } from "../state/screen";
import { count, shortDate, size } from "../text";
import { Icon, type IconName } from "../ui/icons";
import { Frame } from "../ui/above";
import { ask, Badge, doing, Empty, Ends, Field, Find, go, Head, leave, Lines, Opened, sizeText, tell, Text, Two, usePages, where } from "./parts";
import { ta } from "./text";
import { run, type Database } from "./verbs";

const icons: Record<string, IconName> = { mail: "inbox", directory: "group", queue: "queue" };
const levels = ["No Access", "Depositor", "Reader", "Author", "Editor", "Designer", "Manager"];

function State({ d }: { d: Database }) {
  if (d.state === "in service") return null;
  return <Badge kind={d.state === "pending delete" ? "bad" : "warn"}>{d.state === "pending delete" ? ta("pendingDelete") : ta("outOfService")}</Badge>;
}

export function Databases() {
  const text = useSignal("");
  const removed = useSignal(false);
  const adding = useSignal(false);
  const pages = usePages<Database>("db list", () => ({ ...(text.value ? { pattern: text.value } : {}), ...(removed.value ? { removed: true } : {}) }), (d) => d.id);
  const id = where.value.item;
  return (
    <>
      <Two
        label={ta("databases")} onClose={() => go("databases")}
        title={<Head title={ta("databases")}>
          <button class="tool" aria-label={ta("collect")} title={ta("collect")} onClick={() => ask(ta("collectAsk"), ta("collectText"), ta("collect"), () => void doing(() => run("collect"), ta("collected")))}><Icon name="clear" /></button>
          <button class="button primary" onClick={() => (adding.value = true)}><Icon name="plus" /><span class="only-wide-text">{ta("addDatabase")}</span></button>
        </Head>}
        detail={id ? <One key={id} id={id} changed={pages.reload} /> : null}
      >
        <div class="tools"><Find text={text} hint={ta("searchDatabases")} /><label class="check"><input type="checkbox" checked={removed.value} onChange={(e) => (removed.value = e.currentTarget.checked)} />{ta("removedOnes")}</label></div>
        <Lines pages={pages} of={(d) => d.id} selected={id} open={(d) => go("databases", d.id)} label={ta("databases")} empty={<Empty icon="database" title={text.value ? ta("nothingFound") : ta("nothing")} />}
          line={(d) => (
            <>
              <span class="round"><Icon name={icons[d.kind] ?? "database"} /></span>
              <span class="what"><strong>{d.title}</strong><small>{[d.kind, d.owner !== d.title && d.owner].filter(Boolean).join(" · ")}</small></span>
              <State d={d} />
            </>
          )} />
      </Two>
      {adding.value && <Add onClose={() => (adding.value = false)} onDone={(d) => { adding.value = false; pages.reload(); go("databases", d.id); }} />}
    </>
  );
}

function Add({ onClose, onDone }: { onClose: () => void; onDone: (d: Database) => void }) {
  const title = useSignal("");
  const kind = useSignal("mail");
  const owner = useSignal("");
  const quota = useSignal("");
  return (
    <Frame title={ta("addDatabase")} small onClose={onClose}>
      <form class="form" onSubmit={(e) => {
        e.preventDefault();
        void doing(async () => onDone(await run<Database>("db add", { title: title.value.trim(), kind: kind.value.trim(), ...(owner.value ? { owner: owner.value.trim() } : {}), ...(quota.value ? { quota: quota.value } : {}) })), ta("personAdded", title.value));
      }}>
        <Text label={ta("title")} value={title} required autofocus />
        <Text label={ta("kind")} value={kind} required />
        <Text label={ta("owner")} value={owner} />
        <Text label={ta("quota")} value={quota} hint={ta("quotaHint")} />
        <Ends yes={ta("add")} onCancel={onClose} />
      </form>
    </Frame>
  );
}

function One({ id, changed }: { id: string; changed: () => void }) {
  const database = useSignal<Database | null>(null);
  const editing = useSignal(false);
  const name = useSignal("");
  const level = useSignal("Reader");
  const close = () => leave("databases", id);
  const load = () => void run<Database>("db show", { name: id }).then((d) => (database.value = d), (e: unknown) => { tell(e); close(); });
  useEffect(load, [id]);
  const d = database.value;
  if (!d) return <p class="loading" aria-busy="true">{ta("loading")}</p>;
  const set = (change: object, said?: string) => doing(async () => {
    database.value = await run<Database>("db set", { name: d.id, ...change });
    changed();
  }, said ?? ta("changed", d.title));
  const entries = (d.access ?? []).map((a) => [a.slice(0, a.lastIndexOf("=")), a.slice(a.lastIndexOf("=") + 1)] as const);
  const served = d.state === "in service";
  const own = ["directory", "queue", "outbox", "mailtrace", "memory", "sessions", "cluster"].includes(d.kind);
  return (
    <div class="detail">
      <Opened title={d.title} sub={<>{d.kind} <State d={d} /></>} face={<span class="round big"><Icon name={icons[d.kind] ?? "database"} /></span>} onClose={close}>
        {d.state !== "pending delete" && <button class="button" onClick={() => (editing.value = true)}><Icon name="drafts" />{ta("edit")}</button>}
      </Opened>
      {d.state === "pending delete" && <p class="notice">{d.reason}<button class="button" onClick={() => void doing(async () => { await run("db undo", { name: d.id }); load(); changed(); }, ta("broughtBack", d.title))}>{ta("undo")}</button></p>}
      {d.state === "out of service" && <p class="notice">{ta("outOfService")}{d.reason ? `: ${d.reason}` : ""}<button class="button" onClick={() => void set({ service: true })}>{ta("putIn")}</button></p>}
      <dl class="facts">
        {d.owner && <><dt>{ta("owner")}</dt><dd>{d.owner}</dd></>}
        {d.created && <><dt>{ta("created")}</dt><dd>{shortDate(d.created)}</dd></>}
        <dt>{ta("quota")}</dt><dd>{d.quota ? sizeText(d.quota) : ta("noLimit")}</dd>
        {d.fulltext && <><dt>{ta("fullText")}</dt><dd>{ta("fullTextOff")}</dd></>}
        {d.acknowledge && <><dt>{ta("acknowledges")}</dt><dd>{d.acknowledge}</dd></>}
      </dl>
      {d.folders && (
        <section class="block"><h2>{ta("folders")}</h2>
          <table class="table"><thead><tr><th>{ta("name")}</th><th class="number">{ta("messagesTab")}</th><th class="number">{ta("size")}</th></tr></thead>
            <tbody>{d.folders.map((f) => <tr key={f.name}><td>{f.name}</td><td class="number">{count(f.messages)}</td><td class="number">{size(f.bytes)}</td></tr>)}</tbody></table>
        </section>
      )}
      {d.state !== "pending delete" && (
        <section class="block"><h2>{ta("accessList")}</h2>
          <ul class="plain-list">{entries.map(([who, what]) => (
            <li key={who}><Icon name={who === "default" ? "globe" : "shared"} /><span class="what"><span>{who === "default" ? ta("everybodyElse") : who}</span></span>
              <label><span class="visually-hidden">{ta("level")}: {who}</span>
                <select value={what} onChange={(e) => void set({ access: [`${who}=${e.currentTarget.value}`] })}>{levels.map((l) => <option value={l}>{l}</option>)}</select></label></li>
          ))}</ul>
          <form class="inline-form" onSubmit={(e) => { e.preventDefault(); void set({ access: [`${name.value.trim()}=${level.value}`] }).then((ok) => { if (ok) name.value = ""; }); }}>
            <Text label={ta("name")} value={name} required />
            <Field label={ta("level")}><select value={level.value} onChange={(e) => (level.value = e.currentTarget.value)}>{levels.slice(1).map((l) => <option value={l}>{l}</option>)}</select></Field>
            <button class="button">{ta("add")}</button>
          </form>
        </section>
      )}
      {d.state !== "pending delete" && <section class="block"><div class="buttons">
        <button class="button" onClick={() => {
          const end = say(ta("checking", d.title), undefined, 600);
          void doing(async () => {
            const r = await run<{ clean: boolean; notes?: number; messages?: number }>("check", { database: [d.id] }).finally(end);
            say(r.clean ? ta("checkClean", d.title, count(r.notes ?? 0), count(r.messages ?? 0)) : ta("checkBad", d.title), undefined, 12);
          });
        }}><Icon name="check" />{ta("check")}</button>
        {d.kind === "mail" && <button class="button" onClick={() => void set({ fulltext: d.fulltext ? "on" : "off" })}><Icon name="search" />{ta(d.fulltext ? "indexOn" : "indexOff")}</button>}
        {d.kind === "mail" && !d.fulltext && <button class="button" onClick={() => void doing(() => run("search rebuild", { database: d.id }), ta("rebuilt", d.title))}><Icon name="search" />{ta("rebuildIndex")}</button>}
        {served && !own && <button class="button" onClick={() => ask(ta("outAsk", d.title), ta("outText"), ta("takeOut"), () => void set({ service: false }))}><Icon name="pause" />{ta("takeOut")}</button>}
        {!own && <button class="button danger" onClick={() => ask(ta("removeAsk", d.title), ta("removeDatabaseText"), ta("remove"), () => void doing(async () => { await run("db remove", { name: d.id }); changed(); close(); }, ta("removedSaid", d.title)))}><Icon name="trash" />{ta("remove")}</button>}
      </div></section>}
      <p class="fine">{ta("id")} {d.id}</p>
      {editing.value && <Edit d={d} onClose={() => (editing.value = false)} save={(change) => void set(change).then((ok) => { if (ok) editing.value = false; })} />}
    </div>
  );
}

function Edit({ d, onClose, save }: { d: Database; onClose: () => void; save: (change: object) => void }) {
  const title = useSignal(d.title);
  const quota = useSignal(sizeText(d.quota));
  const warning = useSignal(sizeText(d.warning));
  return (
    <Frame title={d.title} small onClose={onClose}>
      <form class="form" onSubmit={(e) => {
        e.preventDefault();
        save({ ...(title.value !== d.title ? { title: title.value.trim() } : {}), ...(quota.value !== sizeText(d.quota) ? { quota: quota.value.trim() || "0" } : {}), ...(warning.value !== sizeText(d.warning) ? { warning: warning.value.trim() || "0" } : {}) });
      }}>
        <Text label={ta("title")} value={title} required autofocus />
        <Text label={ta("quota")} value={quota} hint={ta("quotaHint")} name="quota" />
        <Text label={ta("warnAt")} value={warning} />
        <Ends yes={ta("save")} onCancel={onClose} />
      </form>
    </Frame>
  );
}
