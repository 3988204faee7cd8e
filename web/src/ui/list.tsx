// The list: rows are drawn only where one looks, so that 100,000 messages cost what 20 do.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Id, Mailbox, Row as RowData } from "../jmap/types";
import { nameOrAddress, plainName } from "../state/shown";
import { below } from "../state/folders";
import { selecting } from "../state/all";
import { archive, moveTo, ofThreads, remove } from "../state/actions";
import { isMissing, list, loadWindow, show, inView, type List as ListData } from "../state/list";
import { mailboxes, pathOf, sortedMailboxes } from "../state/mailboxes";
import { onceEach, rows, threads } from "../state/messages";
import { place, byThread } from "../state/place";
import { labelsOf } from "../state/own";
import { preferences } from "../state/prefs";
import { cursor, goal, narrow, openMenu, reading, say, scrolled, selected, sheet, sideOpen } from "../state/screen";
import { account, home, offers } from "../state/session";
import { hasPins, muted, pin, readView, snoozedUntil } from "../state/view";
import { count, dayOf, shortDate, t } from "../text";
import { Chip } from "./chip";
import { deed } from "./commands";
import { Domino, Icon } from "./icons";
import { roleName } from "./side";
import { lazy } from "./lazy";
import { open as openMessage } from "./opened";
import { SentOn } from "./senton";
import { swipe } from "./swipe";
import { Tool } from "./tool";
import { forgetWriting, resume, unfinished } from "./writing";

const LeaveTool = lazy(() => import("./sender").then((m) => m.LeaveTool));
const RecoverLink = lazy(() => import("./later").then((m) => m.RecoverLink));
const Filters = lazy(() => import("./filters").then((m) => m.Filters));
const Terms = lazy(() => import("./terms").then((m) => m.Terms));

export function List() {
  const where = place.value;
  const box = mailboxes.value.get(where.mailbox);
  const title = where.search ? t("results", count(list.value.total)) : box ? roleName(box) : "";
  return (
    <section
      class="pane list" aria-label={t("messageList")}
      onDragOver={(e) => { if (e.dataTransfer?.types.includes("Files")) e.preventDefault(); }}
      onDrop={(e) => {
        const files = [...(e.dataTransfer?.files ?? [])];
        if (files.length === 0) return;
        e.preventDefault();
        void import("./exchange").then((m) => m.takeFiles(files, where.mailbox));
      }}
    >
      {selected.value.size > 0 ? <Chosen /> : (
        <div class="bar">
          <button class="tool only-narrow" aria-label={t("menu")} onClick={() => (sideOpen.value = true)}><Icon name="menu" /></button>
          <h2>{title}</h2>
          {!where.search && box && <span class="quiet">{count(box.totalEmails)}</span>}
          {where.search && <button class="tool" aria-label={t("saveSearch")} title={t("saveSearch")} onClick={() => void import("./sideown").then((m) => m.saveSearch())}><Icon name="star" /></button>}
          {where.search && <button class="tool" aria-label={t("clearSearch")} title={t("clearSearch")} onClick={() => void show({ mailbox: where.mailbox, search: "" })}><Icon name="close" /></button>}
          {(box?.role === "trash" || box?.role === "junk") && !where.search && holds(box) && <button class="button" onClick={() => void import("../state/trash").then((m) => m.empty(box.id))}>{t("emptyTrash")}</button>}
        </div>
      )}
      {unfinished.value.map((k) => (
        <p class="notice unfinished" role="status" key={k.draft.key}>
          <span>{t("unfinished", k.draft.subject || k.draft.to[0]?.email || t("noSubject"))}</span>
          <button class="button primary" onClick={() => resume(k)}>{t("goOnWriting")}</button>
          <button class="button" onClick={() => void forgetWriting(k.draft.key)}>{t("discard")}</button>
        </p>
      ))}
      {box?.role === "trash" && !where.search && account.value === home.value && offers("urn:doublet:jmap:recovery") && <RecoverLink />}
      {where.search ? <Terms /> : <Filters />}
      <Rows />
    </section>
  );
}

/** Reports if a folder holds something to destroy: mail, or in Trash folders. */
const holds = (m: Mailbox) => m.totalEmails > 0 || (m.role === "trash" && below(mailboxes.value, m.id).length > 0);

function Chosen() {
  const s = selecting.value;
  return (
    <div class="bar" role="toolbar" aria-label={t("selectedCount", count(selected.value.size))}>
      <button class="tool" aria-label={t("selectNone")} title={t("selectNone")} onClick={() => (selected.value = new Set())}><Icon name="close" /></button>
      <h2 aria-live="polite">{s ? t("selecting", count(s.done), count(s.of)) : t("selectedCount", count(selected.value.size))}</h2>
      <Tool of={deed("archive")} />
      <Tool of={deed("delete")} />
      <Tool of={deed("move")} run={moveMenu} />
      <button class="tool" aria-label={t("more")} title={t("more")} onClick={(e) => openMenu(e.currentTarget, (["selectAll", "read", "unread", "flag", "snooze", "pin", "mute", "label", "junk"] as const).map((name) => deed(name)))}><Icon name="more" /></button>
    </div>
  );
}

export function moveMenu(at: Element): void {
  openMenu(at, sortedMailboxes.value.filter((m) => m.id !== place.value.mailbox && m.myRights.mayAddItems).map((m) => ({
    text: m.parentId ? pathOf(m) : roleName(m), icon: "folder", run: () => void moveTo(m.id),
  })));
}

/** The space above the first row, in pixels: half of the name of its day. */
const head = 8;

/**
 * The fewest positions by which a message of those that began at from has moved: others may have moved alone, as those do that are pinned.
 * undefined: the list knows none of them now.
 */
function shift(ids: (Id | undefined)[], from: number, now: ListData): number | undefined {
  const by = ids.flatMap((id, i) => {
    const at = id ? now.ids.indexOf(id) : -1;
    return at < 0 ? [] : at - from - i;
  });
  return by.sort((a, b) => Math.abs(a) - Math.abs(b))[0];
}

function Rows() {
  const scroll = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const rowHeight = preferences.value.density === "compact" ? 44 : 76;
  const l = list.value;
  /** The pixels by which the list is scrolled: the drawing of a shorter list may lower them. */
  const y = scroll.current?.scrollTop ?? 0;

  useEffect(() => {
    const e = scroll.current!;
    const watch = new ResizeObserver(() => (height.value = e.clientHeight));
    watch.observe(e);
    return () => watch.disconnect();
  }, []);
  // Effects on the place of the list run with the drawing that they belong to: one that waits would see a place of later.
  useLayoutEffect(() => {
    if (scroll.current) scroll.current.scrollTop = 0;
    cursor.value = 0;
  }, [place.value]);
  /** The pixels by which a row is out of sight: above if negative. */
  const hidden = (at: number) => {
    const e = scroll.current!, y = at * rowHeight;
    return Math.min(y - e.scrollTop, 0) || Math.max(head + y + rowHeight - e.scrollTop - e.clientHeight, 0);
  };
  /** The list does not follow the cursor that was set last. */
  const isFree = useRef(false);
  // When others come or go the rows in sight stay there, unless the list is at its top: it stays there and shows what comes. The cursor
  // stays with its message: a key that deletes means that one, and not the place.
  const was = useRef({ l, at: cursor.value });
  useLayoutEffect(() => {
    const { l: before, at } = was.current;
    if (before.ids !== l.ids && before.mailbox === l.mailbox && before.search === l.search && before.view === l.view) {
      const e = scroll.current!, isFollowed = e.scrollTop > 0 && hidden(at) === 0;
      const first = Math.max(0, Math.floor((y - head) / rowHeight));
      // If none of them is known, the list moves by the positions by which it has grown; kept rows do not tell how long it was.
      const grown = before.state === "ready" ? Math.max(0, l.total - before.total) : 0;
      const by = e.scrollTop > 0 ? (shift(before.ids.slice(first, first + Math.ceil(e.clientHeight / rowHeight)), first, l) ?? grown) : 0;
      if (by !== 0) e.scrollTop = y + by * rowHeight;
      const under = before.ids[at];
      const now = under && at === cursor.value ? l.ids.indexOf(under) : -1;
      if (now >= 0 && now !== at) {
        isFree.current = !isFollowed;
        cursor.value = now;
      }
    }
    was.current = { l, at: cursor.value };
  }, [l.ids, cursor.value]);
  const asleep = mailboxes.value.get(place.value.mailbox)?.role === "snoozed";
  useEffect(() => {
    if (asleep && l.state === "ready") void import("./aside").then((m) => m.readSnoozed());
  }, [asleep, l.ids]);
  // A list to which one returns is where it was left, as soon as it is long enough: so are its messages where others came
  // meanwhile, if the list knows some of them yet.
  useLayoutEffect(() => {
    const g = goal.value, e = scroll.current!;
    if (!g || l.mailbox !== place.value.mailbox || l.search !== place.value.search || l.view !== place.value.view) return;
    if (l.state === "loading" && head + l.total * rowHeight < g.top + e.clientHeight) return;
    const by = shift(g.ids, g.from, l) ?? 0, to = Math.max(0, g.cursor + by);
    isFree.current = cursor.value !== to;
    cursor.value = to;
    e.scrollTop = g.top && g.top + by * rowHeight;
    goal.value = null;
  }, [goal.value, l, place.value]);
  // The cursor stays in sight.
  useLayoutEffect(() => {
    if (isFree.current) isFree.current = false;
    else scroll.current!.scrollTop += hidden(cursor.value);
  }, [cursor.value]);

  const from = Math.max(0, Math.floor(top.value / rowHeight) - 4);
  const to = Math.min(l.total, Math.ceil((top.value + height.value) / rowHeight) + 4);
  Object.assign(inView, { from, to });
  useEffect(() => {
    // After a refusal, or without a connection, the server is asked again when it answers or when the person wants it.
    if (l.state !== "ready" && l.state !== "loading") return undefined;
    for (let i = from; i < to; i += 1) if (isMissing(i)) return void loadWindow(i);
    return undefined;
  }, [from, to, l]);

  const shown = [];
  for (let i = from; i < to; i++) shown.push(<Line key={l.ids[i] ?? `?${i}`} at={i} id={l.ids[i]} height={rowHeight} />);
  return (
    <div class={`scroll ${selected.value.size > 0 ? "picking" : ""}`} ref={scroll} onScroll={(e) => { scrolled.top = top.value = e.currentTarget.scrollTop; }} tabIndex={-1}>
      {l.total === 0 && l.state === "ready" && (
        <div class="empty">
          <Icon name={place.value.search ? "search" : "inbox"} />
          <h3>{place.value.search ? t("noResults") : t("noMail")}</h3>
          <p>{place.value.search ? t("noResultsHint") : t("noMailHint")}</p>
        </div>
      )}
      {l.total === 0 && l.state === "offline" && <div class="empty"><Icon name="offline" /><h3>{t("offlineShort")}</h3></div>}
      {!["ready", "loading", "offline"].includes(l.state) && <div class="empty" role="alert"><h3>{l.state}</h3><button class="button" onClick={() => void show(place.value)}>{t("retry")}</button></div>}
      <div class="rows" {...(l.total > 0 ? { role: "grid", "aria-multiselectable": true, "aria-rowcount": l.total, "aria-label": t("messageList") } : {})} ref={(e: HTMLDivElement | null) => { if (e) e.style.height = `${l.total * rowHeight}px`; }}>
        {shown}
      </div>
    </div>
  );
}

/** The people that a row names: the senders, or in Drafts and Sent the recipients. */
function people(row: RowData, outgoing: boolean): string {
  const list = (outgoing ? row.to : row.from) ?? [];
  return list.map(nameOrAddress).join(", ") || (outgoing ? "" : t("unknownSender"));
}

/** A snippet has its marks as <mark> in escaped text (RFC 8621 §5); it is set as text, never as HTML. */
function Marked({ text }: { text: string }) {
  const plain = (s: string) => s.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&#39;", "'").replaceAll("&#34;", '"').replaceAll("&amp;", "&");
  return <>{text.split(/(<mark>.*?<\/mark>)/gu).map((s) => (s.startsWith("<mark>") ? <mark>{plain(s.slice(6, -7))}</mark> : plain(s)))}</>;
}

/** Selects all from one position to another; those between that were not read yet are read. */
async function pickRange(a: number, b: number): Promise<void> {
  const where = place.value;
  for (let i = a; i <= b;) {
    if (list.value.ids[i] === undefined) await loadWindow(i, true);
    if (place.value !== where) return;
    const next = new Set(selected.value);
    const from = i;
    for (; i <= b && list.value.ids[i]; i++) next.add(list.value.ids[i]!);
    selected.value = next;
    if (i === from) return void say(t("cannotReach"));
  }
}

/** The actions on a row: the same in the buttons that lie over it and in its menu. */
function deeds(id: Id, unread: boolean, flagged: boolean) {
  const ids = () => ofThreads(selected.value.has(id) ? [...selected.value] : [id]);
  return (["archive", "delete", unread ? "read" : "unread", "flag", "snooze", "pin", "mute", "junk"] as const).map((name) => deed(name, { flagged }, ids));
}

/** The day that a row is grouped by; "": the list is not in the order of days. */
function groupOf(row: RowData): string {
  const { order } = readView(place.value.view);
  if ((order !== "" && order !== "oldest") || mailboxes.value.get(place.value.mailbox)?.role === "snoozed") return "";
  return order === "" && hasPins.value && !place.value.search && (byThread.value ? (threads.value.get(row.threadId) ?? [row.id]) : [row.id]).some((i) => rows.value.get(i)?.keywords[pin]) ? t("pinnedWord") : dayOf(row.receivedAt);
}

function Line({ at, id, height }: { at: number; id: Id | undefined; height: number }) {
  const over = useSignal(false);
  const row = id ? rows.value.get(id) : undefined;
  const place_ = (e: HTMLDivElement | null) => {
    if (e) e.style.transform = `translateY(${at * height}px)`;
  };
  if (!id || !row) {
    return (
      <div class="row" ref={place_} aria-hidden="true">
        <span class="dot" />
        <span class="face-cell" />
        <span class="what"><span class="ghost" /><span class="ghost" /></span>
      </div>
    );
  }
  const box = mailboxes.value.get(place.value.mailbox);
  const outgoing = box?.role === "sent" || box?.role === "drafts";
  const ids = byThread.value ? (threads.value.get(row.threadId) ?? [id]) : [id];
  const unread = ids.some((i) => {
    const r = rows.value.get(i);
    return !!r && !r.keywords["$seen"] && !r.keywords["$draft"];
  });
  const flagged = ids.some((i) => rows.value.get(i)?.keywords["$flagged"]);
  const messagesOf = onceEach(ids.filter((i) => rows.value.has(i)), id).length;
  const isSelected = selected.value.has(id);
  const who = people(row, outgoing);
  const first = (outgoing ? row.to : row.from)?.[0];
  const snippet = list.value.snippets.get(id);
  const pick = (range: boolean) => {
    if (range) void pickRange(Math.min(cursor.value, at), Math.max(cursor.value, at));
    else {
      const next = new Set(selected.value);
      if (!next.delete(id)) next.add(id);
      selected.value = next;
    }
    cursor.value = at;
  };
  const pinned = ids.some((i) => rows.value.get(i)?.keywords[pin]);
  const labels = labelsOf(row.keywords);
  const until = box?.role === "snoozed" ? snoozedUntil.value.get(id) : undefined;
  const before = at > 0 ? rows.value.get(list.value.ids[at - 1] ?? "") : undefined;
  const day = groupOf(row);
  const words = [unread && t("unread"), flagged && t("flagged"), pinned && t("pinnedWord"), row.keywords[muted] && t("mutedWord"), ...labels.map((l) => l.name), row.keywords["$answered"] && t("answered"), row.hasAttachment && t("hasAttachmentWord"), messagesOf > 1 && t("conversationOf", messagesOf)].filter(Boolean).join(", ");
  return (
    <div
      class={`row ${unread ? "unread" : ""} ${cursor.value === at ? "at" : ""}`}
      ref={place_}
      role="row"
      id={`row-${id}`}
      aria-selected={isSelected || reading.value === id}
      aria-rowindex={at + 1}
      tabIndex={cursor.value === at ? 0 : -1}
      draggable
      onMouseEnter={() => (over.value = true)}
      onMouseLeave={() => (over.value = false)}
      {...(narrow.value ? swipe((to) => void (to === "right" ? archive(ofThreads([id])) : remove(ofThreads([id])))) : {})}
      onContextMenu={(e) => {
        e.preventDefault();
        cursor.value = at;
        const box = e.currentTarget.getBoundingClientRect();
        const point = e.clientX || e.clientY ? { left: e.clientX, bottom: e.clientY } : { left: box.left + 40, bottom: box.top + 20 };
        const answer = (kind: "reply" | "replyAll" | "forward") => deed(kind, {}, () => [id]);
        openMenu(point, [
          ...(selected.value.has(id) && selected.value.size > 1 ? [] : [answer("reply"), answer("replyAll"), answer("forward")]),
          ...deeds(id, unread, !!flagged),
          ...(outgoing ? [] : [deed("block", {}, () => [id])]),
          ...(account.value === home.value ? [deed("makeRule", {}, () => [id]), ...(offers("urn:ietf:params:jmap:tasks") ? [deed("addTask", {}, () => [id])] : [])] : []),
          { ...deed("move"), run: () => { if (!selected.value.has(id)) selected.value = new Set([id]); sheet.value = { kind: "palette", mode: "move" }; } },
        ]);
      }}
      onDragStart={(e) => {
        if (!isSelected) selected.value = new Set([id]);
        e.dataTransfer?.setData("application/x-doublet", "messages");
      }}
      onClick={(e) => {
        if (e.shiftKey) return pick(true);
        if (e.ctrlKey || e.metaKey) return pick(false);
        cursor.value = at;
        selected.value = new Set();
        void openMessage(id);
      }}
    >
      {day && (at === 0 || (before && groupOf(before) !== day)) && <span class="day" aria-hidden="true">{day}</span>}
      <span class="dot" aria-hidden="true" />
      <span class="face-cell" role="gridcell">
        <input class="pick" type="checkbox" checked={isSelected} tabIndex={-1} aria-label={`${t("keySelect")}: ${row.subject || t("noSubject")}`} onClick={(e) => { e.stopPropagation(); pick(e.shiftKey); }} />
        <Domino of={first?.email ?? ""} name={first && plainName(first)} size={narrow.value ? 40 : height > 50 ? 42 : 30} />
      </span>
      <span class="what" role="gridcell">
        <span class="line">
          <span class="who">{row.keywords["$draft"] && !outgoing ? `${t("draftWord")}: ` : ""}{who}</span>
          {!outgoing && <SentOn of={row} />}
          {messagesOf > 1 && <span class="size-of-thread" aria-hidden="true">{messagesOf}</span>}
        </span>
        <span class="line">{labels.slice(0, 2).map((l) => <Chip key={l.keyword} of={l} />)}<span class="subject">{snippet?.subject ? <Marked text={snippet.subject} /> : row.subject || t("noSubject")}</span></span>
        <span class="preview">{snippet?.preview ? <Marked text={snippet.preview} /> : row.preview}</span>
      </span>
      <span class="what" role="gridcell">
        <time class={`date ${until ? "until" : ""}`} dateTime={until ?? row.receivedAt}>{shortDate(until ?? row.receivedAt)}</time>
        <span class="marks" aria-hidden="true">
          {pinned && <Icon name="pin" />}
          {row.keywords[muted] && <Icon name="mute" />}
          {row.keywords["$answered"] && <Icon name="reply" />}
          {row.hasAttachment && <Icon name="attach" />}
          {flagged && <Icon name="flag" class="flag" />}
        </span>
        {words && <span class="visually-hidden">{words}</span>}
      </span>
      {over.value && !narrow.value && selected.value.size === 0 && (
        <span class="deeds" aria-hidden="true">
          {deeds(id, unread, !!flagged).slice(0, 4).map((d) => (
            <button key={d.icon} class="tool" tabIndex={-1} title={d.hint} onClick={(e) => { e.stopPropagation(); d.run(); }}><Icon name={d.icon} /></button>
          ))}
          <LeaveTool id={id} />
        </span>
      )}
    </div>
  );
}
