import { browser, open, base } from "./world.mjs";
const out = process.env.OUT ?? "/tmp/shots";
const want = (process.env.PAGES ?? "overview,people,groups,databases,domains,queue,sessions,cluster,statistics,log").split(",");
const sizes = (process.env.SIZES ?? "1440,390").split(",").map(Number);
for (const dark of (process.env.DARK ?? "0").split(",").map((x) => x === "1")) for (const width of sizes) {
  const page = await open({ width, height: width < 500 ? 844 : 900, dark });
  await page.goto(base + "/admin/");
  await page.fill("input[name=user]", "alice"); await page.fill("input[name=password]", "demo"); await page.click("button.primary");
  await page.waitForSelector(".stage");
  for (const p of want) {
    await page.evaluate((p) => { location.hash = "#/" + p; }, p);
    await page.waitForTimeout(Number(process.env.WAIT ?? 1500));
    if (["people","groups","databases","domains"].includes(p) && !process.env.NOOPEN) { const l = page.locator(".lines .line").first(); await l.click().catch(()=>{}); await page.waitForTimeout(700); }
    await page.screenshot({ path: `${out}/${p}-${width}${dark ? "-dark" : ""}.png` });
  }
  if (page.wrong.length) console.log(page.wrong);
  await page.context().close();
}
await browser.close();
