import { lazy, Suspense } from "./lazy";
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { nameOrAddress } from "../state/shown";
import { telling } from "../state/all";
import { show } from "../state/list";
import { byRole } from "../state/mailboxes";
import { place } from "../state/place";
import { onArrival } from "../state/sync";
import { busy, refusals, waiting } from "../state/outbox";
import { storageDenied } from "../state/db";
import { preferences } from "../state/prefs";
import { menu, narrow, openMenu, reading, say, selected, sheet, sideOpen, typedAhead } from "../state/screen";
import { client, clockOff, online, outdated, person, server, takenOver } from "../state/session";
import { count, language, t } from "../text";
import { Menu, Toasts } from "./above";
import { onKey } from "./commands";
import { leave } from "./leave";
import { Domino, DominoFace, Icon } from "./icons";
import { List } from "./list";
import { open, Reader } from "./reader";
import { Sheets } from "./sheets";
import { Side } from "./side";
import { mailto, write, writeAgain, writers, type Draft } from "./writing";

const Suggest = lazy(() => import("./suggest").then((m) => m.Suggest));
const Writer = lazy(() => import("./writer").then((m) => m.Writer));

export function Shell() {
  useEffect(begin, []);
  useEffect(() => {
    const unread = byRole("inbox")?.unreadEmails ?? 0;
    document.title = unread > 0 ? `(${unread}) ${t("appName")}` : t("appName");
  });
  useEffect(() => {
    if (place.value.mailbox) void show(place.value);
  }, [place.value.mailbox === ""]);
  useEffect(() => {
    for (const { intention, text } of refusals.value) {
      say(t("refusedByServer", text), undefined, 12);
      if (intention.kind === "send" && intention.written) writeAgain(intention.written as Draft);
    }
    if (refusals.value.length > 0) refusals.value = [];
  }, [refusals.value]);
  useEffect(() => {
    const x = takenOver.value;
    if (x) say(t("wentOn", x.from, x.to), undefined, 12);
    takenOver.value = null;
  }, [takenOver.value]);
  return (
    <div class="frame" data-pane={reading.value && narrow.value ? "read" : "list"}>
      <header class="top">
        <div class="brand"><DominoFace a={6} b={6} hue={168} size={34} /><span>{t("appName")}</span></div>
        <Search />
        <span class="grow" />
        <Banner />
        <button class="tool only-wide" aria-label={t("help")} title={t("help")} onClick={() => (sheet.value = { kind: "help" })}><Icon name="keyboard" /></button>
        <button class="tool only-wide" aria-label={t("settings")} title={t("settings")} onClick={() => (sheet.value = { kind: "settings" })}><Icon name="settings" /></button>
        <button class="tool" aria-label={`${t("account")}: ${person.value.name}`} title={person.value.name} onClick={(e) => openMenu(e.currentTarget, [
          { text: t("settings"), icon: "settings", run: () => (sheet.value = { kind: "settings" }) },
          ...(person.value.admin ? [{ text: t("administration"), icon: "overview", run: () => location.assign("/admin/") }] : []),
          { text: t("secondFactor"), icon: "settings", run: () => location.assign("/auth/") },
          { text: t("signOut"), icon: "out", run: () => void leave() },
        ])}><Domino of={person.value.address || person.value.name} name={person.value.name} size={34} /></button>
      </header>
      {sideOpen.value && <button class="veil" aria-label={t("close")} onClick={() => (sideOpen.value = false)} />}
      <Side />
      <List />
      <Reader />
      {!(narrow.value && reading.value) && <button class="button primary float" aria-label={t("compose")} onClick={() => void write({ kind: "new" })}><Icon name="write" /></button>}
      {writers.value.length > 0 && <Suspense>{writers.value.map((d, i) => <Writer key={d.key} draft={d} at={i} of={writers.value.length} />)}</Suspense>}
      <Sheets />
      <Menu />
      <Toasts><Telling /></Toasts>
    </div>
  );
}

/** How far the server is with changes of many e-mails. */
function Telling() {
  const now = telling.value;
  return now && <div class="toast telling"><span>{t("doneOf", count(now.done), count(now.of))}</span><progress value={now.done} max={now.of} aria-hidden="true" /></div>;
}

/** For how long a server may not answer before another is offered, in milliseconds. */
const patience = 8000;

/** What is not as usual, one thing at a time: the one that matters most. */
function Banner() {
  const long = useSignal(false);
  useEffect(() => {
    long.value = false;
    if (online.value) return undefined;
    const timer = setTimeout(() => (long.value = true), patience);
    return () => clearTimeout(timer);
  }, [online.value]);
  if (outdated.value) return <span class="banner" role="status">{t("newVersion")}<button class="button" onClick={() => location.reload()}>{t("reload")}</button></span>;
  const elsewhere = server.value.mates.filter((m) => m.url);
  // Where each server has a name of its own the person goes to another by hand: this page works with the one it came from.
  if (!online.value && long.value && elsewhere.length > 0) return <span class="banner" role="status"><Icon name="offline" />{t("mateAt", server.value.name)}{elsewhere.map((m) => <a class="button" href={m.url ?? ""}>{m.name}</a>)}</span>;
  // More than that nobody answers it matters that the page may not be closed.
  if (!online.value && storageDenied.value) return <span class="banner" role="status"><Icon name="offline" />{waiting.value.length > 0 ? t("waitingHere", waiting.value.length) : t("offlineUnkept")}</span>;
  if (!online.value) return <span class="banner" role="status"><Icon name="offline" />{narrow.value ? t("offlineShort") : waiting.value.length > 0 ? t("waiting", waiting.value.length) : t("offline")}</span>;
  if (busy.value && waiting.value.length > 0) return <span class="banner" role="status">{t("waitingBusy", waiting.value.length)}</span>;
  if (storageDenied.value) return <span class="banner" role="status">{waiting.value.length > 0 ? t("waitingHere", waiting.value.length) : t("storageDenied")}</span>;
  if (clockOff.value !== 0) return <span class="banner" role="status">{t("clockOff", client.now().toLocaleTimeString(language.value, { hour: "2-digit", minute: "2-digit" }))}</span>;
  return null;
}

function Search() {
  const input = useRef<HTMLInputElement>(null);
  const focus = useSignal(false);
  const text = useSignal("");
  const keys = useRef<((e: KeyboardEvent) => boolean) | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  // The search that the box asked for: while it is shown, the box is the person's to type in.
  const asked = useRef("");
  const go = (words: string) => {
    clearTimeout(timer.current);
    asked.current = words.trim();
    reading.value = null;
    selected.value = new Set();
    void show({ mailbox: place.value.mailbox, search: asked.current });
  };
  const done = () => {
    go(input.current!.value);
    focus.value = false;
    const made = input.current!.value.trim();
    if (made) void import("../state/recent").then((m) => m.remember(made));
  };
  useEffect(() => {
    const { search } = place.value;
    if (!input.current || (document.activeElement === input.current && search === asked.current)) return;
    clearTimeout(timer.current);
    input.current.value = text.value = asked.current = search;
  }, [place.value]);
  return (
    <form class="search" role="search" onSubmit={(e) => { e.preventDefault(); done(); }}>
      <Icon name="search" />
      <input
        ref={input} id="search" type="search" {...({ role: "combobox" } as object)} aria-expanded="false" aria-autocomplete="list" aria-controls="suggestions" aria-label={t("search")} placeholder={narrow.value ? t("search") : t("searchHint")} autocomplete="off" spellcheck={false}
        onFocus={(e) => { text.value = e.currentTarget.value; focus.value = true; }} onBlur={() => (focus.value = false)}
        onInput={(e) => {
          const words = text.value = e.currentTarget.value;
          focus.value = true;
          clearTimeout(timer.current);
          timer.current = setTimeout(() => go(words), 250);
        }}
        onKeyDown={(e) => {
          if (focus.value && keys.current?.(e)) return e.preventDefault();
          if (e.key !== "Escape") return;
          e.currentTarget.value = "";
          go("");
          e.currentTarget.blur();
        }}
      />
      {focus.value && <Suspense><Suggest text={text.value} keys={keys} choose={(words) => {
        input.current!.value = text.value = words.endsWith(":") ? words : `${words} `;
        if (words.endsWith(":")) go(words);
        else done();
      }} /></Suspense>}
    </form>
  );
}

/** Keeps a key for the palette, which is asked for and not there yet. */
function typeAhead(e: KeyboardEvent): boolean {
  if (sheet.value?.kind !== "palette" || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return false;
  if (e.key === "Backspace") typedAhead.keys = typedAhead.keys.slice(0, -1);
  else if (e.key === "Escape") sheet.value = null;
  else if (e.key.length === 1 || e.key === "Enter") typedAhead.keys += e.key === "Enter" ? "\n" : e.key;
  else return false;
  return true;
}

function pressed(e: KeyboardEvent): void {
  if (typeAhead(e)) return e.preventDefault();
  if (!e.defaultPrevented && !sheet.value && !menu.value && onKey(e)) e.preventDefault();
}

function begin(): () => void {
  addEventListener("keydown", pressed);
  // What the browser does not keep goes with the page: leaving is asked about while something waits.
  const leave = (e: BeforeUnloadEvent) => {
    if (storageDenied.value && waiting.value.length > 0) e.preventDefault();
  };
  addEventListener("beforeunload", leave);
  // Such a browser has no room for parts of the client either: the writer is loaded while the server answers.
  const ahead = storageDenied.subscribe((is) => {
    if (is) void import("./writer").catch(() => undefined);
  });
  onArrival((mail) => {
    if (!preferences.value.notify || typeof Notification === "undefined" || Notification.permission !== "granted" || document.hasFocus()) return;
    const first = mail[0]!;
    const from = first.from?.[0];
    const n = new Notification(t("newMailFrom", from ? nameOrAddress(from) : t("unknownSender")), { body: first.subject ?? "", tag: "mail" });
    n.onclick = () => {
      focus();
      void open(first.id);
    };
  });
  const asked = mailto(new URLSearchParams(location.search).get("mailto") ?? "");
  if (asked) {
    history.replaceState(null, "", "/");
    void write(asked);
  }
  return () => {
    removeEventListener("keydown", pressed);
    removeEventListener("beforeunload", leave);
    ahead();
  };
}
