// A conversation in the reading pane: its messages, and what can be done with them. It is loaded behind the first list.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Address, Id, Message, Part, Row } from "../jmap/types";
import { nameOrAddress, plainName } from "../state/shown";
import { keyword } from "../state/actions";
import { list } from "../state/list";
import { byRole, mailboxes } from "../state/mailboxes";
import { onceEach, readMessages, readPart, readThread, rows, threadOf } from "../state/messages";
import { outgoing } from "../state/outgoing";
import { place } from "../state/place";
import { allow, isAllowed, senderOf } from "../state/pictures";
import { cursor, folded, narrow, openMenu, reading, say } from "../state/screen";
import { account, attempt, client, home, offers } from "../state/session";
import { labelsOf } from "../state/own";
import { fullDate, refusal, shortDate, t, type CommandText } from "../text";
import { Chip } from "./chip";
import { deed } from "./commands";
import { Domino, Icon } from "./icons";
import { lazy } from "./lazy";
import { moveMenu } from "./list";
import { Left, Plain, type Rest } from "./plain";
import { unescaped } from "./quoted";
import { SenderFace } from "./senderface";
import { SentOn } from "./senton";
import { Tool } from "./tool";
import { NotYet, useWhole } from "./whole";

const Foreign = lazy(() => import("./foreign").then((m) => m.Foreign));
/** Reads the conversation that the reading pane shows, however it came there, and marks it read. */
async function readShown(id: Id): Promise<void> {
  const ids = await readThread(id);
  const unseen = ids.filter((i) => !rows.value.get(i)?.keywords["$seen"]);
  // A message says for itself why it was refused.
  await readMessages([...new Set([id, ...unseen, ids[ids.length - 1]!])]).catch(() => false);
  if (reading.value !== id) return;
  // Those beside it are what one opens next.
  const beside = [1, -1, 2].flatMap((by) => list.value.ids[cursor.value + by] ?? []).filter((i) => (rows.value.get(i)?.size ?? Infinity) < 500_000);
  readMessages(beside).catch(() => false);
  if (unseen.length > 0) await keyword("$seen", true, unseen);
}

const isJunk = () => mailboxes.value.get(place.value.mailbox)?.role === "junk";
const Waits = lazy(() => import("./later").then((m) => m.Waits));
const Files = lazy(() => import("./preview").then((m) => m.Files));
const Asleep = lazy(() => import("./aside").then((m) => m.Asleep));
const Reminder = lazy(() => import("./aside").then((m) => m.Reminder));
const Invitation = lazy(() => import("./invitation").then((m) => m.Invitation));
const Sender = lazy(() => import("./sender").then((m) => m.Sender));
const Unverified = lazy(() => import("./sender").then((m) => m.Unverified));
const Marks = lazy(() => import("./marks").then((m) => m.Marks));

export function Conversation({ id, row }: { id: Id; row: Row }) {
  const scroll = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => void readShown(id), [id]);
  useEffect(() => {
    folded.value = null;
    if (scroll.current) scroll.current.scrollTop = 0;
    if (narrow.value) scroll.current?.focus();
  }, [id]);
  const ids = onceEach(threadOf(id).filter((i) => rows.value.has(i)), id);
  const last = ids[ids.length - 1]!;
  const labels = labelsOf(row.keywords);
  const ofLast = (name: CommandText) => deed(name, {}, () => [last]);
  const flagged = !!row.keywords["$flagged"];
  return (
    <>
      <div class="bar" role="toolbar" aria-label={t("more")}>
        <button class="tool only-narrow" aria-label={t("back")} onClick={() => (reading.value = null)}><Icon name="back" /></button>
        {!narrow.value && (["reply", "replyAll", "forward"] as const).map((name) => <Tool key={name} of={ofLast(name)} />)}
        {!narrow.value && <span class="bar-gap" />}
        {(["archive", "delete", "junk"] as const).map((name) => <Tool key={name} of={deed(name)} />)}
        <Tool of={deed("move")} run={moveMenu} />
        <Tool of={deed("unread")} />
        <Tool of={deed("flag", { flagged })} pressed={flagged} />
        <h2 />
        <button class="tool" aria-label={t("more")} title={t("more")} onClick={(e) => openMenu(e.currentTarget, [
          ...(narrow.value ? [ofLast("replyAll"), ofLast("forward")] : []),
          ...(account.value !== home.value ? [] : [ofLast("redirect"), ofLast("makeRule"), ...(offers("urn:ietf:params:jmap:tasks") ? [ofLast("addTask")] : [])]),
          deed("snooze"), ...(account.value === home.value && rows.value.get(last)?.mailboxIds[outgoing.value.sent] ? [ofLast("remind")] : []), deed("pin"), deed("mute"), deed("label"), ...(account.value !== home.value ? [] : [ofLast("block"), ...(offers("urn:ietf:params:jmap:contacts") ? [ofLast("addContact")] : [])]), deed("print"), ofLast("source"),
        ])}><Icon name="more" /></button>
      </div>
      <div class="reader" ref={scroll} tabIndex={0}>
        <header><h1>{row.subject || t("noSubject")}</h1></header>
        {labels.length > 0 && <div class="labels">{labels.map((l) => <Chip key={l.keyword} of={l} remove={() => void keyword(l.keyword, false)} />)}</div>}
        {ids.map((i) => <Mail key={i} id={i} open={i === id || i === last || !rows.value.get(i)!.keywords["$seen"]} />)}
        {place.value.search && <Marks key={id} root={scroll} />}
        <div class="answer-bar">
          <button class="button primary" onClick={ofLast("reply").run}><Icon name="reply" />{t("reply")}</button>
          <button class="button" onClick={ofLast("replyAll").run}><Icon name="replyAll" />{t("replyAll")}</button>
          <button class="button" onClick={ofLast("forward").run}><Icon name="forward" />{t("forward")}</button>
        </div>
      </div>
    </>
  );
}

function People({ of }: { of: Address[] | null }) {
  return <>{(of ?? []).map((a, i) => <span>{i > 0 ? ", " : ""}{plainName(a) ? `${plainName(a)} <${a.email}>` : a.email}</span>)}</>;
}

function Mail({ id, open: begins }: { id: Id; open: boolean }) {
  const opened = useSignal(begins);
  const details = useSignal(false);
  const row = rows.value.get(id)!;
  const whole = useWhole(id, opened.value);
  const m = whole.m;
  useEffect(() => {
    if (begins) opened.value = true;
  }, [begins]);
  useEffect(() => {
    if (folded.value) opened.value = !folded.value.all;
  }, [folded.value]);
  const sender = row.from?.[0];
  const flip = () => (opened.value = !opened.value);
  return (
    <article class={`mail ${opened.value ? "" : "closed"}`} data-id={id}>
      <header onClick={() => !opened.value && flip()}>
        {opened.value && m ? <SenderFace key={m.id} m={m} size={44} /> : <Domino of={sender?.email ?? ""} name={sender && plainName(sender)} size={opened.value ? 44 : 32} />}
        <div>
          <div class="who">{sender ? nameOrAddress(sender) : t("unknownSender")} <SentOn of={m ?? row} />{opened.value && m && <Sender m={m} />}</div>
          <div class="quiet">{opened.value ? `${t("to")}: ${(row.to ?? []).map(nameOrAddress).join(", ")}` : row.preview}</div>
        </div>
        <div>
          <button class="tool" aria-expanded={opened.value} aria-label={opened.value ? t("details") : t("expand")} title={fullDate(row.receivedAt)} onClick={(e) => { e.stopPropagation(); opened.value ? (details.value = !details.value) : flip(); }}>
            <Icon name={opened.value ? "more" : "expand"} />
          </button>
          <time class="quiet" dateTime={row.receivedAt}>{shortDate(row.receivedAt)}</time>
        </div>
      </header>
      {opened.value && details.value && m && (
        <dl>
          <dt>{t("from")}</dt><dd><People of={m.from} /></dd>
          <dt>{t("to")}</dt><dd><People of={m.to} /></dd>
          {m.cc && m.cc.length > 0 && <><dt>{t("cc")}</dt><dd><People of={m.cc} /></dd></>}
          {m.bcc && m.bcc.length > 0 && <><dt>{t("bcc")}</dt><dd><People of={m.bcc} /></dd></>}
          {m["header:Resent-From:asAddresses:all"]?.map((list) => <><dt>{t("sentOnBy")}</dt><dd><People of={list} /></dd></>)}
          {m["header:Resent-Sender:asAddresses:all"]?.map((list) => <><dt>{t("sentOnBy")}</dt><dd><People of={list} /></dd></>)}
          <dt>{t("date")}</dt><dd>{fullDate(m.sentAt ?? m.receivedAt)}</dd>
        </dl>
      )}
      {opened.value && (m ? <Body m={m} /> : <div class="body"><NotYet of={whole} /></div>)}
    </article>
  );
}

function Body({ m }: { m: Message }) {
  const wanted = useSignal(false);
  const load = wanted.value || isAllowed(m) && !isJunk();
  const parts = m.htmlBody.filter((p) => p.partId && m.bodyValues[p.partId]);
  const hasRemote = useSignal(false);
  const whole = useSignal<Record<string, string>>({}); // parts of which only the beginning came, since they are long
  const textOf = (p: Part) => whole.value[p.partId!] ?? m.bodyValues[p.partId!]!.value;
  const asked = useRef(new Set<string>());
  const restOf = (p: Part): Rest | undefined => !m.bodyValues[p.partId!]!.isTruncated || p.partId! in whole.value || !p.blobId ? undefined : {
    of: p.size,
    read: async () => {
      if (asked.current.has(p.partId!)) return;
      asked.current.add(p.partId!);
      try {
        const text = await attempt(() => readPart(p));
        if (text === undefined) say(t("cannotReach"));
        else whole.value = { ...whole.value, [p.partId!]: text };
      } catch (e) {
        say(refusal(e));
      }
      asked.current.delete(p.partId!);
    },
  };
  const broken = parts.some((p) => m.bodyValues[p.partId!]!.isEncodingProblem);
  const inline = new Set(parts.flatMap((p) => (p.type === "text/html" ? [...textOf(p).matchAll(/cid:([^"'\s>)]+)/giu)].map((x) => unescaped(x[1]!)) : [])));
  const files = m.attachments.filter((a) => !(a.cid && inline.has(a.cid) && a.type.startsWith("image/")));
  const invitation = m.attachments.find((a) => a.type === "text/calendar" || a.type === "application/ics");
  const asleep = (rows.value.get(m.id) ?? m).mailboxIds[byRole("snoozed")?.id ?? ""];
  const reminds = account.value === home.value && (rows.value.get(m.id) ?? m).keywords["$reminder"];
  const waits = m.sentAt && new Date(m.sentAt) > client.now() && m.mailboxIds[outgoing.value.sent];
  return (
    <>
      <Unverified m={m} />
      {invitation?.blobId && offers("urn:ietf:params:jmap:calendars:parse") && <Invitation key={invitation.blobId} m={m} blob={invitation.blobId} />}
      {asleep && <Asleep m={m} />}
      {waits ? <Waits m={m} /> : reminds && <Reminder m={m} />}
      {hasRemote.value && !load && (
        <div class="notice"><Icon name="image" />{t("remoteBlocked")}<button class="button" onClick={() => (wanted.value = true)}>{t("loadRemote")}</button>
          {senderOf(m) && !isJunk() && <button class="button" onClick={() => allow(m)}>{t("alwaysLoad", senderOf(m))}</button>}</div>
      )}
      {broken && <div class="notice">{t("broken")}</div>}
      <div class="body">
        {parts.map((p) => {
          const text = textOf(p), rest = restOf(p);
          if (p.type !== "text/html") return <Plain key={p.partId} text={text} rest={rest} />;
          return (
            <>
              {rest && <Left shown={text.length} of={rest.of} all={() => void rest.read()} />}
              <Foreign key={`${p.partId}${load}${!rest}`} m={m} html={text} load={load} remote={(r) => (hasRemote.value = hasRemote.value || r)} />
            </>
          );
        })}
      </div>
      {files.length > 0 && (
        <ul class="files" aria-label={files.length === 1 ? t("attachment") : t("attachments", files.length)}>
          <Files m={m} files={files} />
        </ul>
      )}
    </>
  );
}
