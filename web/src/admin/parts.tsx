// The parts of the pages of administration: lists that the server searches, fields, panels.

import { signal, useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Offline, SignedOut } from "../jmap/client";
import { say, sheet, sideOpen } from "../state/screen";
import { Icon, type IconName } from "../ui/icons";
import { t } from "../text";
import { ta } from "./text";
import { Refusal, run } from "./verbs";

/** The current page, and the entry that is open on it. */
export const where = signal<{ page: string; item: string }>({ page: "overview", item: "" });

function read(): void {
  const [page = "", item = ""] = location.hash.replace(/^#\/?/u, "").split("/", 2);
  let name = "";
  try {
    name = decodeURIComponent(item);
  } catch {
    // an address that somebody broke leads to the page alone
  }
  where.value = { page: page || "overview", item: name };
}
read();
addEventListener("hashchange", read);

/** Goes to a page, and opens something there. */
export function go(page: string, item = ""): void {
  location.hash = item ? `#/${page}/${encodeURIComponent(item)}` : `#/${page}`;
}

/** Closes what is open, unless somebody has gone on meanwhile: what is done in the background leads nobody away. */
export function leave(page: string, item: string): void {
  const at = location.hash;
  if (at === `#/${page}/${encodeURIComponent(item)}`) go(page);
}

/** Shows the reason of a refusal. */
export function tell(e: unknown): void {
  if (e instanceof SignedOut) return;
  say(e instanceof Offline ? ta("offline") : ta("refused", e instanceof Error ? e.message : String(e)), undefined, 10);
}

/** Does work, and says what came of it; true when it was done. */
export async function doing(work: () => Promise<unknown>, said?: string, undo?: { text: string; run: () => void }): Promise<boolean> {
  try {
    await work();
    if (said) say(said, undo);
    return true;
  } catch (e) {
    tell(e);
    return false;
  }
}

/** Asks before something that cannot be undone, in plain words. */
export function ask(title: string, text: string, yes: string, done: () => void): void {
  sheet.value = { kind: "ask", title, text, yes, danger: true, done };
}

export interface Pages<T> {
  items: Signal<T[]>;
  state: Signal<"loading" | "ready" | "failed">;
  rest: Signal<boolean>;
  more: () => void;
  reload: () => void;
}

const pageSize = 50;

/**
 * A list that the server pages and searches. args may read signals: when they change the list begins anew. The server
 * goes on behind the last item where after says how that is called; else a longer list is asked for.
 */
export function usePages<T>(verb: string, args: () => object, after?: (last: T) => string): Pages<T> {
  const items = useSignal<T[]>([]);
  const state = useSignal<"loading" | "ready" | "failed">("loading");
  const rest = useSignal(false);
  const turn = useRef(0);
  const key = JSON.stringify(args());
  const load = async (behind: T[]) => {
    const mine = ++turn.current;
    state.value = "loading";
    const last = behind.at(-1);
    const limit = after ? pageSize + 1 : behind.length + pageSize + 1;
    try {
      const page = await run<T[]>(verb, { ...args(), limit, ...(after && last ? { after: after(last) } : {}) });
      if (mine !== turn.current) return;
      rest.value = page.length === limit;
      if (rest.value) page.pop();
      items.value = after ? [...behind, ...page] : page;
      state.value = "ready";
    } catch (e) {
      if (mine !== turn.current) return;
      state.value = "failed";
      if (!(e instanceof Refusal && e.kind === "not found")) tell(e);
      else items.value = [];
    }
  };
  useEffect(() => void load([]), [key, verb]);
  return {
    items, state, rest,
    more: () => void load(items.value),
    reload: () => void load([]),
  };
}

/** The value of a verb, read again every so many seconds while the page is looked at. */
export function useLive<T>(verb: string, args: () => object, seconds: number): { value: Signal<T | null>; error: Signal<Refusal | null>; reload: () => void } {
  const value = useSignal<T | null>(null);
  const error = useSignal<Refusal | null>(null);
  const key = JSON.stringify(args());
  const read = useRef<() => void>(() => undefined);
  useEffect(() => {
    let over = false;
    let last = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const turn = async () => {
      const mine = ++last; // an answer that a later turn did not wait for is of before
      clearTimeout(timer);
      try {
        const got = await run<T>(verb, args());
        if (over || mine !== last) return;
        value.value = got;
        error.value = null;
      } catch (e) {
        if (over || mine !== last) return;
        if (e instanceof Refusal) error.value = e;
      }
      if (seconds > 0) timer = setTimeout(() => void (document.hidden ? (timer = setTimeout(() => void turn(), 1000)) : turn()), seconds * 1000);
    };
    read.current = () => void turn();
    void turn();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key, verb, seconds]);
  return { value, error, reload: () => read.current() };
}

/** The head of a pane. */
export function Head({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="bar">
      <button class="tool only-narrow" aria-label={t("menu")} onClick={() => (sideOpen.value = true)}><Icon name="menu" /></button>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** A search field that asks the server while one types. */
export function Find({ text, hint }: { text: Signal<string>; hint: string }) {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  return (
    <label class="find">
      <Icon name="search" />
      <span class="visually-hidden">{hint}</span>
      <input type="search" data-find placeholder={hint} autocomplete="off" spellcheck={false} value={text.value}
        onInput={(e) => {
          const v = e.currentTarget.value;
          clearTimeout(timer.current);
          timer.current = setTimeout(() => (text.value = v), 200);
        }} />
    </label>
  );
}

export function Empty({ icon, title, text, children }: { icon: IconName; title: string; text?: string; children?: ComponentChildren }) {
  return <div class="nothing"><Icon name={icon} /><h3>{title}</h3>{text && <p>{text}</p>}{children}</div>;
}

/** A list of lines, each a button that opens what it names. */
export function Lines<T>({ pages, of, line, open, selected, empty, label }: {
  pages: Pages<T>; of: (x: T) => string; line: (x: T) => ComponentChildren; open: (x: T) => void; selected: string; empty: ComponentChildren; label: string;
}) {
  const list = pages.items.value;
  const box = useRef<HTMLUListElement>(null);
  return (
    <div class="lines-box" aria-busy={pages.state.value === "loading"}>
      {list.length === 0 && pages.state.value !== "loading" && empty}
      {list.length === 0 && pages.state.value === "loading" && <Ghosts />}
      <ul class="lines" ref={box} aria-label={label} onKeyDown={(e) => {
        const step = e.key === "ArrowDown" || e.key === "j" ? 1 : e.key === "ArrowUp" || e.key === "k" ? -1 : 0;
        if (step === 0) return;
        const all = [...box.current!.querySelectorAll<HTMLButtonElement>("button.line")];
        all[all.indexOf(document.activeElement as HTMLButtonElement) + step]?.focus();
        e.preventDefault();
      }}>
        {list.map((x) => (
          <li key={of(x)}><button class="line" aria-current={selected === of(x)} onClick={() => open(x)}>{line(x)}</button></li>
        ))}
      </ul>
      {pages.rest.value && <button class="button wide-button" disabled={pages.state.value === "loading"} onClick={pages.more}>{ta("more")}</button>}
    </div>
  );
}

export function Ghosts() {
  return <div class="ghosts" aria-hidden="true">{[60, 44, 72, 52, 66].map((w) => <div><span class="ghost" ref={(e: HTMLSpanElement | null) => { if (e) e.style.width = `${w}%`; }} /></div>)}</div>;
}

/** The two panes of a page: the list, and what is open of it. */
export function Two({ title, children, detail, onClose, label }: { title: ComponentChildren; children: ComponentChildren; detail: ComponentChildren | null; onClose: () => void; label: string }) {
  return (
    <div class="two-panes" data-open={detail !== null}>
      <section class="pane first" aria-label={label}>{title}{children}</section>
      <section class="pane second" aria-label={ta("details")} onKeyDown={(e) => { if (e.key === "Escape" && !sheet.value) onClose(); }}>{detail ?? <div class="empty quiet-pane"><Icon name="read" /></div>}</section>
    </div>
  );
}

/** The head of what is open. */
export function Opened({ title, sub, face, onClose, children }: { title: string; sub?: ComponentChildren; face?: ComponentChildren; onClose: () => void; children?: ComponentChildren }) {
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (matchMedia("(max-width: 900px)").matches) head.current?.focus();
  }, [title]);
  return (
    <header class="opened">
      <button class="tool only-small" aria-label={ta("back")} onClick={onClose}><Icon name="back" /></button>
      {face}
      <div><h1 tabIndex={-1} ref={head}>{title}</h1>{sub && <p class="quiet">{sub}</p>}</div>
      <span class="grow" />
      {children}
    </header>
  );
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }) {
  return <label class="field"><span>{label}</span>{children}{hint && <small>{hint}</small>}</label>;
}

/** A text field of a form that is kept in a signal. */
export function Text({ label, value, hint, ...rest }: { label: string; value: Signal<string>; hint?: string; required?: boolean; type?: "text" | "password"; autofocus?: boolean; autocomplete?: string; inputMode?: "email" | "text" | "numeric"; placeholder?: string; name?: string; minLength?: number }) {
  const props = { ...rest, value: value.value, spellcheck: false, onInput: (e: { currentTarget: HTMLInputElement }) => (value.value = e.currentTarget.value) };
  return <Field label={label} {...(hint ? { hint } : {})}><input {...(props as object)} /></Field>;
}

export function Area({ label, value, hint, rows = 3 }: { label: string; value: Signal<string>; hint?: string; rows?: number }) {
  return <Field label={label} {...(hint ? { hint } : {})}><textarea rows={rows} value={value.value} onInput={(e) => (value.value = e.currentTarget.value)} spellcheck={false} /></Field>;
}

/** The ends of a form. */
export function Ends({ yes, busy, onCancel }: { yes: string; busy?: boolean; onCancel?: () => void }) {
  return (
    <div class="ends">
      {onCancel && <button type="button" class="button" onClick={onCancel}>{ta("cancel")}</button>}
      <button class="button primary" disabled={busy}>{yes}</button>
    </div>
  );
}

export function Badge({ kind, children }: { kind: "good" | "warn" | "bad" | "plain"; children: ComponentChildren }) {
  return <span class={`badge ${kind}`}>{children}</span>;
}

export const linesOf = (text: string) => text.split(/[\n,;]/u).map((s) => s.trim()).filter(Boolean);

/** A password of four syllable groups that can be read out: 8 consonants of 16, 8 vowels of 4 and two digits are more than 50 bits. */
export function makePassword(): string {
  const consonants = "bdfghjkmnprstvwz";
  const vowels = "aeiu";
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  let out = "";
  bytes.forEach((b, i) => {
    out += i % 2 === 0 ? consonants[b & 15] : vowels[b & 3];
    if (i % 4 === 3 && i < 15) out += "-";
  });
  return `${out}${crypto.getRandomValues(new Uint8Array(1))[0]! % 90 + 10}`;
}

/** A size as people type it, for fields. */
export function sizeText(bytes: number | undefined): string {
  if (!bytes) return "";
  for (const [unit, n] of [["TB", 2 ** 40], ["GB", 2 ** 30], ["MB", 2 ** 20], ["KB", 2 ** 10]] as const) if (bytes >= n) return `${Math.round((bytes / n) * 10) / 10} ${unit}`;
  return `${bytes} B`;
}
