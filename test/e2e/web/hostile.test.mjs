// Markup that is harmless when it is read once and harmful when it is read again (mutation XSS), and styles that load or leave
// their place. The ways around sanitisers that have been published, and kin: none of them runs, none asks anybody for anything.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { browser, deliver, open, row, signIn } from "./world.mjs";

after(() => browser.close());

const run = Date.now().toString(36);
const x = `<img src=x onerror=top.hacked=1>`;
const close = (...tags) => tags.map((t) => `</${t}>`).join("");

const mutations = [
  // Namespaces: what is text in one is markup in another.
  `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;${x.replace("<", "&lt;").replace(">", "&gt;")}">`,
  `<form><math><mtext></form><form><mglyph><style></math>${x}`,
  `<svg></p><style><a id="</style>${x}">`,
  `<svg><style><img src=x title="</style>${x}"></style></svg>`,
  `<math><annotation-xml encoding="text/html"><style><!--</style>${x}--></style></annotation-xml></math>`,
  `<math><annotation-xml encoding="application/xhtml+xml"><svg><desc><noscript>${x}</noscript></desc></svg></annotation-xml></math>`,
  `<svg><foreignObject><math><mi><table><mglyph><style><![CDATA[</style>${x}]]></style></table></mi></math></foreignObject></svg>`,
  `<svg><title><template><style>{<!--}</style><a title="--&gt;&lt;/template&gt;${x}"></a></template></title></svg>`,
  `<math><mi><mglyph><svg><mtext><textarea><path id="</textarea>${x}"></textarea></mtext></svg></mglyph></mi></math>`,
  `<svg><a><annotation-xml><html xmlns="http://www.w3.org/1999/xhtml"><body>${x}</body></html></annotation-xml></a></svg>`,
  // Text that ends where nobody thought of it.
  `<noscript><p title="</noscript>${x}">`, `<title><p title="</title>${x}">`, `<textarea><p title="</textarea>${x}">`, `<xmp><p title="</xmp>${x}">`,
  `<noembed><p title="</noembed>${x}">`, `<noframes><p title="</noframes>${x}">`, `<iframe><p title="</iframe>${x}">`, `<style><p title="</style>${x}">`, `<plaintext>${x}`,
  `<template><p title="</template>${x}">`, `<select><template><style><!--</style><a rel="--></style></template></select>${x}">`, `<option><style></option></select>${x}</style>`,
  `<!--><script>top.hacked=2</script>-->`, `<!-- --!>${x} -->`, `<![CDATA[><script>top.hacked=3</script>]]>`, `<?xml ><img src=x onerror=top.hacked=4>?>`, `<a title="--!><img src=x onerror=top.hacked=5>">y</a>`,
  // Deep nesting, which makes parsers move elements.
  `${"<div>".repeat(505)}<form><math><mtext>${"</form><form>".repeat(3)}<mglyph><style><!--</style>${x}`,
  `${"<table><tr><td>".repeat(260)}<svg><style><p title="</style>${x}">`,
  `<table><a id=1><table><a id=2>${x}`, `<b>${"<p>".repeat(20)}</b><svg></p><style><g title="</style>${x}">`,
  // Elements and attributes with a life of their own.
  `<p is="x-hacked" onclick=top.hacked=6 autofocus tabindex=1 onfocus=top.hacked=6>y</p>`, `<x-hacked onconnected=top.hacked=7>y</x-hacked>`,
  `<body onload=top.hacked=8 onpageshow=top.hacked=8>`, `<details open ontoggle=top.hacked=9><summary>y</summary></details>`, `<p popover id=pop onbeforetoggle=top.hacked=10>y</p>`,
  `<svg><animate onbegin=top.hacked=11 attributeName=x dur=1s>`, `<svg><set attributeName=href to=javascript:top.hacked=12 /><a id=h><text>y</text></a></svg>`, `<svg><use href="data:image/svg+xml,<svg id=x xmlns='http://www.w3.org/2000/svg'><script>top.hacked=13</script></svg>#x">`,
  `<a href="java&Tab;script&colon;top.hacked=14">y</a><a href="&#1;javascript:top.hacked=14">y</a><a xlink:href="javascript:top.hacked=14">y</a>`,
  `<iframe srcdoc="<script>top.hacked=15</script>"></iframe><object data="data:text/html,<script>top.hacked=15</script>"></object><embed src="https://evil.example/">`,
  `<math href="javascript:top.hacked=16">y</math><math><maction actiontype="statusline#https://evil.example" xlink:href="javascript:top.hacked=16">y</maction></math>`,
  `<form id=attributes><input name=attributes><input name=nodeName><input name=parentNode></form>${x}`, `<img name=getElementById><img name=body><form name=querySelector>`,
  `<base href="https://evil.example/"><link rel=stylesheet href="https://evil.example/s.css"><link rel=dns-prefetch href="//evil.example"><meta http-equiv=refresh content="0;url=https://evil.example/">`,
  `<video src="https://evil.example/v" poster="https://evil.example/p"></video><audio src="https://evil.example/a"></audio><picture><source srcset="https://evil.example/q"><img src=x></picture><img srcset="https://evil.example/r 2x" src="//evil.example/s" lowsrc="https://evil.example/t" dynsrc="https://evil.example/u">`,
  `<table background="https://evil.example/w"><tr><td background="//evil.example/x">y</td></tr></table><body background="https://evil.example/y">`, `<a href="https://good.example" ping="https://evil.example/ping">y</a>`,
  `${close("div", "body", "html", "iframe")}${x}`,
];

const styles = [
  `background:url(https://evil.example/1)`, `background:\\75rl(https://evil.example/2)`, `background:u/**/rl(https://evil.example/3)`, `b\\61ckground-image:ur\\6c ('//evil.example/4')`,
  `list-style:url(https://evil.example/5)`, `border-image:url(https://evil.example/6) 1`, `cursor:url(https://evil.example/7),auto`, `content:url(https://evil.example/8)`,
  `background:image-set("https://evil.example/9" 1x)`, `background:-webkit-image-set(url(https://evil.example/10) 1x)`, `mask:url(https://evil.example/11#m)`, `filter:url(https://evil.example/12#f)`,
  `--u:url(https://evil.example/13);background:var(--u)`, `shape-outside:url(https://evil.example/14)`, `position:fixed;inset:0`, `posi\\74ion:fi\\78 ed;inset:0`, `position:/**/absolute;top:-9999px`, `transform:scale(99)`,
  `background:cross-fade(url(https://evil.example/15),url(https://evil.example/16),50%)`, `behavior:url(https://evil.example/17)`, `width:expression(top.hacked=17)`, `@import 'https://evil.example/18'`, `clip-path:url(https://evil.example/19)`,
  `animation:x 1s;transition:all 1s`, `color:red;}</style><img src=x onerror=top.hacked=18>`, `font-family:'x</style>'`, `z-index:9999`,
];

const message = (subject, html) => `From: Mallory <mallory@elsewhere.example>\nTo: harry@example.com\nSubject: ${subject}\nMessage-ID: <${subject.replace(/\W/g, "")}@elsewhere.example>\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\n\n${html}\n`;

/** Signs in the person who gets them: dozens of messages would push what other tests look for out of their lists. */
async function enter(page) {
  await deliver("mallory@elsewhere.example", "harry@example.com", message(`First ${run}`, "<p>so that there is a row</p>"));
  await signIn(page, "harry");
}

/** Opens messages of which each is one of the hostile ones, and returns what stands in their frames. */
async function read(page, subject, list) {
  const shown = [];
  for (const [i, html] of list.entries()) {
    await deliver("mallory@elsewhere.example", "harry@example.com", message(`${subject} ${i}.`, `<p>begin</p>${html}`));
    await row(page, `${subject} ${i}.`).click();
    await page.waitForSelector(".mail iframe");
    const body = page.frameLocator(".mail iframe").last().locator("body");
    await body.getByText("begin").first().waitFor({ state: "attached" });
    shown.push(await body.evaluate((b) => ({ html: b.innerHTML, styles: Array.from(b.querySelectorAll("[style]"), (e) => e.getAttribute("style")), places: Array.from(b.querySelectorAll("*"), (e) => getComputedStyle(e).position) })));
  }
  return shown;
}

/** Every way by which something could run or be asked for, in markup. */
const harmful = /<(?:script|style|svg|math|iframe|object|embed|form|input|template|noscript|link|meta|base|video|audio|source|title|textarea|xmp)\b|\son\w+\s*=|javascript:|srcdoc|srcset|\sis="[^"]/i;

/** A title may hold anything: it is text there and stays text when it is read again. */
const tags = (html) => html.replace(/\b(title|alt|rel|data-remote)="[^"]*"/g, '$1=""').replace(/&lt;|&gt;/g, "");

test("markup that changes when it is read again runs nothing and asks for nothing", { timeout: 600_000 }, async () => {
  const page = await open();
  const asked = [];
  page.on("dialog", (d) => { asked.push(d.message()); void d.dismiss(); });
  await enter(page);
  const shown = await read(page, `Mutation ${run}`, mutations);
  await page.waitForTimeout(500);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual([page.foreign, asked], [[], []]);
  for (const [i, s] of shown.entries()) assert.doesNotMatch(tags(s.html), harmful, `${mutations[i]}\n${s.html}`);
});

test("a style loads nothing and leaves its place in no spelling", { timeout: 600_000 }, async () => {
  const page = await open();
  await enter(page);
  const all = styles.map((s, i) => `<p style="${s}">Style ${i}</p>`).join("\n") + `<p style="color:#b00;margin-left:4px;width:calc(50% - 2px);FONT-WEIGHT:bold!important;background:#fde">kept</p>`;
  const [shown] = await read(page, `Style ${run}`, [all]);
  assert.deepEqual(page.foreign, []);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  for (const s of shown.styles) assert.doesNotMatch(s, /url|image|(?:^|; )(?:position|transform)|expression|import(?!ant)|\\|animation|z-index|var\(|--/i);
  assert.deepEqual([...new Set(shown.places)], ["static"]);
  const kept = shown.styles.at(-1);
  for (const part of ["color: rgb(187, 0, 0)", "margin-left: 4px", "calc(50% - 2px)", "font-weight: bold !important", "background-color: rgb(255, 221, 238)"]) assert.ok(kept.includes(part), kept);
});
