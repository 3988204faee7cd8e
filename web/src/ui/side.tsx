import { useSignal } from "@preact/signals";
import type { Id, Mailbox } from "../jmap/types";
import { moveTo } from "../state/actions";
import { below } from "../state/folders";
import { folderHue, hues } from "../state/own";
import { firstList, show } from "../state/list";
import { mailboxes, quota, sortedMailboxes } from "../state/mailboxes";
import { place } from "../state/place";
import { reading, selected, sideOpen } from "../state/screen";
import { account, home, offers, session } from "../state/session";
import { count, size, t } from "../text";
import { Icon, type IconName } from "./icons";
import { lazy } from "./lazy";
import { write } from "./writing";

const Invited = lazy(() => firstList.then(() => import("./invited")).then((m) => m.Invited));
const Own = lazy(() => firstList.then(() => import("./sideown")).then((m) => m.Own));

const deeds = () => import("./folderdeeds");

const roles = ["inbox", "snoozed", "drafts", "sent", "archive", "junk", "trash"] as const;

/** A folder's name in the person's language. */
export function roleName(m: Mailbox): string {
  return roles.includes(m.role as (typeof roles)[number]) ? t(m.role as (typeof roles)[number]) : m.name;
}

export function Side() {
  const all = sortedMailboxes.value;
  const children = (parent: Id | null) => all.filter((m) => m.parentId === parent);
  const lines: { m: Mailbox; depth: number }[] = [];
  const walk = (parent: Id | null, depth: number) => {
    for (const m of children(parent)) {
      lines.push({ m, depth });
      walk(m.id, depth + 1);
    }
  };
  walk(null, 0);
  const overTop = useSignal(false);
  // The person's own folders come behind those with a role, and what lies in these.
  const first = lines.findIndex(({ m, depth }) => depth === 0 && !m.role);
  const own = first < 0 ? lines.length : first;
  const others = Object.entries(session.value?.accounts ?? {}).filter(([id]) => id !== account.value);
  return (
    <nav class={`side ${sideOpen.value ? "open" : ""}`} aria-label={t("folders")}>
      <button class="button primary compose" onClick={() => void write({ kind: "new" })} title={t("compose")}>
        <Icon name="write" /><span>{t("compose")}</span>
      </button>
      {account.value === home.value && offers("urn:ietf:params:jmap:calendars") && <Invited />}
      <ul class="folders">{lines.slice(0, own).map(({ m, depth }) => <Folder key={m.id} m={m} depth={depth} />)}</ul>
      <div class={`side-title ${overTop.value ? "drop" : ""}`} {...dropFolder(null, overTop)}>
        {t("folders")}
        <button class="tool" aria-label={t("newFolder")} title={t("newFolder")} onClick={() => void deeds().then((m) => m.newFolder())}><Icon name="plus" /></button>
      </div>
      {own < lines.length && <ul class="folders">{lines.slice(own).map(({ m, depth }) => <Folder key={m.id} m={m} depth={depth} />)}</ul>}
      <Own />
      {others.length > 0 && (
        <>
          <div class="side-title">{t("sharedWith")}</div>
          <ul class="folders">
            {others.map(([id, a]) => (
              <li key={id}>
                <button class="folder" onClick={() => { account.value = id; place.value = { mailbox: "", search: "" }; }}>
                  <Icon name="shared" /><span class="name">{a.name}</span>
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
      <div class="side-foot">
        {quota.value && (
          <>
            <span>{t("used", size(quota.value.used), size(quota.value.hardLimit))}</span>
            <span class={`meter ${quota.value.used > quota.value.hardLimit * 0.9 ? "full" : ""}`}><i ref={(e: HTMLElement | null) => { if (e) e.style.width = `${Math.min(100, (100 * quota.value!.used) / quota.value!.hardLimit)}%`; }} /></span>
          </>
        )}
      </div>
    </nav>
  );
}

const openFolderMenu = (at: Element, m: Mailbox) => void deeds().then((d) => d.folderMenu(at, m));

function Folder({ m, depth }: { m: Mailbox; depth: number }) {
  const over = useSignal(false);
  const badge = m.role === "drafts" ? m.totalEmails : m.role === "junk" || m.role === "trash" ? 0 : m.unreadEmails;
  const icon: IconName = m.role === "snoozed" ? "clock" : roles.includes(m.role as (typeof roles)[number]) ? (m.role as IconName) : "folder";
  const name = roleName(m);
  const hue = folderHue(m.id);
  return (
    <li>
      <button
        class={`folder ${over.value ? "drop" : ""}`}
        data-depth={depth}
        ref={(e: HTMLButtonElement | null) => { e?.style.setProperty("--depth", String(depth)); if (hue) e?.style.setProperty("--hue", String(hues[hue])); }}
        aria-current={place.value.mailbox === m.id && !place.value.search}
        aria-label={badge > 0 ? `${name}, ${badge} ${m.role === "drafts" ? "" : t("unread")}` : name}
        title={name}
        onClick={() => {
          sideOpen.value = false;
          selected.value = new Set();
          reading.value = null;
          void show({ mailbox: m.id, search: "" });
        }}
        onContextMenu={(e) => {
          e.preventDefault();
          openFolderMenu(e.currentTarget, m);
        }}
        onKeyDown={(e) => {
          if ((!m.role && e.key === "F2") || e.key === "ContextMenu" || (e.shiftKey && e.key === "F10")) {
            e.preventDefault();
            openFolderMenu(e.currentTarget, m);
          }
        }}
        draggable={!m.role && m.myRights.mayRename}
        onDragStart={(e) => {
          dragged = m;
          e.dataTransfer?.setData(folderType, m.id);
        }}
        {...dropFolder(m, over)}
      >
        <Icon name={icon} class={hue ? "hued" : ""} />
        <span class="name">{name}</span>
        {badge > 0 && <span class="count">{count(badge)}</span>}
      </button>
    </li>
  );
}

/** The type of a dragged folder, and the folder: what is dragged may be read when it is dropped alone. */
const folderType = "application/x-doublet-folder";
let dragged: Mailbox | null = null;

/** Takes messages into a folder, and folders below it; at the top level only folders. */
function dropFolder(m: Mailbox | null, over: { value: boolean }) {
  const takes = (e: DragEvent) => {
    const types = e.dataTransfer?.types ?? [];
    if (types.includes("application/x-doublet")) return m !== null;
    return types.includes(folderType) && !!dragged && dragged.id !== m?.id && dragged.parentId !== (m?.id ?? null) && (!m || m.myRights.mayCreateChild) && !(m && below(mailboxes.value, dragged.id).some((x) => x.id === m.id));
  };
  return {
    onDragOver: (e: DragEvent) => {
      if (!takes(e)) return;
      e.preventDefault();
      over.value = true;
    },
    onDragLeave: () => { over.value = false; },
    onDrop: (e: DragEvent) => {
      over.value = false;
      if (!takes(e)) return;
      e.preventDefault();
      if (m && !e.dataTransfer!.types.includes(folderType)) void moveTo(m.id);
      else if (dragged) {
        const folder = dragged;
        void deeds().then((d) => d.moveFolder(folder, m));
      }
    },
  };
}
