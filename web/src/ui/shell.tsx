import { lazy, Suspense } from "./lazy";
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { nameOrAddress } from "../state/shown";
import { archive, junk, remove, toggle } from "../state/actions";
import { byRole, list, onArrival, place, show } from "../state/mail";
import { busy, refusals, waiting } from "../state/outbox";
import { operators } from "../state/search";
import { storageDenied } from "../state/db";
import { preferences } from "../state/prefs";
import { cursor, menu, narrow, openMenu, reading, say, selected, sheet, sideOpen, toasts } from "../state/screen";
import { client, clockOff, online, outdated, person, server, takenOver } from "../state/session";
import { language, t } from "../text";
import { Menu, Toasts } from "./above";
import { leave } from "./leave";
import { Domino, DominoFace, Icon } from "./icons";
import { List } from "./list";
import { open, Reader, step } from "./reader";
import { Sheets } from "./sheets";
import { Side } from "./side";
import { mailto, write, writeAgain, writers, type Draft } from "./writing";

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
        ])}><Domino of={person.value.address || person.value.name} size={34} /></button>
      </header>
      {sideOpen.value && <button class="veil" aria-label={t("close")} onClick={() => (sideOpen.value = false)} />}
      <Side />
      <List />
      <Reader />
      {!(narrow.value && reading.value) && <button class="button primary float" aria-label={t("compose")} onClick={() => void write({ kind: "new" })}><Icon name="write" /></button>}
      {writers.value.length > 0 && <Suspense>{writers.value.map((d) => <Writer key={d.key} draft={d} />)}</Suspense>}
      <Sheets />
      <Menu />
      <Toasts />
    </div>
  );
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
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const go = (text: string) => {
    clearTimeout(timer.current);
    reading.value = null;
    selected.value = new Set();
    void show({ mailbox: place.value.mailbox, search: text.trim() });
  };
  useEffect(() => {
    if (input.current && place.value.search === "" && document.activeElement !== input.current) input.current.value = "";
  }, [place.value]);
  return (
    <form class="search" role="search" onSubmit={(e) => { e.preventDefault(); go(input.current!.value); }}>
      <Icon name="search" />
      <input
        ref={input} id="search" type="search" aria-label={t("search")} placeholder={narrow.value ? t("search") : t("searchHint")} autocomplete="off" spellcheck={false}
        onFocus={() => (focus.value = true)} onBlur={() => setTimeout(() => (focus.value = false), 150)}
        onInput={(e) => {
          const text = e.currentTarget.value;
          clearTimeout(timer.current);
          timer.current = setTimeout(() => go(text), 250);
        }}
        onKeyDown={(e) => {
          if (e.key !== "Escape") return;
          e.currentTarget.value = "";
          go("");
          e.currentTarget.blur();
        }}
      />
      {focus.value && !narrow.value && place.value.search === "" && (
        <div class="search-help">
          {operators.map((o) => (
            <button type="button" class="chip" onMouseDown={(e) => {
              e.preventDefault();
              const i = input.current!;
              i.value = `${i.value.trimEnd()}${i.value.trim() ? " " : ""}${o}`;
              if (!o.endsWith(":")) go(i.value);
            }}>{o}</button>
          ))}
        </div>
      )}
    </form>
  );
}

/** The keys, with what they do; the help sheet shows the same list. */
export const keys: [string, () => string, (() => void)?][] = [
  ["j", () => t("keyNext"), () => step(1)],
  ["k", () => t("keyPrevious"), () => step(-1)],
  ["Enter", () => t("keyOpen")],
  ["u", () => t("keyBack"), () => (reading.value = null)],
  ["x", () => t("keySelect")],
  ["e", () => t("archiveIt"), () => void archive()],
  ["#", () => t("delete"), () => void remove()],
  ["!", () => t("junkIt"), () => void junk()],
  ["s", () => t("flag"), () => void toggle("$flagged")],
  ["U", () => `${t("markRead")} / ${t("markUnread")}`, () => void toggle("$seen")],
  ["r", () => t("reply"), () => answer("reply")],
  ["a", () => t("replyAll"), () => answer("replyAll")],
  ["f", () => t("forward"), () => answer("forward")],
  ["c", () => t("compose"), () => void write({ kind: "new" })],
  ["/", () => t("keySearch"), () => document.getElementById("search")?.focus()],
  ["g i", () => t("keyGoInbox")],
  ["z", () => t("keyUndo"), () => toasts.value.findLast((x) => x.action)?.action!.run()],
  ["?", () => t("help"), () => (sheet.value = { kind: "help" })],
];

function answer(kind: "reply" | "replyAll" | "forward"): void {
  const id = reading.value ?? list.value.ids[cursor.value];
  if (id) void write({ kind, id });
}

let before = "";

function onKey(e: KeyboardEvent): void {
  const target = e.target as HTMLElement;
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || sheet.value || menu.value) return;
  if (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/u.test(target.tagName) && (target as HTMLInputElement).type !== "checkbox") return;
  const two = before === "g" ? `g ${e.key}` : "";
  before = e.key;
  const at = list.value.ids[cursor.value];
  switch (two || e.key) {
    case "g i": {
      const inbox = byRole("inbox");
      if (inbox) void show({ mailbox: inbox.id, search: "" });
      break;
    }
    case "ArrowDown": if (target.closest(".reader")) return; cursor.value = Math.min(list.value.total - 1, cursor.value + 1); break;
    case "End": if (target.closest(".reader")) return; cursor.value = Math.max(0, list.value.total - 1); break;
    case "Home": if (target.closest(".reader")) return; cursor.value = 0; break;
    case "ArrowUp": if (target.closest(".reader")) return; cursor.value = Math.max(0, cursor.value - 1); break;
    case "Enter":
      if (target.closest("button,a")) return;
      if (at) void open(at);
      break;
    case "Delete": void remove(); break;
    case "Escape": selected.value = new Set(); reading.value = null; break;
    case "x":
      if (at) {
        const next = new Set(selected.value);
        if (!next.delete(at)) next.add(at);
        selected.value = next;
      }
      break;
    default: {
      const found = keys.find(([k]) => k === e.key)?.[2];
      if (!found) return;
      found();
    }
  }
  e.preventDefault();
}

function begin(): () => void {
  addEventListener("keydown", onKey);
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
    removeEventListener("keydown", onKey);
    removeEventListener("beforeunload", leave);
    ahead();
  };
}
