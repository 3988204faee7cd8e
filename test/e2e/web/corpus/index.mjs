// The letters of the corpus: 200 and more, made by layouts from seeds, and those of letters/. What the client leaves out or shows
// otherwise on purpose is listed here with its reason; the browser's own picture of a letter is made without it too.

import { readdirSync, readFileSync } from "node:fs";
import { Chance, dataPicture, png } from "./chance.mjs";
import { campaigns } from "./campaigns.mjs";
import { pages } from "./pages.mjs";
import { replies } from "./replies.mjs";
import { scripts } from "./scripts.mjs";

/** Where a letter says nothing, the client decides: rules of these stand before those of the letter. */
export const ours = {
  mode: { why: "standards mode, with or without a doctype, as in other web mail: a frame has its mode before it has the letter" },
  font: { why: "text without a font or a colour is in that of the page", rules: "html{color:#1f2429} body{font:15px/1.5 system-ui,sans-serif}" },
  words: { why: "a word that is wider than the column is broken, and lines of <pre> are", rules: "body{overflow-wrap:break-word} pre{white-space:pre-wrap}" },
  pictures: { why: "a picture that is wider than the column becomes narrower, and lower as much", rules: "img{max-width:100%} td img,th img{max-width:1442px}" },
  quotes: { why: "a line at its side shows that a text is quoted", rules: "blockquote{margin:8px 0;padding-left:12px;border-left:3px solid #dcd6c9;color:#565e67}" },
};

/** What is left out on purpose: the reason, and rules that make the browser do the same with the letter as it came. */
export const leftOut = {
  place: { why: "what is placed could lie over other parts, or outside the letter", rules: "*{position:static!important}" },
  motion: { why: "animations draw the eye, and take the processor", rules: "*,*::before,*::after{animation:none!important;transition:none!important;transform:none!important}" },
  effects: { why: "filters and blending take the processor, and can hide text", rules: "*{filter:none!important;mix-blend-mode:normal!important}" },
  generated: { why: "generated text is not that of the letter: it cannot be searched, copied or quoted", rules: ":not(q)::before,:not(q)::after{content:none!important}" },
  forms: { why: "a form would send what is typed to anybody", rules: "input,select,textarea{display:none!important} button{all:unset}" },
  videos: { why: "a video would be loaded; what the letter has for programs without videos is shown", markup: /<\/?(?:video|source)\b[^>]*>/giu },
  drawings: { why: "SVG and MathML hide scripts from programs that remove them", rules: "svg,math{display:none!important}" },
  frames: { why: "a frame would load a page", rules: "iframe,object,embed{display:none!important}" },
};

/** Letters that look otherwise than by such rules, each with the reason. */
export const otherwise = new Map([["spacers", "a picture of 1200 by 300 that its letter gives no room becomes lower as it becomes narrower"]]);

export const layouts = [...campaigns, ...replies, ...scripts, ...pages];

const made = layouts.flatMap(({ layout, count, make, tolerance }, of) => Array.from({ length: count }, (_, i) => {
  const letter = make(new Chance(1000 * (of + 1) + i));
  return { name: `${layout}-${i + 1}`, layout, html: letter.html ?? letter, cids: letter.cids ?? {}, tolerance };
}));

const folder = new URL("../letters/", import.meta.url);
const kept = readdirSync(folder).filter((n) => n.endsWith(".eml")).map((n) => {
  const source = readFileSync(new URL(n, folder), "utf8");
  return { name: n.slice(0, -4), layout: "letters", html: source.slice(source.indexOf("\n\n") + 2), cids: {} };
});

export const letters = [...kept, ...made];

const wrap = (text) => text.replace(/.{76}/g, "$&\n");

/** A letter as it is sent. */
export function message({ html, cids }, subject) {
  const head = `From: Nora <nora@corpus.example>\nTo: harry@example.com\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}@corpus.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\n`;
  const text = `Content-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: base64\n\n${wrap(Buffer.from(html).toString("base64"))}\n`;
  if (Object.keys(cids).length === 0) return head + text;
  const parts = Object.entries(cids).map(([cid, of]) => `Content-Type: image/png\nContent-ID: <${cid}>\nContent-Disposition: inline; filename=${cid.split("@")[0]}.png\nContent-Transfer-Encoding: base64\n\n${wrap(png(...of).toString("base64"))}\n`);
  return `${head}Content-Type: multipart/related; boundary=part; type="text/html"\n\n${[text, ...parts].map((p) => `--part\n${p}`).join("")}--part--\n`;
}

const withParts = ({ html, cids }) => Object.entries(cids).reduce((out, [cid, of]) => out.replaceAll(`cid:${cid}`, dataPicture(...of)), html);

const sheet = (of) => `<style>${Object.values(of).map((o) => o.rules ?? "").join("\n")}</style>`;
const [before, behind] = [sheet(ours), sheet(leftOut)];

/** A letter as the browser is to show it: as it came, but for what is listed above. */
export function expected(letter) {
  const html = Object.values(leftOut).reduce((out, { markup }) => (markup ? out.replace(markup, "") : out), withParts(letter));
  return `<!DOCTYPE html>${before}${html.replace(/<!doctype[^>]*>/i, "")}${behind}`;
}
