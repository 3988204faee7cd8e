import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Address, Id, Message, Part } from "../jmap/types";
import { nameOrAddress, plainName } from "../state/shown";
import { archive, junk, keyword, remove, toggle } from "../state/actions";
import { list, mailboxes, messages, onceEach, place, readMessages, readPart, readThread, rows, threadOf } from "../state/mail";
import { cursor, narrow, openMenu, reading, say, sheet } from "../state/screen";
import { account, attempt, client, home, online } from "../state/session";
import { fullDate, shortDate, size, t } from "../text";
import { safeHTML } from "./html";
import { Domino, Icon } from "./icons";
import { moveMenu } from "./list";
import { Left, Plain, type Rest } from "./plain";
import { SentOn } from "./senton";
import { mailto, write } from "./writing";

/** Opens a message in the reading pane: a draft in the writer. */
export async function open(id: Id): Promise<void> {
  const row = rows.value.get(id);
  if (row?.keywords["$draft"] && mailboxes.value.get(place.value.mailbox)?.role === "drafts") return write({ kind: "draft", id });
  reading.value = id;
  history.replaceState(null, "", `#/${place.value.mailbox}/${id}`);
  const ids = await readThread(id);
  const unseen = ids.filter((i) => !rows.value.get(i)?.keywords["$seen"]);
  await readMessages([...new Set([id, ...unseen, ids[ids.length - 1]!])]);
  if (reading.value !== id) return;
  // Those beside it are what one opens next.
  const beside = [1, -1, 2].flatMap((by) => list.value.ids[cursor.value + by] ?? []).filter((i) => (rows.value.get(i)?.size ?? Infinity) < 500_000);
  void readMessages(beside);
  if (unseen.length > 0) await keyword("$seen", true, unseen);
}

export function Reader() {
  const id = reading.value;
  const scroll = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (scroll.current) scroll.current.scrollTop = 0;
    if (id && narrow.value) scroll.current?.focus();
  }, [id]);
  const row = id ? rows.value.get(id) : undefined;
  if (!id || !row) {
    return (
      <section class="pane read" aria-label={t("readingPane")}>
        <div class="scroll"><div class="empty"><Domino of="doublet" size={72} /><p>{t("pickMessage")}</p></div></div>
      </section>
    );
  }
  const ids = onceEach(threadOf(id).filter((i) => rows.value.has(i)), id);
  const last = ids[ids.length - 1]!;
  const isJunk = mailboxes.value.get(place.value.mailbox)?.role === "junk";
  const labels = Object.keys(row.keywords).filter((k) => !k.startsWith("$"));
  const tool = (name: Parameters<typeof Icon>[0]["name"], text: string, run: (e: Element) => void, pressed?: boolean) => (
    <button class="tool" aria-label={text} title={text} {...(pressed === undefined ? {} : { "aria-pressed": pressed })} onClick={(e) => run(e.currentTarget)}><Icon name={name} /></button>
  );
  return (
    <section class="pane read" aria-label={t("readingPane")}>
      <div class="bar" role="toolbar" aria-label={t("more")}>
        <button class="tool only-narrow" aria-label={t("back")} onClick={() => (reading.value = null)}><Icon name="back" /></button>
        {tool("archive", t("archiveIt"), () => void archive())}
        {tool("trash", t("delete"), () => void remove())}
        {tool("junk", isJunk ? t("notJunk") : t("junkIt"), () => void junk())}
        {tool("move", t("move"), (e) => moveMenu(e))}
        {tool("unread", t("markUnread"), () => { void keyword("$seen", false); reading.value = null; })}
        {tool("flag", row.keywords["$flagged"] ? t("unflag") : t("flag"), () => void toggle("$flagged"), !!row.keywords["$flagged"])}
        <h2 />
        {tool("more", t("more"), (e) => openMenu(e, [
          { text: t("replyAll"), icon: "replyAll", run: () => void write({ kind: "replyAll", id: last }) },
          { text: t("forward"), icon: "forward", run: () => void write({ kind: "forward", id: last }) },
          ...(account.value !== home.value ? [] : [{ text: t("redirect"), icon: "redirect", run: () => (sheet.value = { kind: "redirect", id: last }) }]),
          { text: t("label"), icon: "label", run: () => (sheet.value = { kind: "ask", title: t("label"), text: t("labelName"), yes: t("save"), input: "", done: (name) => typeof name === "string" && void keyword(name.trim().toLowerCase().replace(/[\s(){%*"\]\\]+/gu, "-"), true) }) },
          { text: t("print"), icon: "print", run: () => print() },
          { text: t("source"), icon: "code", run: () => (sheet.value = { kind: "source", id: last }) },
        ]))}
      </div>
      <div class="reader" ref={scroll} tabIndex={0}>
        <header><h1>{row.subject || t("noSubject")}</h1></header>
        {labels.length > 0 && <div class="labels">{labels.map((k) => <button class="label" title={t("cancel")} onClick={() => void keyword(k, false)}>{k} ×</button>)}</div>}
        {ids.map((i) => <Mail key={i} id={i} open={i === id || i === last || !rows.value.get(i)!.keywords["$seen"]} />)}
        <div class="answer-bar">
          <button class="button primary" onClick={() => void write({ kind: "reply", id: last })}><Icon name="reply" />{t("reply")}</button>
          <button class="button" onClick={() => void write({ kind: "replyAll", id: last })}><Icon name="replyAll" />{t("replyAll")}</button>
          <button class="button" onClick={() => void write({ kind: "forward", id: last })}><Icon name="forward" />{t("forward")}</button>
        </div>
      </div>
    </section>
  );
}

function People({ of }: { of: Address[] | null }) {
  return <>{(of ?? []).map((a, i) => <span>{i > 0 ? ", " : ""}{plainName(a) ? `${plainName(a)} <${a.email}>` : a.email}</span>)}</>;
}

function Mail({ id, open: begins }: { id: Id; open: boolean }) {
  const opened = useSignal(begins);
  const details = useSignal(false);
  const row = rows.value.get(id)!;
  const m = messages.value.get(id);
  useEffect(() => {
    if (begins) opened.value = true;
  }, [begins]);
  useEffect(() => {
    if (opened.value && !m) void readMessages([id]);
  }, [opened.value, m]);
  const sender = row.from?.[0];
  const flip = () => (opened.value = !opened.value);
  return (
    <article class={`mail ${opened.value ? "" : "closed"}`}>
      <header onClick={() => !opened.value && flip()}>
        <Domino of={sender?.email ?? ""} size={opened.value ? 44 : 32} />
        <div>
          <div class="who">{sender ? nameOrAddress(sender) : t("unknownSender")} <SentOn of={m ?? row} /></div>
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
      {opened.value && (m ? <Body m={m} /> : <div class="body"><div class="ghost" /></div>)}
    </article>
  );
}

function Body({ m }: { m: Message }) {
  const load = useSignal(false);
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
        say(t("refusedByServer", e instanceof Error ? e.message : ""));
      }
      asked.current.delete(p.partId!);
    },
  };
  const broken = parts.some((p) => m.bodyValues[p.partId!]!.isEncodingProblem);
  const inline = new Set(parts.flatMap((p) => (p.type === "text/html" ? [...textOf(p).matchAll(/cid:([^"'\s>)]+)/giu)].map((x) => decodeURIComponent(x[1]!)) : [])));
  const files = m.attachments.filter((a) => !(a.cid && inline.has(a.cid) && a.type.startsWith("image/")));
  return (
    <>
      {hasRemote.value && !load.value && (
        <div class="notice"><Icon name="image" />{t("remoteBlocked")}<button class="button" onClick={() => (load.value = true)}>{t("loadRemote")}</button></div>
      )}
      {broken && <div class="notice">{t("broken")}</div>}
      <div class="body">
        {parts.map((p) => {
          const text = textOf(p), rest = restOf(p);
          if (p.type !== "text/html") return <Plain key={p.partId} text={text} rest={rest} />;
          return (
            <>
              {rest && <Left shown={text.length} of={rest.of} all={() => void rest.read()} />}
              <Foreign key={`${p.partId}${load.value}${!rest}`} m={m} html={text} load={load.value} remote={(r) => (hasRemote.value = hasRemote.value || r)} />
            </>
          );
        })}
      </div>
      {files.length > 0 && (
        <ul class="files" aria-label={files.length === 1 ? t("attachment") : t("attachments", files.length)}>
          {files.map((a) => a.blobId && (
            <li>
              <a class="file" href={client.blobURL(account.value, a.blobId, a.type, a.name ?? "file")} download={a.name ?? "file"}>
                <Icon name="attach" /><span class="name">{a.name ?? a.type}</span><span class="quiet">{size(a.size)}</span>
              </a>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** A frame with foreign HTML; it is as high as what it shows. */
function Foreign({ m, html, load, remote }: { m: Message; html: string; load: boolean; remote: (r: boolean) => void }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const safe = useComputed(() => safeHTML(html, load, (cid) => {
    const a = m.attachments.find((x) => x.cid === cid && x.blobId && x.type.startsWith("image/"));
    return a && online.value ? client.blobURL(account.value, a.blobId!, a.type, a.name ?? "image") : undefined;
  }));
  useEffect(() => remote(safe.value.remote), [safe.value.remote]);
  useEffect(() => {
    const f = frame.current!;
    let watch: ResizeObserver | undefined;
    const fill = () => {
      const d = f.contentDocument;
      if (!d?.body) return;
      d.body.innerHTML = safe.value.html;
      const fit = () => (f.style.height = `${Math.min(30_000, Math.max(24, Math.ceil(d.body.getBoundingClientRect().height) + 4))}px`);
      watch?.disconnect();
      watch = new ResizeObserver(fit);
      watch.observe(d.body);
      fit();
      d.body.addEventListener("click", (e) => {
        const a = (e.target as Element).closest?.("a[href^='mailto:' i]");
        const asked = a && mailto(a.getAttribute("href")!);
        if (asked) {
          e.preventDefault();
          void write(asked);
        }
      });
    };
    f.addEventListener("load", fill);
    return () => {
      watch?.disconnect();
      f.removeEventListener("load", fill);
    };
  }, []);
  // No scripts in it, whatever it holds; same origin, so that its height can be read and its text be set.
  return <iframe ref={frame} title={m.subject ?? t("noSubject")} sandbox="allow-same-origin allow-popups allow-popups-to-escape-sandbox" src={load ? "/mail-frame?pictures=1" : "/mail-frame"} />;
}

/** Goes to the next or previous message of the list. */
export function step(by: number): void {
  const to = Math.max(0, Math.min(list.value.total - 1, cursor.value + by));
  cursor.value = to;
  const id = list.value.ids[to];
  if (id && reading.value) void open(id);
}
