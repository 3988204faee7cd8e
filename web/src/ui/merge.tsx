// Mail merge: the people, what their messages lack, and a preview of each, before any is sent.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Address } from "../jmap/types";
import { contactsCapability, groups, loaded, openContacts, people as contacts, type Contact } from "../state/cards";
import { fieldsOf, letterOf, mostPeople, nameKey, type Merged, type Person } from "../state/merge";
import { latest, offered } from "../state/later";
import { isKeepable } from "../state/mergetable";
import { check, isNobodys } from "../state/people";
import { isDark } from "../state/prefs";
import { mostText, readTable, readTableFile, tableText, type Table } from "../state/table";
import { client, home, offers } from "../state/session";
import { nameOrAddress } from "../state/shown";
import { fullDate, shortTime, size, t } from "../text";
import { tl } from "../text/later";
import { tm } from "../text/merge";
import { Frame } from "./above";
import { fill, fit } from "./fit";
import { safeHTML } from "./html";
import { Icon } from "./icons";
import type { Attached, Draft } from "./writing";

/** The people of a merge, of whom no message was made yet. */
export interface Ready {
  columns: string[];
  people: Omit<Person, "messageID">[];
}

/** Reasons not to send messages: always, or until the person says to send them anyway. */
interface Problems {
  bars: string[];
  asks: string[];
}

const all = (d: Draft): Address[] => [...d.to, ...d.cc, ...d.bcc];

function problemsOf(d: Draft, text: string, table: Table, fields: string[]): Problems {
  const bars: string[] = [], asks: string[] = [];
  if (d.cc.length + d.bcc.length > 0) bars.push(tm("copies"));
  if (table.full) bars.push(tm("tooMany", mostPeople));
  const column = new Map(table.columns.map((c, i) => [nameKey(c), i]));
  for (const f of fields) if (!column.has(nameKey(f))) bars.push(tm("noColumn", f));
  const lineOf = new Map<string, number>();
  for (const { at, to, values } of table.lines) {
    if (!to) {
      bars.push(tm("noAddress", at));
      continue;
    }
    const same = lineOf.get(to.email.toLowerCase());
    if (same !== undefined) bars.push(tm("twice", at, to.email, same));
    else lineOf.set(to.email.toLowerCase(), at);
    for (const f of fields) if (values[column.get(nameKey(f)) ?? -1] === "") asks.push(tm("missing", at, to.email, f));
    if (isNobodys(to.email)) asks.push(t("nobodyHas", to.email));
  }
  if (!d.subject) asks.push(tm("noSubject"));
  if (table.lines.length > 0) for (const a of all(d)) if (!lineOf.has(a.email.toLowerCase())) asks.push(tm("notListed", a.email));
  if (d.attachments.length === 0 && /\b(?:attach(?:ed|ment)|anbei|angehängt|anhang)|附件/iu.test(text.split(/^>/mu)[0]!)) asks.push(t("forgotAttachment"));
  return { bars, asks };
}

/** A table of people: of those whom a message is written to, or of contacts. */
const ofAddresses = (list: Address[]) => tableText([tm("name"), tm("email")], list.map((a) => [a.name ?? "", a.email]));

function ofContacts(list: Contact[]): string {
  const part = (c: Contact, kind: string) => (c.card.name?.components ?? []).filter((x) => x.kind === kind).map((x) => x.value).join(" ");
  const lines = list.flatMap((c) => {
    const [email] = Object.values(c.card.emails ?? {});
    const [company] = Object.values(c.card.organizations ?? {});
    return email ? [[c.name, part(c, "given"), part(c, "surname"), email.address, company?.name ?? ""]] : [];
  });
  return lines.length > 0 ? tableText([tm("name"), tm("given"), tm("surname"), tm("email"), tm("company")], lines) : "";
}

type Values = Record<"text" | "html", { value: string }>;

/** email is that of the draft as Email/set takes it, with its fields. */
export function Apart({ draft, email, keep, close, send }: { draft: Draft; email: Record<string, unknown>; keep: (table: string) => void; close: () => void; send: (r: Ready, later?: Date) => Promise<void> }) {
  const input = useSignal(draft.table ?? (draft.to.length > 0 ? ofAddresses(draft.to) : ""));
  const said = useSignal("");
  const sure = useSignal(false);
  const when = useSignal<When>({});
  const file = useRef<HTMLInputElement>(null);
  const table = useMemo(() => readTable(input.value), [input.value]);
  const fields = useMemo(() => fieldsOf(draft.subject, (email["bodyValues"] as Values).html.value), []);
  const sound = table.lines.filter((l) => l.to).map(({ to, values }) => ({ to: to!, values }));
  const { bars, asks } = problemsOf(draft, (email["bodyValues"] as Values).text.value, table, fields);
  useEffect(() => void check(sound.map((p) => p.to.email)), [input.value]);
  const set = (to: string) => {
    said.value = "";
    sure.value = false;
    input.value = to;
    keep(to);
  };
  const take = async (f: File | undefined) => {
    if (!f) return;
    if (f.size > mostText) said.value = tm("bigFile", size(mostText));
    else set(await readTableFile(f));
  };
  const n = sound.length;
  const go = () => {
    const { at, bad } = when.value;
    // The time may have passed while the sheet was open.
    if (bad || (at && !isOffered(at))) when.value = { ...when.value, bad: true };
    else void send({ columns: table.columns, people: sound }, at);
  };
  return (
    <Frame title={tm("title")} onClose={close}>
      <div class="apart">
        <p class="quiet">{tm("hint")}</p>
        <label class="field"><span>{tm("table")}</span><textarea value={input.value} spellcheck={false} wrap="off" onInput={(e) => set(e.currentTarget.value)} /></label>
        <div class="sources">
          <button type="button" class="button" onClick={() => file.current?.click()}><Icon name="attach" />{tm("file")}</button>
          {offers(contactsCapability) && <FromContacts choose={(list) => { const made = ofContacts(list); if (made) set(made); else said.value = tm("noContacts"); }} />}
          <input ref={file} type="file" accept=".csv,.tsv,.txt,text/csv,text/tab-separated-values" hidden onChange={(e) => { void take(e.currentTarget.files?.[0]); e.currentTarget.value = ""; }} />
        </div>
        {said.value && <p class="said" role="alert">{said.value}</p>}
        <p class="quiet" role="status">{n === 0 && bars.length === 0 ? tm("empty") : tm("fields", table.columns.map((c) => `{{${c}}}`).join(" "))}</p>
        <Said list={[...bars, ...asks]} />
        {bars.length === 0 && asks.length > 0 && n > 0 && <label class="check"><input type="checkbox" checked={sure.value} onChange={(e) => (sure.value = e.currentTarget.checked)} />{tm("anyway")}</label>}
        {input.value && !isKeepable(input.value) && <p class="quiet">{tm("here")}</p>}
        {latest() && <Time when={when.value} set={(w) => (when.value = w)} />}
        {n > 0 && <Preview of={{ columns: table.columns, people: sound }} email={email} pictures={draft.attachments} />}
        <div class="ends">
          <button type="button" class="button" onClick={close}>{t("cancel")}</button>
          <button type="button" class="button primary" disabled={n === 0 || bars.length > 0 || (asks.length > 0 && !sure.value)} onClick={go}><Icon name={when.value.at ? "clock" : "send"} />{when.value.at ? tm("schedule", n) : n === 1 ? tm("sendOne") : tm("send", n)}</button>
        </div>
      </div>
    </Frame>
  );
}

/** When the messages are sent; at is absent: at once. bad: the server does not send at that time. */
interface When {
  name?: string;
  at?: Date;
  bad?: boolean;
}

const isOffered = (at: Date) => at > client.now() && at <= latest()!;

/** Chooses when the messages are sent. */
function Time({ when, set }: { when: When; set: (w: When) => void }) {
  const times = useMemo(offered, []);
  return (
    <>
      <label class="field"><span>{tm("when")}</span>
        <select class="text-input" value={when.name ?? ""} onChange={(e) => {
          const name = e.currentTarget.value, at = times.find((o) => o.name === name)?.at;
          set(at ? { name, at } : name ? { name, bad: true } : {});
        }}>
          <option value="">{tm("now")}</option>
          {times.map((o) => <option key={o.name} value={o.name}>{tl(o.name, shortTime(o.at))}</option>)}
          <option value="pick">{tl("pickTime")}</option>
        </select>
      </label>
      {when.name === "pick" && (
        <label class="field"><span>{tl("pickAsk")}</span>
          <input type="datetime-local" onInput={(e) => {
            const at = new Date(e.currentTarget.value);
            set({ name: "pick", ...(isOffered(at) ? { at } : { bad: true }) });
          }} />
        </label>
      )}
      {when.bad && <p class="said" role={when.at ? "alert" : "status"}>{tl("badTime", fullDate(latest()!.toISOString()))}</p>}
    </>
  );
}

/** The most problems that are shown at once. */
const mostSaid = 6;

function Said({ list }: { list: string[] }) {
  if (list.length === 0) return null;
  return (
    <div class="said" role="alert">
      <ul>
        {list.slice(0, mostSaid).map((x) => <li>{x}</li>)}
        {list.length > mostSaid && <li>{tm("more", list.length - mostSaid)}</li>}
      </ul>
    </div>
  );
}

/** Contacts to choose from: all, or those of a group. They are read when they are asked for. */
function FromContacts({ choose }: { choose: (list: Contact[]) => void }) {
  const open = useSignal(false);
  if (!open.value || !loaded.value) {
    return <button type="button" class="button" aria-busy={open.value} onClick={() => { open.value = true; if (!loaded.value) void openContacts(); }}><Icon name="contacts" />{tm("contacts")}</button>;
  }
  const members = (c: Contact) => contacts.value.filter((p) => p.account === c.account && c.card.members?.[p.card.uid]);
  return (
    <select class="text-input" aria-label={tm("contacts")} value="" onChange={(e) => {
      const key = e.currentTarget.value;
      e.currentTarget.value = "";
      const group = groups.value.find((g) => g.key === key);
      if (key) choose(group ? members(group) : contacts.value);
    }}>
      <option value="">{tm("choose")}</option>
      <option value="all">{tm("allContacts")}</option>
      {groups.value.map((g) => <option key={g.key} value={g.key}>{g.name}</option>)}
    </select>
  );
}

function Preview({ of, email, pictures }: { of: Ready; email: Record<string, unknown>; pictures: Attached[] }) {
  const wanted = useSignal(0);
  const frame = useRef<HTMLIFrameElement>(null), box = useRef<HTMLDivElement>(null);
  const ready = useSignal(false);
  const at = Math.min(wanted.value, of.people.length - 1);
  const tone = isDark.value ? "plain" : "light";
  const merged: Merged = { columns: of.columns, people: of.people.map((p) => ({ ...p, messageID: "" })) };
  const made = letterOf(email, merged, at);
  const subject = String(made["subject"]), html = (made["bodyValues"] as Values).html.value;
  useEffect(() => {
    const d = frame.current?.contentDocument;
    if (!ready.value || !d?.body) return undefined;
    const picture = (cid: string) => {
      const a = pictures.find((x) => x.cid === cid);
      return a && client.blobURL(home.value, a.blobId, a.type, a.name);
    };
    fill(d, { html: safeHTML(html, false, picture).html, tone });
    return fit(frame.current!, box.current!);
  }, [ready.value, html, tone]);
  return (
    <section class="letter-preview" aria-label={tm("preview")}>
      <div class="bar">
        <h3>{tm("preview")}</h3>
        <button type="button" class="tool" aria-label={tm("previous")} title={tm("previous")} disabled={at === 0} onClick={() => (wanted.value = at - 1)}><Icon name="back" /></button>
        <span class="quiet" aria-live="polite">{tm("of", at + 1, of.people.length)}</span>
        <button type="button" class="tool" aria-label={tm("next")} title={tm("next")} disabled={at >= of.people.length - 1} onClick={() => (wanted.value = at + 1)}><Icon name="next" /></button>
      </div>
      <dl><dt>{t("to")}</dt><dd dir="auto">{nameOrAddress(of.people[at]!.to)} <span class="quiet">{of.people[at]!.to.email}</span></dd><dt>{t("subject")}</dt><dd dir="auto">{subject || t("noSubject")}</dd></dl>
      {/* No scripts in it; same origin, so that its height can be read and its text be set. */}
      <div class="letter" data-tone={tone} ref={box} tabIndex={0}><iframe ref={frame} onLoad={() => (ready.value = true)} title={tm("preview")} sandbox="allow-same-origin" src="/mail-frame" /></div>
    </section>
  );
}

/** Returns the draft again, for those whose message the server refused. */
export function refusedPart({ columns, people, refused, written }: Merged & { refused: { at: number }[]; written: object }): Draft {
  const left = refused.map(({ at }) => people[at]!), draft = written as Draft;
  const isLeft = (a: Address) => left.some((p) => p.to.email.toLowerCase() === a.email.toLowerCase());
  return { ...draft, to: draft.to.filter(isLeft), table: tableText(columns, left.map((p) => p.values)) };
}
