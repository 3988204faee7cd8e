// Attachments that are looked at: pictures, PDF in the browser's own viewer, text; and the archive of all.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Id, Message, Part } from "../jmap/types";
import { readPart } from "../state/messages";
import { sheet } from "../state/screen";
import { account, attempt, client } from "../state/session";
import { size } from "../text";
import { tx } from "../text/files";
import { Frame } from "./above";
import { Icon } from "./icons";
import { Long } from "./plain";
import { NotYet, useWhole } from "./whole";

/** The most of a text that is fetched, in bytes. */
const longestText = 2_000_000;

type Kind = "picture" | "pdf" | "text";

/** The kind of preview of a part; undefined: none. SVG counts as no picture: it is a document that may load others. */
export function kindOf(p: Part): Kind | undefined {
  const type = p.type.toLowerCase();
  if (/^image\/(?:png|jpe?g|gif|webp|avif|bmp)$/u.test(type)) return "picture";
  if (type === "application/pdf") return "pdf";
  if (/^text\/(?!html|calendar)/u.test(type) || /^application\/(?:json|xml|x-yaml|yaml|toml|x-sh|javascript)$/u.test(type)) return "text";
  return undefined;
}

const nameOf = (p: Part) => p.name ?? p.type;
const urlOf = (p: Part) => client.blobURL(account.value, p.blobId!, p.type, p.name ?? "file");

/** The files below a message: each to save, and to look at; all in one archive. */
export function Files({ m, files }: { m: Message; files: Part[] }) {
  const shown = files.filter((f) => f.blobId && kindOf(f));
  const zip = () => {
    const query = new URLSearchParams();
    for (const f of files) if (f.blobId) query.append("blob", f.blobId);
    for (const f of files) if (f.blobId) query.append("as", nameOf(f));
    const name = (m.subject ?? "").replace(/[\\/:*?"<>|\p{Cc}]/gu, "_").slice(0, 80) || "attachments";
    return `/jmap/zip/${encodeURIComponent(account.value)}/${encodeURIComponent(`${name}.zip`)}?${query.toString()}`;
  };
  return (
    <>
      {files.map((f) => f.blobId && (
        <li key={f.blobId}>
          <a class="file" href={urlOf(f)} download={f.name ?? "file"}>
            <Icon name="attach" /><span class="name">{nameOf(f)}</span><span class="quiet">{size(f.size)}</span>
          </a>
          {kindOf(f) && <button class="tool" aria-label={tx("preview", nameOf(f))} title={tx("preview", nameOf(f))} onClick={() => (sheet.value = { kind: "preview", of: m.id, at: shown.indexOf(f) })}><Icon name="eye" /></button>}
        </li>
      ))}
      {files.length > 1 && files.length <= 200 && <li><a class="button all" href={zip()} download><Icon name="download" />{tx("all")}</a></li>}
    </>
  );
}

/** The sheet with one attachment of a message; the arrow keys lead to the others. */
export function Preview({ of, at }: { of: Id; at: number }) {
  const now = useSignal(at);
  const whole = useWhole(of);
  const shown = (whole.m?.attachments ?? []).filter((f) => f.blobId && kindOf(f));
  const part = shown[now.value];
  if (!part) return whole.m ? null : <Frame title={tx("attachments")}><NotYet of={whole} /></Frame>;
  const step = (by: number) => (now.value = (now.value + by + shown.length) % shown.length);
  return (
    <Frame title={nameOf(part)}>
      <div class="looked" onKeyDown={(e) => {
        if (shown.length < 2 || (e.key !== "ArrowLeft" && e.key !== "ArrowRight") || (e.target as Element).closest(".scrolls")) return;
        e.preventDefault();
        step(e.key === "ArrowLeft" ? -1 : 1);
      }}>
        <Shown key={part.blobId} part={part} />
        <div class="ends">
          {shown.length > 1 && <button class="tool" autofocus aria-label={tx("previous")} title={tx("previous")} onClick={() => step(-1)}><Icon name="back" /></button>}
          {shown.length > 1 && <span class="quiet" role="status">{tx("of", now.value + 1, shown.length)}</span>}
          {shown.length > 1 && <button class="tool turned" aria-label={tx("next")} title={tx("next")} onClick={() => step(1)}><Icon name="back" /></button>}
          {kindOf(part) === "pdf" && <a class="button" href={`${urlOf(part)}&preview=1`} target="_blank" rel="noopener noreferrer">{tx("openTab")}</a>}
          <a class="button primary" href={urlOf(part)} download={part.name ?? "file"}><Icon name="download" />{tx("download")}</a>
        </div>
      </div>
    </Frame>
  );
}

function Shown({ part }: { part: Part }) {
  const kind = kindOf(part);
  const text = useSignal<string | null>(null);
  const failed = useSignal(false);
  useEffect(() => {
    if (kind !== "text") return;
    void attempt(() => readPart(part)).then((t) => { if (t === undefined) failed.value = true; else text.value = t; }, () => (failed.value = true));
  }, []);
  if (failed.value) return <p class="said" role="alert">{tx("failed")}</p>;
  if (kind === "picture") return <img src={urlOf(part)} alt={nameOf(part)} onError={() => (failed.value = true)} />;
  if (kind === "pdf") return <iframe title={nameOf(part)} src={`${urlOf(part)}&preview=1`} />;
  return (
    <div class="scrolls source" tabIndex={0}>
      {text.value !== null && text.value.length > longestText && <p class="notice">{tx("long")}</p>}
      {text.value !== null && <Long text={text.value.slice(0, longestText)} bare />}
    </div>
  );
}
