import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
const [out, w, ...files] = process.argv.slice(2);
const b = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--headless", "--no-sandbox"] });
const p = await b.newPage({ viewport: { width: 1900, height: 1000 } });
await p.setContent(`<body style="margin:0;display:flex;flex-wrap:wrap;gap:8px;background:#888">${files.map((f) => `<img style="width:${w}px" src="data:image/png;base64,${readFileSync(f).toString("base64")}">`).join("")}</body>`);
await p.waitForTimeout(300);
await p.screenshot({ path: out, fullPage: true });
await b.close();
