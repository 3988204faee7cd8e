// A message in HTML, in a frame of its own.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Message } from "../jmap/types";
import { isDark } from "../state/prefs";
import { menu, sheet } from "../state/screen";
import { account, client, online } from "../state/session";
import { t } from "../text";
import { fill, fit, type Shown } from "./fit";
import { safeLetter, type Letter } from "./letter";
import { leadOf, type Lead } from "./links";
import { unescaped } from "./quoted";
import { mailto } from "./mailto";
import { watchNear } from "./near";
import { write } from "./writing";

/** The look of a message: dark in the page's colours if it has none, in its own if it is dark, else light. */
function toneOf({ tone }: Letter): Shown["tone"] {
  if (!isDark.value) return "light";
  if (tone.saysDark && tone.darkText && tone.darkGround) return "dark";
  return tone.designed ? "light" : "plain";
}

/** A key that is pressed in the frame is pressed in the page, as far as the frame has no use for it. */
function passKey(frame: HTMLIFrameElement, e: KeyboardEvent): void {
  if ((e.key === "Enter" || e.key === " ") && (e.target as Element).closest?.("a,summary")) return;
  const copy = new KeyboardEvent("keydown", {
    key: e.key, code: e.code, location: e.location, repeat: e.repeat, isComposing: e.isComposing,
    ctrlKey: e.ctrlKey, shiftKey: e.shiftKey, altKey: e.altKey, metaKey: e.metaKey, bubbles: true, cancelable: true,
  });
  if (!frame.dispatchEvent(copy)) e.preventDefault();
}

const linkAt = (e: Event) => (e.target as Element).closest?.("a[href]");

/** Scrolls to a place in the message. The browser itself would make it a step of the history. */
function jump(a: Element): void {
  const id = unescaped(a.getAttribute("href")!.slice(1));
  (a.ownerDocument.getElementById(id) ?? (/^(?:top)?$/iu.test(id) ? a.ownerDocument.body : null))?.scrollIntoView();
}

function follow(e: MouseEvent): void {
  const a = linkAt(e), lead = leadOf(a);
  if (a?.getAttribute("href")!.startsWith("#")) {
    e.preventDefault();
    jump(a);
  }
  if (!lead) return;
  const asked = /^mailto:/iu.test(lead.url) ? mailto(a!.getAttribute("href")!) : null;
  if (asked) {
    e.preventDefault();
    void write(asked);
  } else if (lead.named) {
    e.preventDefault();
    sheet.value = {
      kind: "ask", title: t("linkElsewhere"), text: t("linkElsewhereAsk", lead.named, lead.host), yes: t("linkOpen"), danger: true,
      done: () => void open(lead.url, "_blank", "noopener,noreferrer"),
    };
  }
}

/** Listens in the frame's document: it has no scripts of its own. */
function listen(frame: HTMLIFrameElement, lead: (l: Lead | null) => void): void {
  const d = frame.contentDocument!;
  d.addEventListener("keydown", (e) => passKey(frame, e));
  d.addEventListener("pointerdown", () => (menu.value = null)); // a press beside a menu closes it
  d.addEventListener("click", follow);
  d.addEventListener("auxclick", (e) => e.button === 1 && follow(e));
  for (const begins of ["mouseover", "focusin"]) d.addEventListener(begins, (e) => lead(leadOf(linkAt(e))));
  for (const ends of ["mouseleave", "focusout"]) d.addEventListener(ends, () => lead(null));
  d.documentElement.addEventListener("mouseleave", () => lead(null));
}

/** The words of foreign HTML, of which nothing is loaded or run. */
function wordsOf(html: string): string {
  const d = new DOMParser().parseFromString(html.replace(/<(?:br|\/p|\/div|\/tr|\/li|\/h\d)\b/giu, "\n$&"), "text/html");
  for (const e of d.querySelectorAll("style,script,title")) e.remove();
  return (d.body.textContent ?? "").split("\n").map((line) => line.trim()).filter(Boolean).join("\n");
}

/** A frame with foreign HTML; it is as high as what it shows. One that is far from what is shown has no frame (near.ts). */
export function Foreign({ m, html, load, remote }: { m: Message; html: string; load: boolean; remote: (r: boolean) => void }) {
  const frame = useRef<HTMLIFrameElement>(null), box = useRef<HTMLDivElement>(null);
  const lead = useSignal<Lead | null>(null);
  const near = useSignal(false);
  const ready = useSignal(false);
  const watch = useRef<ReturnType<typeof watchNear> | null>(null);
  const tone = useSignal<Shown["tone"]>("light");
  useEffect(() => {
    const is = watchNear(box.current!, (to) => {
      near.value = to;
      if (!to) ready.value = false;
    }, () => wordsOf(html));
    watch.current = is;
    return is.end;
  }, [html]);
  useEffect(() => {
    const d = frame.current?.contentDocument;
    if (!ready.value || !d?.body) return undefined;
    const safe = safeLetter(html, load, isDark.value, (cid) => {
      const a = m.attachments.find((x) => x.cid === cid && x.blobId && x.type.startsWith("image/"));
      return a && online.value ? client.blobURL(account.value, a.blobId!, a.type, a.name ?? "image") : undefined;
    }, d.defaultView!);
    remote(safe.remote);
    tone.value = toneOf(safe);
    fill(d, { ...safe, tone: tone.value });
    const end = fit(frame.current!, box.current!);
    watch.current?.filled(true);
    return () => {
      end();
      watch.current?.filled(false);
    };
  }, [ready.value, html, load, isDark.value, online.value]);
  const loaded = () => {
    if (!frame.current?.contentDocument?.body) return;
    listen(frame.current, (l) => (lead.value = l));
    ready.value = true;
  };
  // No scripts in it, whatever it holds; same origin, so that its height can be read and its text be set.
  return (
    <div class="letter" data-tone={tone.value} ref={box}>
      {near.value && <iframe ref={frame} onLoad={loaded} title={m.subject ?? t("noSubject")} sandbox="allow-same-origin allow-popups allow-popups-to-escape-sandbox" src={load ? "/mail-frame?pictures=1" : "/mail-frame"} />}
      {lead.value && <Leads lead={lead.value} />}
    </div>
  );
}

/** The target of the link below the pointer, its host first. */
function Leads({ lead: { url, host, named } }: { lead: Lead }) {
  const at = host ? url.indexOf(host) : -1;
  return (
    <div class={`leads ${named ? "warn" : ""}`}>
      {named && <strong>{t("linkElsewhere")} · </strong>}
      {at < 0 ? url : <>{url.slice(0, at)}<b>{host}</b>{url.slice(at + host.length, at + host.length + 300)}</>}
    </div>
  );
}
