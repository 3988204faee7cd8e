// The editor of a contact.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { bookOf, books, changeCards, createCard, defaultBook, type Contact } from "../../state/cards";
import { cardDifference, newCard, readCard, smallPicture, type CardForm, type Context, type Place, type Value } from "../../state/cardform";
import { closeQuery, goQuery } from "../../state/route";
import { say } from "../../state/screen";
import { t } from "../../text";
import { tn, type ContactsText } from "../../text/contacts";
import { Frame } from "../above";
import { Icon } from "../icons";
import { isAddress } from "../recipients";
import { tell } from "./open";

/** The largest picture that is read, in bytes; the card holds a small one. */
const largestPicture = 30_000_000;

export function ContactEditor({ c }: { c: Contact | undefined }) {
  const book = c ? bookOf(c) : defaultBook.value;
  const first = useRef(readCard(c?.card ?? {}, book?.id ?? "", c?.picture)).current;
  const form = useSignal<CardForm>(c ? first : { ...first, emails: [{ id: "", text: "", context: "" }], phones: [{ id: "", text: "", context: "mobile" }] });
  const begun = useRef(JSON.stringify(form.value));
  const problem = useSignal("");
  const asked = useSignal(false);
  const busy = useSignal(false);
  const more = useSignal(!!(first.title || first.given2 || first.generation || first.nickname));
  const f = form.value;
  const set = (change: Partial<CardForm>) => {
    problem.value = "";
    form.value = { ...form.value, ...change };
  };
  const close = () => {
    if (JSON.stringify(form.value) !== begun.current) asked.value = true;
    else closeQuery("edit");
  };
  const save = async () => {
    const bad = f.emails.find((e) => e.text.trim() && !isAddress(e.text.trim()));
    if (bad) return void (problem.value = tn("badEmail", bad.text));
    if (![f.given, f.surname, f.organization, f.nickname, ...f.emails.map((e) => e.text), ...f.phones.map((p) => p.text)].some((x) => x.trim())) return void (problem.value = tn("empty"));
    busy.value = true;
    const done = await store(c, first, f, book?.account ?? "");
    busy.value = false;
    if (!done) return;
    if (c) closeQuery("edit");
    else goQuery({ card: done, edit: "" }, true);
  };
  const text = (key: keyof CardForm & ("given" | "surname" | "given2" | "title" | "generation" | "nickname" | "organization" | "unit" | "job"), label: ContactsText, focus = false) => (
    <label class="field"><span>{tn(label)}</span><input value={f[key]} onInput={(e) => set({ [key]: e.currentTarget.value })} autocomplete="off" autofocus={focus} /></label>
  );
  return (
    <Frame title={c ? tn("edit") : tn("newContact")} onClose={close}>
      <form class="event-form contact-form" onSubmit={(e) => { e.preventDefault(); void save(); }}>
        <div class="with-photo">
          <Photo f={f} set={set} name={`${f.given} ${f.surname}`} />
          <div class="two">{text("given", "given", !c)}{text("surname", "surname")}{text("organization", "organization")}{text("job", "job")}</div>
        </div>
        {more.value ? <div class="two">{text("title", "prefix")}{text("given2", "middle")}{text("generation", "suffix")}{text("nickname", "nickname")}{text("unit", "unit")}</div> : <button type="button" class="button start-of" onClick={() => (more.value = true)}>{tn("moreNames")}</button>}
        <Values name="emails" mode="email" contexts={["", "private", "work"]} list={f.emails} set={(emails) => set({ emails })} />
        <Values name="phones" mode="tel" contexts={["", "mobile", "private", "work"]} list={f.phones} set={(phones) => set({ phones })} />
        <Places list={f.addresses} set={(addresses) => set({ addresses })} />
        <Values name="links" mode="url" contexts={["", "private", "work"]} list={f.links} set={(links) => set({ links })} />
        <div class="two">
          <Day name="birthday" value={f.birth} set={(birth) => set({ birth })} />
          <Day name="anniversary" value={f.wedding} set={(wedding) => set({ wedding })} />
        </div>
        <label class="field"><span>{tn("notes")}</span><textarea value={f.notes} onInput={(e) => set({ notes: e.currentTarget.value })} /></label>
        {books.value.length > 1 && <label class="field"><span>{tn("bookOf")}</span><select value={f.book} onChange={(e) => set({ book: e.currentTarget.value })}>{books.value.filter((b) => b.account === book?.account && b.myRights.mayWrite).map((b) => <option key={b.id} value={b.id}>{b.name}</option>)}</select></label>}
        {problem.value && <p class="said" role="alert">{problem.value}</p>}
        {asked.value && <p class="said" role="alert">{tn("discardAsk")} <button type="button" class="button danger" onClick={() => closeQuery("edit")}>{tn("discard")}</button></p>}
        <div class="ends"><button type="button" class="button" onClick={close}>{t("cancel")}</button><button class="button primary" disabled={busy.value}>{t("save")}</button></div>
      </form>
    </Frame>
  );
}

/** Stores what was written; the key of the contact, or "" where it was not stored. */
async function store(c: Contact | undefined, before: CardForm, after: CardForm, account: string): Promise<string> {
  const patch = c ? cardDifference(before, after, c.card) : {};
  if (c && Object.keys(patch).length === 0) return c.key;
  const done = c ? ((await changeCards([{ of: c, patch }])) ?? c.key) : await createCard(account, newCard(after));
  if (typeof done !== "string") {
    tell(done);
    return "";
  }
  say(tn("saved"));
  return done;
}

function Photo({ f, set, name }: { f: CardForm; set: (change: Partial<CardForm>) => void; name: string }) {
  const choose = () => {
    const input = document.createElement("input");
    input.type = "file";
    input.accept = "image/png,image/jpeg,image/gif,image/webp";
    input.onchange = () => {
      const file = input.files?.[0];
      if (file && file.size <= largestPicture) void smallPicture(file).then((photo) => set({ photo }), () => say(t("broken")));
    };
    input.click();
  };
  return (
    <div class="photo">
      <button type="button" class="photo-button" aria-label={tn("choosePhoto")} title={tn("choosePhoto")} onClick={choose}>{f.photo ? <img src={f.photo} alt={name.trim() || tn("photo")} width={88} height={88} /> : <Icon name="image" />}</button>
      {f.photo && <button type="button" class="chip" onClick={() => set({ photo: "" })}>{tn("removePhoto")}</button>}
    </div>
  );
}

const contextName = (x: Context) => (x === "" ? tn("other") : tn(x));

function Kind({ v, contexts, set }: { v: { context: Context }; contexts: Context[]; set: (context: Context) => void }) {
  return <select aria-label={tn("kindOf")} value={v.context} onChange={(e) => set(e.currentTarget.value as Context)}>{contexts.map((x) => <option key={x} value={x}>{contextName(x)}</option>)}</select>;
}

function Values({ name, mode, contexts, list, set }: { name: "emails" | "phones" | "links"; mode: "email" | "tel" | "url"; contexts: Context[]; list: Value[]; set: (l: Value[]) => void }) {
  return (
    <fieldset class="values">
      <legend>{tn(name)}</legend>
      {list.map((v, i) => (
        <div class="value" key={i}>
          <input type="text" inputMode={mode} aria-label={tn(name)} value={v.text} autocomplete="off" onInput={(e) => set(list.map((x, n) => (n === i ? { ...x, text: e.currentTarget.value } : x)))} />
          <Kind v={v} contexts={contexts} set={(context) => set(list.map((x, n) => (n === i ? { ...x, context } : x)))} />
          <button type="button" class="tool" aria-label={tn("removeOf", v.text || tn(name))} onClick={() => set(list.filter((_, n) => n !== i))}><Icon name="close" /></button>
        </div>
      ))}
      <button type="button" class="chip" aria-label={tn("addOf", tn(name))} onClick={() => set([...list, { id: "", text: "", context: "" }])}>{tn("add")}</button>
    </fieldset>
  );
}

function Places({ list, set }: { list: Place[]; set: (l: Place[]) => void }) {
  const fields: (keyof Place & ContactsText)[] = ["street", "postcode", "locality", "region", "country"];
  return (
    <fieldset class="values">
      <legend>{tn("addresses")}</legend>
      {list.map((a, i) => (
        <div class="value place" key={i}>
          {fields.map((k) => <input key={k} class={k} aria-label={tn(k)} placeholder={tn(k)} value={a[k]} autocomplete="off" onInput={(e) => set(list.map((x, n) => (n === i ? { ...x, [k]: e.currentTarget.value } : x)))} />)}
          <Kind v={a} contexts={["", "private", "work"]} set={(context) => set(list.map((x, n) => (n === i ? { ...x, context } : x)))} />
          <button type="button" class="tool" aria-label={tn("removeOf", tn("mapOf"))} onClick={() => set(list.filter((_, n) => n !== i))}><Icon name="close" /></button>
        </div>
      ))}
      <button type="button" class="chip" aria-label={tn("addOf", tn("addresses"))} onClick={() => set([...list, { id: "", context: "private", street: "", postcode: "", locality: "", region: "", country: "" }])}>{tn("add")}</button>
    </fieldset>
  );
}

/** A day whose year may be unknown: that is shown as it is, and stays unless another day is chosen. */
function Day({ name, value, set }: { name: "birthday" | "anniversary"; value: string; set: (s: string) => void }) {
  const known = !value.startsWith("--");
  return <label class="field"><span>{tn(name)}{!known && ` (${value.slice(2)})`}</span><input type="date" value={known ? value : ""} onInput={(e) => set(e.currentTarget.value)} /></label>;
}
