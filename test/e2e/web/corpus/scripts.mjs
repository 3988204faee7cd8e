// Letters in scripts that are written from right to left, and in those of East Asia.

import { arabic, chinese, hebrew, japanese, korean, picture } from "./chance.mjs";

const fromRight = (r) => r.pick([hebrew, arabic]);

/** The direction stands on the root, the body, a table, or in a style. */
function campaign(r) {
  const of = fromRight(r), where = r.below(4), colour = r.brand();
  const dir = (i) => (where === i ? ` dir="rtl"` : "");
  return `<!DOCTYPE html><html lang="${of === hebrew ? "he" : "ar"}"${dir(0)}><head><meta charset="utf-8"><style>table{border-collapse:collapse} .t{font:16px/1.6 ${r.sans()}} .in{margin-inline-start:24px;padding-inline-end:12px;border-right:4px solid ${colour}}</style></head><body${dir(1)} style="margin:0;background:${r.pale()}"><table width="600" align="center"${dir(2)} style="background:#fff${where === 3 ? ";direction:rtl" : ""}"><tr><td width="180" valign="top" style="padding:14px"><img src="${picture(150, 100, colour)}" width="150" height="100"></td><td class="t" style="padding:14px"><h2 style="margin:0;color:${colour}">${r.title(of)}</h2><p>${r.text(2, of)}</p></td></tr><tr><td colspan="2" class="t" style="padding:14px"><ul><li>${r.sentence(of)}</li><li>${r.sentence(of)} (ABC-${r.from(100, 999)})</li></ul><div class="in">${r.text(1, of)}</div><p style="text-align:start">${r.sentence(of)}</p><p style="text-align:end">${r.sentence(of)}</p></td></tr></table></body></html>`;
}

/** Each direction inside the other. */
function mixed(r) {
  const of = fromRight(r);
  return `<div dir="${r.pick(["ltr", "rtl"])}"><p>${r.sentence()} <span dir="rtl">${r.words(4, of)} 123</span> ${r.words(3)}</p><div dir="rtl"><p>${r.sentence(of)} <b dir="ltr">+43 (1) ${r.from(1000, 9999)}-2</b> ${r.words(3, of)} <bdi>ABC!</bdi></p><blockquote>${r.text(1, of)}<div dir="ltr">${r.sentence()}</div></blockquote><ol><li>${r.sentence(of)}</li><li dir="ltr">${r.sentence()}</li></ol></div><p dir="auto">${r.sentence(of)}</p><p dir="auto">${r.sentence()}</p><p><bdo dir="rtl">${r.words(2)}</bdo></p><table border="1" width="100%"><tr><td dir="rtl">${r.words(5, of)}</td><td>${r.words(5)}</td><td align="right">${r.price()}</td></tr></table></div>`;
}

/** An answer of Gmail that was written from right to left. */
function reply(r) {
  const of = fromRight(r);
  return `<div dir="rtl">${r.text(2, of)}<br></div><br><div class="gmail_quote" dir="rtl"><div dir="rtl" class="gmail_attr">‫${r.words(4, of)}‬ &rlm;&lt;<a href="mailto:a@letters.example">a@letters.example</a>&gt;:<br></div><blockquote class="gmail_quote" style="margin:0px 0.8ex 0px 0px;border-right:1px solid rgb(204,204,204);padding-right:1ex"><div dir="rtl">${r.text(2, of)}<div dir="ltr">${r.sentence()}</div></div></blockquote></div>`;
}

/** A table from right to left that is wider than the column. */
const wide = (r) => `<div dir="rtl" style="font-family:Arial"><table width="${r.pick([900, 1000, 1200])}" border="1" cellspacing="0" cellpadding="6">${r.list(2, 4, () => `<tr>${Array.from({ length: 6 }, () => `<td>${r.words(3, fromRight(r))}</td>`).join("")}</tr>`)}</table><p>${r.sentence(hebrew)}</p></div>`;

function eastAsia(r) {
  const [lang, of] = r.pick([["zh-CN", chinese], ["ja", japanese], ["ko", korean]]);
  const joined = (n) => r.text(n, of, "。").replaceAll(" ", lang === "ko" ? " " : "");
  return `<!DOCTYPE html><html lang="${lang}"><head><meta charset="utf-8"><style>body{margin:0;padding:0;font-family:"Hiragino Sans","Microsoft YaHei",sans-serif;font-size:14px;line-height:1.8;word-break:${r.pick(["break-all", "normal", "keep-all"])}} .box{width:${r.pick([560, 640])}px;margin:0 auto;border:1px solid #e5e5e5}</style></head><body><div class="box"><div style="background:${r.brand()};color:#fff;padding:12px 20px;font-size:18px;letter-spacing:2px">${joined(1).slice(0, 12)}</div><div style="padding:20px"><p style="text-indent:2em;text-align:justify">${joined(4)}</p><table width="100%" cellspacing="0" style="border-collapse:collapse">${r.list(2, 4, () => `<tr><th align="left" bgcolor="#fafafa" style="border:1px solid #eee;padding:6px;width:30%">${r.words(1, of)}</th><td style="border:1px solid #eee;padding:6px">${joined(1)} ${r.price()}</td></tr>`)}</table><p><ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字<rp>(</rp><rt>ji</rt><rp>)</rp></ruby> ${joined(1)}</p><p style="text-align:right;color:#999;font-size:12px">${joined(1)}</p></div></div></body></html>`;
}

export const scripts = [
  { layout: "rtl-campaign", count: 6, make: campaign }, { layout: "rtl-mixed", count: 6, make: mixed }, { layout: "rtl-reply", count: 4, make: reply }, { layout: "rtl-wide", count: 4, make: wide }, { layout: "east-asia", count: 6, make: eastAsia },
];
