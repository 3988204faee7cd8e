import { lazy } from "./lazy";
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { nameOrAddress } from "../state/shown";
import { telling } from "../state/all";
import { firstList, show } from "../state/list";
import { byRole } from "../state/mailboxes";
import { place } from "../state/place";
import { onArrival } from "../state/sync";
import { refusals, waiting, type Merge } from "../state/outbox";
import { apart } from "../state/tell";
import { storageDenied } from "../state/db";
import { preferences } from "../state/prefs";
import { menu, narrow, reading, say, selected, sheet, sideOpen, typedAhead } from "../state/screen";
import { account, home, setBadge, takenOver } from "../state/session";
import { count, t } from "../text";
import { Menu, Toasts } from "./above";
import { onKey } from "./commands";
import { Icon } from "./icons";
import { List } from "./list";
import { open } from "./opened";
import { Reader } from "./reader";
import { Sheets } from "./sheets";
import { Side } from "./side";
import { Switch, Top } from "./top";
import { write, writeAgain, writers, type Draft } from "./writing";

const Border = lazy(() => firstList.then(() => import("./panes")).then((m) => m.Border));
const Suggest = lazy(() => import("./suggest").then((m) => m.Suggest));
const Writer = lazy(() => import("./writer").then((m) => m.Writer));

export function Shell() {
  useEffect(begin, []);
  useEffect(() => {
    if (place.value.mailbox) void show(place.value);
  }, [place.value.mailbox === ""]);
  useEffect(() => {
    for (const { intention, text } of refusals.value) {
      if (intention.kind === "merge") {
        void sayRefused(intention);
        continue;
      }
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
      <Unread />
      <Top page="mail"><Search /></Top>
      {sideOpen.value && <button class="veil" aria-label={t("close")} onClick={() => (sideOpen.value = false)} />}
      <Side />
      <List />
      <Reader />
      {!narrow.value && <><Border of="side" /><Border of="list" /></>}
      {!(narrow.value && reading.value) && <button class="button primary float" aria-label={t("compose")} onClick={() => void write({ kind: "new" })}><Icon name="write" /></button>}
      {writers.value.map((d, i) => <Writer key={d.key} draft={d} at={i} of={writers.value.length} />)}
      {narrow.value && !reading.value && <Switch page="mail" />}
      <Sheets />
      <Menu />
      <Toasts><Telling /></Toasts>
    </div>
  );
}

/** Opens the writer again for those of several people whose message was refused. */
async function sayRefused(i: Merge): Promise<void> {
  const [{ refusedPart }, { tm }] = await Promise.all([import("./merge"), import("../text/merge")]);
  const why = i.refused[0]?.why ?? "";
  say(tm("someRefused", i.refused.length, i.people.length, why), undefined, 12);
  writeAgain(refusedPart(i));
}

/** The number of unread messages in the inbox, in the title and on the icon; on the icon that of one's own alone. */
function Unread() {
  const unread = byRole("inbox")?.unreadEmails;
  const own = account.value === home.value;
  const name = t("appName");
  useEffect(() => {
    document.title = unread ? `(${unread}) ${name}` : name;
    if (own && unread !== undefined) setBadge(unread);
  }, [unread, own, name]);
  return null;
}

/** The progress of the server with changes of many messages, or of messages that go to each of several people. */
function Telling() {
  const now = telling.value ?? apart.value;
  return now && <div class="toast telling"><span>{t("doneOf", count(now.done), count(now.of))}</span><progress value={now.done} max={now.of} aria-hidden="true" /></div>;
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
      {focus.value && <Suggest text={text.value} keys={keys} choose={(words) => {
        input.current!.value = text.value = words.endsWith(":") ? words : `${words} `;
        if (words.endsWith(":")) go(words);
        else done();
      }} />}
    </form>
  );
}

/** Keeps a key for the palette or a writer, which is asked for and not there yet. */
function typeAhead(e: KeyboardEvent): boolean {
  const isAwaited = sheet.value ? sheet.value.kind === "palette" : typedAhead.writer && !menu.value && !(e.target as Element).closest("input,textarea,select,[contenteditable]");
  const sign = e.key.length === 1 ? e.key : { Enter: "\n", Tab: "\t" }[e.key];
  if (!isAwaited || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return false;
  if (e.key === "Backspace") typedAhead.keys = typedAhead.keys.slice(0, -1);
  else if (e.key === "Escape") {
    sheet.value = null;
    Object.assign(typedAhead, { keys: "", writer: false }); // the writer may be long in coming
  }
  else if (sign) typedAhead.keys += sign;
  else return /^(?:Arrow|Del|End|Home)/u.test(e.key);
  return true;
}

function pressed(e: KeyboardEvent): void {
  if (typeAhead(e)) return e.preventDefault();
  if (!e.defaultPrevented && !sheet.value && !menu.value && !document.querySelector("dialog[open]") && onKey(e)) e.preventDefault();
}

function begin(): () => void {
  addEventListener("keydown", pressed);
  // Actions that the browser does not keep are lost with the page: it asks before leaving while some wait.
  const leave = (e: BeforeUnloadEvent) => {
    if (storageDenied.value && waiting.value.length > 0) e.preventDefault();
  };
  addEventListener("beforeunload", leave);
  // Such a browser has no room for parts of the client either: the writer is loaded while the server answers.
  const ahead = storageDenied.subscribe((is) => {
    if (is) void Promise.all([import("./writer"), import("./drafts")]).catch(() => undefined);
  });
  onArrival((mail) => {
    if (!preferences.value.notify || typeof Notification === "undefined" || Notification.permission !== "granted" || document.hasFocus()) return;
    const first = mail[0]!;
    const from = first.from?.[0];
    const n = new Notification(t("newMailFrom", from ? nameOrAddress(from) : t("unknownSender")), { body: first.subject ?? "", tag: "mail" });
    n.onclick = () => {
      n.close();
      focus();
      void open(first.id);
    };
  });
  const link = new URLSearchParams(location.search).get("mailto");
  if (link) {
    void import("./mailto").then(({ mailto }) => {
      const asked = mailto(link);
      if (!asked) return;
      history.replaceState(null, "", "/");
      void write(asked);
    });
  }
  return () => {
    removeEventListener("keydown", pressed);
    removeEventListener("beforeunload", leave);
    ahead();
  };
}
