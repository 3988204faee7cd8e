// Writing a message: kept as it is typed, here at once and at the server soon; sent with time to think again.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { splitBlock } from "prosemirror-commands";
import type { Id } from "../jmap/types";
import { Offline, Refused, SignedOut } from "../jmap/client";
import { identities, outgoing } from "../state/outgoing";
import { sync } from "../state/sync";
import { intend, takeBack, type Merge, type Sending } from "../state/outbox";
import { tableField } from "../state/mergetable";
import { latest } from "../state/later";
import { preferences } from "../state/prefs";
import { narrow, say, sheet, typedAhead } from "../state/screen";
import { attempt, client, home, offers, phase, session, signedOut } from "../state/session";
import { fullDate, refusal, size, t } from "../text";
import { tz } from "../text/aside";
import { tw } from "../text/format";
import { tl } from "../text/later";
import { tm } from "../text/merge";
import { closing, replaced, typedFor } from "./drafts";
import { edit, type CommandName, type Editor } from "./editor";
import { colourMenu, fontMenu, tableMenu, templateMenu } from "./format";
import { Icon, type IconName } from "./icons";
import { askTime } from "./later";
import { lazy } from "./lazy";
import type { Ready } from "./merge";
import { isAddress, Recipients } from "./recipients";
import { closers, closeWriter, factOf, forgetWriting, frontWriter, holdWriting, keepWriting, leaving, unfinished, writeAgain, type Attached, type Draft } from "./writing";

const maxSize = () => Number((session.value?.accounts[home.value]?.accountCapabilities["urn:ietf:params:jmap:mail"] as Record<string, unknown> | undefined)?.["maxSizeAttachmentsPerEmail"] ?? 50_000_000);

const Apart = lazy(() => import("./merge").then((m) => m.Apart));

const domainOf = (address: string) => address.split("@")[1] ?? "localhost";

/** A time as headers and envelopes take it: to the second. */
const toSecond = (d: Date) => d.toISOString().replace(/\.\d+Z$/u, "Z");

/** The sender of an envelope; the server holds the message until a time (RFC 4865). */
const sender = (email: string, later: Date | undefined) => ({ email, ...(later ? { parameters: { HOLDUNTIL: toSecond(later) } } : {}) });

interface Uploading {
  name: string;
  share: number;
  abort: AbortController;
}

export function Writer({ draft, at, of }: { draft: Draft; at: number; of: number }) {
  const d = useRef(draft).current;
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | undefined>(undefined);
  const files = useRef<HTMLInputElement>(null);
  const wide = useSignal(false);
  const more = useSignal(d.cc.length + d.bcc.length > 0);
  const subject = useSignal(d.subject);
  const status = useSignal("");
  const attachments = useSignal<Attached[]>(d.attachments);
  const uploads = useSignal<Uploading[]>([]);
  const dropping = useSignal(false);
  const remind = useSignal(d.remind);
  const apart = useSignal(false);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const keeping = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const saving = useRef<Promise<void>>(Promise.resolve());
  const dirty = useRef(!!d.unsaved);
  const ended = useRef(false);

  /** The message as it stands. */
  const now = (): Draft => ({ ...d, html: editor.current?.html() ?? d.html, attachments: attachments.value });

  const touched = () => {
    dirty.current = true;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void save(), 1500);
    // A burst of keys is kept once.
    keeping.current ??= setTimeout(() => {
      keeping.current = undefined;
      keepHere();
    }, 150);
  };
  const keepHere = () => {
    if (dirty.current && !ended.current) void keepWriting(now(), false);
  };

  useEffect(() => {
    const e = edit(place.current!, d.html, t("compose"), touched, (list) => void take(list, true));
    editor.current = e;
    takeTyped(e);
    const release = holdWriting(d.key);
    closers.set(d.key, () => close());
    const leave = (ev: BeforeUnloadEvent) => {
      if (dirty.current || uploads.value.length > 0) ev.preventDefault();
    };
    addEventListener("beforeunload", leave);
    addEventListener("pagehide", keepHere);
    // A draft that the server does not have all of is kept there at once, and one that it could not keep after signing in again.
    const stop = phase.subscribe((p) => {
      if (p === "in" && dirty.current) void save();
    });
    return () => {
      closers.delete(d.key);
      stop();
      removeEventListener("beforeunload", leave);
      removeEventListener("pagehide", keepHere);
      clearTimeout(keeping.current);
      keepHere();
      release();
      clearTimeout(timer.current);
      e.destroy();
    };
  }, []);

  /** Takes the words that were typed for the writer before it was there: Tab leads to the next field. The last one has the focus. */
  const takeTyped = (e: Editor) => {
    const isAsked = typedFor.delete(d);
    const words = isAsked ? typedAhead.keys.split("\t") : [""];
    if (isAsked) Object.assign(typedAhead, { keys: "", writer: false });
    const fields = [
      (w: string) => {
        const to = document.getElementById(`to-${d.key}`) as HTMLInputElement;
        to.focus();
        if (!w) return;
        to.value = w.replaceAll("\n", ",");
        to.dispatchEvent(new Event("input", { bubbles: true }));
      },
      (w: string) => {
        document.getElementById(`subject-${d.key}`)!.focus();
        if (!w) return;
        d.subject = subject.value = w.replaceAll("\n", "");
        touched();
      },
      (w: string) => {
        e.view.focus();
        // A paste of text has no blank lines.
        for (const [n, line] of w.split("\n").entries()) {
          if (n > 0) splitBlock(e.view.state, e.view.dispatch);
          if (line) e.view.dispatch(e.view.state.tr.insertText(line));
        }
      },
    ].slice(d.to.length > 0 ? 2 : 0);
    words.forEach((w, i) => fields[Math.min(i, fields.length - 1)]!(w));
  };

  /** The e-mail as Email/set takes it. */
  const email = (): Record<string, unknown> => {
    const e = editor.current!;
    const i = identities.value.find((x) => x.id === d.identity);
    const inline = attachments.value.filter((a) => a.cid && e.html().includes(`cid:${a.cid}`));
    const rest = attachments.value.filter((a) => !inline.includes(a));
    return {
      from: i ? [{ name: i.name || null, email: i.email }] : undefined, to: d.to.length > 0 ? d.to : undefined, cc: d.cc.length > 0 ? d.cc : undefined, bcc: d.bcc.length > 0 ? d.bcc : undefined,
      subject: d.subject, inReplyTo: d.inReplyTo ?? undefined, references: d.references ?? undefined,
      bodyValues: { text: { value: e.text() }, html: { value: e.html().replace(/src="[^"]*#cid:([^"]+)"/gu, 'src="cid:$1"') } },
      textBody: [{ partId: "text", type: "text/plain" }], htmlBody: [{ partId: "html", type: "text/html" }],
      attachments: [...inline, ...rest].map((a) => ({ blobId: a.blobId, type: a.type, name: a.name, disposition: inline.includes(a) ? "inline" : "attachment", ...(a.cid ? { cid: a.cid } : {}) })),
    };
  };

  /** Keeps the draft at the server: a new one in the place of the old. */
  const save = (): Promise<void> => {
    saving.current = saving.current.then(async () => {
      const { drafts } = outgoing.value;
      if (!dirty.current || ended.current || !drafts) return;
      dirty.current = false;
      status.value = t("draftSaving");
      try {
        const answer = await client.call("Email/set", {
          accountId: home.value, create: { d: { ...email(), ...tableField(d.table), messageId: [d.address], mailboxIds: { [drafts]: true }, keywords: { $draft: true, $seen: true } } }, ...(d.id ? { destroy: [d.id] } : {}),
        });
        const made = (answer["created"] as Record<string, { id: Id }> | null)?.["d"];
        if (!made) throw new Error((answer["notCreated"] as Record<string, { description?: string; type: string }>)["d"]?.description ?? "");
        if (d.id) replaced.set(d.id, made.id);
        d.id = made.id;
        status.value = t("draftSaved");
        if (!dirty.current && !ended.current) await keepWriting(now(), true);
      } catch (e) {
        dirty.current = true;
        if (e instanceof SignedOut) signedOut();
        const later = e instanceof Offline || (e instanceof Refused && e.later !== undefined);
        status.value = later || e instanceof SignedOut ? (await keepWriting(now(), false)) ? t("draftKept") : t("draftUnkept") : refusal(e);
        if (later) timer.current = setTimeout(() => void save(), Math.max(10_000, e instanceof Refused ? e.later! : 0));
      }
    });
    return saving.current;
  };

  /** Attaches files; pictures that were put into the text are shown there. */
  const take = async (list: File[], inText = false) => {
    for (const f of list) {
      const total = attachments.value.reduce((n, a) => n + a.size, 0) + f.size;
      if (total > maxSize()) {
        say(t("bigMessage", size(maxSize())));
        continue;
      }
      const up: Uploading = { name: f.name, share: 0, abort: new AbortController() };
      uploads.value = [...uploads.value, up];
      try {
        const blob = await client.upload(home.value, f, (share) => {
          up.share = share;
          uploads.value = [...uploads.value];
        }, up.abort.signal);
        const picture = inText && f.type.startsWith("image/");
        const cid = picture ? `${crypto.randomUUID()}@doublet` : undefined;
        attachments.value = [...attachments.value, { blobId: blob.blobId, name: f.name, type: f.type || blob.type, size: blob.size, ...(cid ? { cid } : {}) }];
        // The editor shows the upload; the message names the part.
        if (cid) editor.current!.image(`${client.blobURL(home.value, blob.blobId, f.type, f.name)}#cid:${cid}`, f.name);
        touched();
      } catch (e) {
        if (e instanceof SignedOut) signedOut();
        else if (!(e instanceof DOMException)) say(e instanceof Offline ? t("cannotReach") : refusal(e));
      } finally {
        uploads.value = uploads.value.filter((u) => u !== up);
      }
    }
  };

  const end = async () => {
    ended.current = true;
    clearTimeout(timer.current);
    await forgetWriting(d.key);
    closeWriter(d.key);
  };

  /** Sends the message, or has the server send it at a time. */
  const send = async (later?: Date, sure = { subject: false, files: false }): Promise<void> => {
    const all = [...d.to, ...d.cc, ...d.bcc];
    const bad = all.find((a) => !isAddress(a.email));
    if (all.length === 0) return void say(t("noRecipients"));
    if (bad) return void say(t("badAddress", bad.email));
    if (uploads.value.length > 0) return void say(t("uploading", uploads.value[0]!.name));
    const ask = (title: string, next: typeof sure) => (sheet.value = { kind: "ask", title, yes: t("send"), done: () => void send(later, next) });
    if (!d.subject && !sure.subject) return void ask(t("noSubjectAsk"), { ...sure, subject: true });
    const own = editor.current!.text().split(/^>/mu)[0]!;
    if (!sure.files && attachments.value.length === 0 && /\b(?:attach(?:ed|ment)|anbei|angehängt|anhang)|附件/iu.test(own)) return void ask(t("forgotAttachment"), { ...sure, files: true });
    const base = await given(later);
    const i = identities.value.find((x) => x.id === d.identity);
    if (!base || !i) return void say(t("cannotReach"));
    const whole = { ...base.email, messageId: [`${crypto.randomUUID()}@${domainOf(i.email)}`] };
    await give({
      ...base, kind: "send", email: whole, answered: d.answered,
      envelope: { mailFrom: sender(i.email, later), rcptTo: [...new Map(all.map((a) => [a.email.toLowerCase(), { email: a.email }])).values()] },
    }, (seconds) => (later ? tl("isScheduled", fullDate(later.toISOString())) : seconds > 0 ? t("sendUndo", seconds) : t("sending")));
  };

  /** Returns the part that all ways of sending share, once the draft is kept; undefined: the folders are not known. */
  const given = async (later?: Date) => {
    clearTimeout(timer.current);
    await saving.current;
    const { drafts, sent } = outgoing.value;
    if (!sent || !drafts) return undefined;
    const from = later ?? client.now();
    const reminder = d.remind && new Date(from.getFullYear(), from.getMonth(), from.getDate() + d.remind, 8);
    return {
      account: home.value, at: Date.now() + preferences.value.undoSeconds * 1000, identity: d.identity, drafts, sent, email: { ...email(), sentAt: toSecond(from) },
      replaces: d.id ? [d.id] : [], written: now(), ...(reminder ? { remind: toSecond(reminder) } : {}),
    };
  };

  /** Gives the message to be sent: the browser keeps that in place of what is written, so that no reload offers it again. */
  const give = async (i: Sending | Merge, words: (seconds: number) => string): Promise<void> => {
    const seconds = preferences.value.undoSeconds;
    ended.current = true;
    clearTimeout(keeping.current);
    const intention = await intend(i, undefined, { store: "facts", key: factOf(d.key) });
    await end();
    const undo = () => void takeBack(intention.key).then((was) => {
      if (!was) return;
      writeAgain(i.written as Draft);
      say(t("sendTakenBack"));
    });
    if (seconds > 0) say(words(seconds), { text: t("undo"), run: undo }, seconds);
    else say(words(0));
  };

  /** Sends a message of its own to each of several people. */
  const sendApart = async ({ columns, people }: Ready, later?: Date): Promise<void> => {
    const base = await given(later);
    const i = identities.value.find((x) => x.id === d.identity);
    if (!base || !i) return void say(t("cannotReach"));
    const each = people.map((p) => ({ ...p, messageID: `${crypto.randomUUID()}@${domainOf(i.email)}` }));
    await give({ ...base, kind: "merge", columns, people: each, envelope: { mailFrom: sender(i.email, later), rcptTo: [] }, done: 0, refused: [] }, (seconds) => (
      later ? tm("isScheduled", people.length, fullDate(later.toISOString())) : seconds > 0 ? tm("sending", people.length, seconds) : tm("sendingNow", people.length)));
  };

  const discard = async () => {
    await saving.current;
    if (d.id) {
      const id = d.id;
      await attempt(() => client.call("Email/set", { accountId: home.value, destroy: [id] }).then(sync));
    }
    await end();
    say(t("discarded"));
  };

  const close = (): Promise<void> => {
    const under = closing.get(d.key);
    if (under) return under; // a second save would end the writer of somebody who goes on with the message
    const end = saveAndEnd().finally(() => closing.delete(d.key));
    closing.set(d.key, end);
    return end;
  };

  const saveAndEnd = async () => {
    clearTimeout(timer.current);
    await save();
    if (!dirty.current) await end();
    else {
      // It stays in this browser, and is offered.
      unfinished.value = [...unfinished.value.filter((k) => k.draft.key !== d.key), { draft: now(), account: home.value, at: Date.now(), saved: false }];
      closeWriter(d.key);
    }
    void sync();
  };

  const tool = (icon: IconName, text: string, run: () => void) => (
    <button type="button" class="tool" aria-label={text} title={text} onMouseDown={(e) => e.preventDefault()} onClick={run}><Icon name={icon} /></button>
  );
  const menuTool = (icon: IconName, text: string, run: (at: Element) => void) => (
    <button type="button" class="tool" aria-label={text} title={text} aria-haspopup="menu" onMouseDown={(e) => e.preventDefault()} onClick={(e) => run(e.currentTarget)}><Icon name={icon} /></button>
  );
  const setReminder = (days: number | undefined) => {
    if (days === undefined) delete d.remind;
    else d.remind = days;
    remind.value = days;
    touched();
  };
  const askReminder = (button: Element) => void import("./aside").then((m) => m.askReminder(button, setReminder));
  const format = (icon: IconName & CommandName, text: string) => tool(icon, text, () => editor.current?.run(icon));
  return (
    <>
    <section
      class={`writer ${wide.value || narrow.value ? "wide" : ""} ${dropping.value ? "dropping" : ""} ${frontWriter.value === d.key ? "front" : ""}`} role="dialog"
      ref={(e: HTMLElement | null) => { e?.style.setProperty("--at", String(at)); e?.style.setProperty("--beside", String(Math.max(1, of - 1))); }} onFocusCapture={() => (frontWriter.value = d.key)} onPointerDownCapture={() => (frontWriter.value = d.key)} hidden={leaving.value.has(d.key)} aria-label={d.subject || t("compose")} data-drop={t("dropHere")}
      onDragOver={(e) => { if (e.dataTransfer?.types.includes("Files")) { e.preventDefault(); dropping.value = true; } }}
      onDragLeave={(e) => { if (e.target === e.currentTarget) dropping.value = false; }}
      onDrop={(e) => { e.preventDefault(); dropping.value = false; void take([...(e.dataTransfer?.files ?? [])]); }}
      onKeyDown={(e) => {
        if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); void send(); }
        if (e.key === "Escape") { e.stopPropagation(); void close(); }
      }}
    >
      <div class="bar">
        <h2>{t("compose")}</h2>
        {!narrow.value && tool(wide.value ? "shrink" : "expand", t("expand"), () => (wide.value = !wide.value))}
        {tool("close", t("close"), () => void close())}
      </div>
      <div class="fields">
        {identities.value.length > 1 && (
          <div class="line"><label for={`from-${d.key}`}>{t("from")}</label>
            <select id={`from-${d.key}`} value={d.identity} onChange={(e) => { d.identity = e.currentTarget.value; touched(); }}>
              {identities.value.map((i) => <option value={i.id}>{i.name ? `${i.name} <${i.email}>` : i.email}</option>)}
            </select>
          </div>
        )}
        <Recipients id={`to-${d.key}`} label={t("to")} list={d.to} set={(l) => { d.to = l; touched(); }} extra={!more.value && <button type="button" class="chip" onClick={() => (more.value = true)}>{t("cc")} {t("bcc")}</button>} />
        {more.value && <Recipients id={`cc-${d.key}`} label={t("cc")} list={d.cc} set={(l) => { d.cc = l; touched(); }} />}
        {more.value && <Recipients id={`bcc-${d.key}`} label={t("bcc")} list={d.bcc} set={(l) => { d.bcc = l; touched(); }} />}
        <div class="line subject"><label for={`subject-${d.key}`}>{t("subject")}</label><input id={`subject-${d.key}`} dir="auto" value={subject.value} onInput={(e) => { d.subject = subject.value = e.currentTarget.value; touched(); }} /></div>
      </div>
      <div class="editor" ref={place} onClick={(e) => { if (e.target === e.currentTarget) editor.current?.view.focus(); }} />
      {(attachments.value.length > 0 || uploads.value.length > 0) && (
        <ul class="files">
          {attachments.value.map((a) => (
            <li class="file"><Icon name={a.cid ? "image" : "attach"} /><span class="name">{a.name}</span><span class="quiet">{size(a.size)}</span>
              <button type="button" class="tool" aria-label={t("removeAttachment", a.name)} onClick={() => { attachments.value = attachments.value.filter((x) => x !== a); touched(); }}><Icon name="close" /></button></li>
          ))}
          {uploads.value.map((u) => (
            <li class="file"><span class="name">{u.name}</span><progress value={u.share} aria-label={t("uploading", u.name)} />
              <button type="button" class="tool" aria-label={t("cancel")} onClick={() => u.abort.abort()}><Icon name="close" /></button></li>
          ))}
        </ul>
      )}
      {remind.value && <p class="reminder"><span class="chip">{tz("remindsAfter", String(remind.value))}<button type="button" class="tool" aria-label={tz("removeReminder")} onClick={() => setReminder(undefined)}><Icon name="close" /></button></span></p>}
      <footer>
        <button class="button primary" onClick={() => void send()} title="Ctrl+Enter"><Icon name="send" />{t("send")}</button>
        {latest() && <button type="button" class="tool" aria-label={tl("later")} title={tl("later")} aria-haspopup="menu" onClick={(e) => { const button = e.currentTarget; askTime(button, send, offers("urn:doublet:jmap:snooze") ? [{ text: tz("remind"), icon: "clock", run: () => askReminder(button) }] : []); }}><Icon name="clock" /></button>}
        {tool("shared", tm("apart"), () => { if (uploads.value.length > 0) say(t("uploading", uploads.value[0]!.name)); else apart.value = true; })}
        {tool("attach", t("attach"), () => files.current?.click())}
        {format("bold", t("bold"))}{format("italic", t("italic"))}{format("underline", t("underline"))}
        {menuTool("font", tw("font"), (at) => fontMenu(at, editor.current!))}{menuTool("colour", tw("colour"), (at) => colourMenu(at, editor.current!))}
        {menuTool("template", tw("templates"), (at) => templateMenu(at, editor.current!, () => d.subject, (s) => { d.subject = s; subject.value = s; touched(); }))}
        {!narrow.value && <>{format("list", t("bulletList"))}{format("numbers", t("numberedList"))}{format("quote", t("quote"))}{menuTool("table", tw("table"), (at) => tableMenu(at, editor.current!))}{format("clear", t("clearFormat"))}
          {tool("link", t("link"), () => (sheet.value = { kind: "ask", title: t("link"), text: t("linkAsk"), yes: t("ok"), input: "https://", done: (href) => typeof href === "string" && /^(?:https?:|mailto:)/iu.test(href) && editor.current?.link(href) }))}</>}
        {tool("trash", t("discard"), () => void discard())}
        <span class="quiet" role="status">{status.value}</span>
        <input ref={files} type="file" multiple hidden onChange={(e) => { void take([...(e.currentTarget.files ?? [])]); e.currentTarget.value = ""; }} />
      </footer>
    </section>
    {apart.value && <Apart draft={now()} email={email()} keep={(table) => { d.table = table; touched(); }} close={() => (apart.value = false)} send={(r, later) => { apart.value = false; return sendApart(r, later); }} />}
    </>
  );
}
