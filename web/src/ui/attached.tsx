// The attachments of an event that is looked at, and of one that is written.

import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Link } from "../jmap/calendar";
import { Offline, SignedOut } from "../jmap/client";
import type { Id } from "../jmap/types";
import { attachedOf, maxFile, maxFiles, type Attached as Item } from "../state/attached";
import { say } from "../state/screen";
import { client, signedOut } from "../state/session";
import { refusal, size, t } from "../text";
import { tx } from "../text/files";
import { Icon } from "./icons";

type Links = Record<Id, Link> | null;

export interface Uploading {
  name: string;
  share: number;
  abort: AbortController;
}

function Entry({ f, children }: { f: Item; children?: ComponentChildren }) {
  return (
    <li>
      <a class="file" href={f.url} {...(f.saves ? { download: f.name } : { target: "_blank", rel: "noopener noreferrer" })}>
        <Icon name={f.saves ? "attach" : "link"} /><span class="name" dir="auto">{f.name}</span>{f.host && <span class="quiet" dir="ltr">{f.host}</span>}{f.size !== null && <span class="quiet">{size(f.size)}</span>}
      </a>
      {f.pdf && <a class="tool" href={`${f.url}&preview=1`} target="_blank" rel="noopener noreferrer" aria-label={tx("preview", f.name)} title={tx("preview", f.name)}><Icon name="eye" /></a>}
      {children}
    </li>
  );
}

/** The attachments of an event: a press saves one. */
export function Attached({ account, links }: { account: Id; links: Links | undefined }) {
  const list = attachedOf(account, links);
  return list.length === 0 ? null : <ul class="files" style={{ padding: 0 }} aria-label={tx("attachments")}>{list.map((f) => <Entry key={f.id} f={f} />)}</ul>;
}

/** Uploads files, and adds each as a link when the server has it. The server's refusal is said. */
export async function attach(account: Id, files: File[], have: number, uploads: Signal<Uploading[]>, add: (id: Id, l: Link) => void): Promise<void> {
  for (const f of files) {
    if (f.size > maxFile) {
      say(tx("atMost", f.name, size(maxFile)), undefined, 10);
      continue;
    }
    if (have++ >= maxFiles) return void say(tx("tooMany", maxFiles), undefined, 10);
    const up: Uploading = { name: f.name, share: 0, abort: new AbortController() };
    uploads.value = [...uploads.value, up];
    try {
      const blob = await client.upload(account, f, (share) => {
        up.share = share;
        uploads.value = [...uploads.value];
      }, up.abort.signal);
      add(crypto.randomUUID(), { "@type": "Link", rel: "enclosure", blobId: blob.blobId, title: f.name, contentType: f.type || blob.type, size: blob.size });
    } catch (e) {
      if (e instanceof SignedOut) signedOut();
      else if (!(e instanceof DOMException)) say(e instanceof Offline ? t("cannotReach") : refusal(e), undefined, 10);
    } finally {
      uploads.value = uploads.value.filter((u) => u !== up);
    }
  }
}

interface Writing {
  account: Id;
  links: Links;
  uploads: Signal<Uploading[]>;
  take: (files: File[]) => void;
  remove: (id: Id) => void;
}

/** The attachments in the editor of an event. */
export function AttachmentField({ account, links, uploads, take, remove }: Writing) {
  const chooser = useRef<HTMLInputElement>(null);
  const list = attachedOf(account, links);
  return (
    <div class="attachments">
      {(list.length > 0 || uploads.value.length > 0) && (
        <ul class="files" style={{ padding: 0 }} aria-label={tx("attachments")}>
          {list.map((f) => <Entry key={f.id} f={f}><button type="button" class="tool" aria-label={t("removeAttachment", f.name)} title={t("removeAttachment", f.name)} onClick={() => remove(f.id)}><Icon name="close" /></button></Entry>)}
          {uploads.value.map((u) => (
            <li class="file"><span class="name" dir="auto">{u.name}</span><progress value={u.share} aria-label={t("uploading", u.name)} />
              <button type="button" class="tool" aria-label={t("cancel")} onClick={() => u.abort.abort()}><Icon name="close" /></button></li>
          ))}
        </ul>
      )}
      <button type="button" class="button" onClick={() => chooser.current!.click()}><Icon name="attach" />{t("attach")}</button>
      <input ref={chooser} type="file" multiple hidden aria-label={t("attach")} onChange={(e) => { take([...e.currentTarget.files!]); e.currentTarget.value = ""; }} />
    </div>
  );
}
