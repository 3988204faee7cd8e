// Administration in the browser: what an administrator does, and what others may not.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, base, browser, counts, deliver, open, until } from "./world.mjs";

after(() => browser.close());

async function enter(page, path = "", user = "alice") {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.goto(`${base}/admin/${path}`);
  await page.fill("input[name=user]", user);
  await page.fill("input[name=password]", "demo");
  await page.click("button.primary");
  await page.waitForSelector(user === "alice" ? ".stage" : ".gate-card [role=alert]");
}

const line = (page, text) => page.locator(".lines .line", { hasText: text }).first();
const toast = (page, text) => page.locator(".toast", { hasText: text }).first().waitFor();

test("who is no administrator is told so, and no verb is run for them", async () => {
  const page = await open();
  await enter(page, "", "bob");
  assert.match(await page.textContent(".gate-card"), /role Admin/);
  const status = await page.evaluate(async () => {
    const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
    return (await fetch("/admin/verbs/user/list", { method: "POST", headers: { "X-CSRF-Token": csrf }, body: "{}" })).status;
  });
  assert.equal(status, 403);
});

test("a person is added, found, changed, given an app password and a new password, disabled, removed and brought back", async () => {
  const page = await open();
  await enter(page, "#/people");
  await page.click("text=Add a person");
  await page.fill("dialog input[name=name]", "Frida Falk");
  await page.fill("dialog input[name=short]", "frida");
  await page.click("dialog >> text=Make one up");
  const password = await page.inputValue("dialog input[name=new-password]");
  assert.ok(password.length > 15);
  await page.fill("dialog input[name=quota]", "2 GB");
  await page.click("dialog button.primary");
  await toast(page, "Frida Falk is added");
  await page.waitForSelector(".detail h1:has-text('Frida Falk')");
  assert.match(await page.textContent(".facts"), /2 GB/);
  const other = await open();
  await other.goto(base);
  await other.fill("input[name=user]", "frida");
  await other.fill("input[name=password]", password);
  await other.click("button.primary");
  await other.waitForSelector(".frame");

  await page.fill("[data-find]", "FALK");
  await page.waitForFunction(() => document.querySelectorAll(".lines .line").length === 1);
  const found = page.waitForResponse((r) => (r.request().postData() ?? "").includes("frida@exam"));
  await page.fill("[data-find]", "frida@exam");
  await (await found).finished();
  await counts(page.locator(".lines .line"), 1);
  await page.click(".opened .button");
  await page.fill("dialog input >> nth=0", "Frida Falkenberg");
  await page.click("dialog button.primary");
  await page.waitForSelector(".detail h1:has-text('Frida Falkenberg')");

  await page.fill(".inline-form input", "her telephone");
  await page.click("text=Make an app password");
  await page.waitForSelector(".secret code");
  await page.waitForSelector(".plain-list >> text=her telephone");

  await page.click("text=Disable");
  await page.waitForSelector("dialog:has-text('mail to them is refused')");
  await page.click("dialog button.danger");
  await page.waitForSelector(".detail .notice:has-text('disabled')");
  await other.reload();
  await other.waitForSelector("input[name=password]");
  await page.click(".detail .notice button");
  await page.waitForSelector(".detail .notice:has-text('disabled')", { state: "detached" });

  await page.click("text=Set a new password");
  await page.fill("dialog input[name=new-password]", "short");
  await page.click("dialog button.primary");
  await counts(page.locator("dialog"), 1); // too short: the browser says so
  await page.fill("dialog input[name=new-password]", "quite-long-enough");
  await page.click("dialog button.primary");
  await toast(page, "password of Frida Falkenberg is set");

  await page.click(".detail .danger:has-text('Remove')");
  await page.click("dialog button.danger");
  await page.click(".toast:has-text('is removed') >> text=Bring back");
  await toast(page, "is back");
  await line(page, "Frida Falkenberg").waitFor();
  assert.deepEqual([...page.wrong, ...other.wrong], []);
});

test("groups, databases, domains: members, access lists, service, records", async () => {
  const page = await open();
  await enter(page, "#/groups");
  await page.click("text=Add a group");
  await page.fill("dialog input[name=name]", "Gardeners");
  await page.fill("dialog textarea", "alice\nbob@example.com");
  await page.click("dialog button.primary");
  await page.waitForSelector(".detail h2:has-text('2 members')");
  await page.click("[aria-label='Remove Bob Cratchit']");
  await page.waitForSelector(".detail h2:has-text('1 members')");

  await page.click(".side >> text=Databases");
  await page.waitForSelector(".bar h2:has-text('Databases')");
  await page.fill("[data-find]", "carol");
  await line(page, "Carol").click();
  await page.waitForSelector(".detail .table >> text=INBOX");
  await page.fill(".detail .inline-form input", "bob");
  await page.click(".detail .inline-form button");
  await page.waitForSelector(".plain-list >> text=Bob Cratchit");
  await page.click("text=Take out of service");
  await page.click("dialog button.danger");
  await page.waitForSelector(".detail .notice:has-text('out of service')");
  await page.click(".detail .notice button");
  await page.waitForSelector(".detail .notice", { state: "detached" });
  await page.click(".detail .buttons >> text=Check");
  await toast(page, "is clean");
  await page.click(".detail .buttons >> text=Switch the index off");
  await page.waitForSelector(".detail .facts >> text=off: searches read the texts");
  await page.waitForSelector(".detail .buttons >> text=Build search anew", { state: "detached" });
  await page.click(".detail .buttons >> text=Switch the index on");
  await page.waitForSelector(".detail .buttons >> text=Build search anew");

  await page.click(".side >> text=Domains and DNS");
  await line(page, "example.com").click();
  await page.waitForSelector(".records >> text=v=spf1 mx ~all");
  assert.deepEqual(page.wrong, []);
});

test("the queue, sessions, statistics and the log are live; what administrators did stands there", async () => {
  const page = await open();
  await enter(page, "#/queue");
  // A route on hold keeps mail in the queue.
  const verb = (name, args) => page.evaluate(async ([name, args]) => {
    const { csrf } = await (await fetch("/auth/session", { headers: { Accept: "application/json" } })).json();
    return (await fetch(`/admin/verbs/${name}`, { method: "POST", headers: { "X-CSRF-Token": csrf }, body: JSON.stringify(args) })).text();
  }, [name, args]);
  await verb("route/add", { pattern: "held.example", hold: true });
  await verb("user/set", { name: "carol", forward: ["far@held.example"] });
  await deliver("mallory@elsewhere.example", "carol@example.com", "From: mallory@elsewhere.example\nTo: carol@example.com\nSubject: goes on\n\nx");
  await line(page, "far@held.example").click({ timeout: 20_000 });
  await page.waitForSelector(".detail >> text=Recipients");
  // A server that takes its time: what the page reads meanwhile is of before.
  await page.route("**/verbs/queue/hold", async (route) => {
    await new Promise((done) => setTimeout(done, 1000));
    return route.continue();
  });
  await page.click(".detail .buttons >> text=Hold");
  await page.waitForSelector(".detail .facts >> text=held");
  await page.click(".detail .buttons >> text=Release");
  await page.click(".detail .danger:has-text('Drop')");
  await page.waitForSelector("dialog:has-text('nobody is told')");
  await page.click("dialog button.danger");
  await page.waitForSelector("text=Nothing waits");
  await page.click("[role=tab] >> text=Trace");
  await page.fill(".inline-form input", "far@held.example");
  await page.click(".inline-form button");
  await page.waitForSelector(".trace >> text=dropped");

  await page.click(".side >> text=Sessions");
  await page.waitForSelector(".table >> text=Alice Liddell");
  await page.click(".side >> text=Statistics");
  await page.waitForSelector(".chart .over", { state: "attached" });
  await page.fill("[data-find]", "Mail.TotalRouted");
  await page.click(".stats .link:has-text('Mail.TotalRouted')");
  await page.waitForSelector(".own-chart >> text=Mail.TotalRouted");
  await page.click(".side >> text=Log");
  await page.click("text=only administrators");
  await page.waitForSelector(".log >> text=verb=\"queue drop\" by=\"Alice Liddell\"");
  await page.click(".side >> text=Overview");
  await page.waitForSelector(".headline");
  await page.click(".side >> text=Cluster");
  await page.waitForSelector("text=This server is in no cluster");
  assert.deepEqual(page.wrong.filter((w) => !/500/.test(w)), []);
});

test("mail rules and retention policies are made, changed, ordered, tried, turned off and removed; mail follows them", async () => {
  const page = await open();
  await enter(page, "#/rules");
  const lastBlock = (side) => page.locator(`dialog [data-side=${side}]`);
  const condition = async (side, kind, text) => {
    await lastBlock(side).locator("select").selectOption(kind);
    if (text) await lastBlock(side).locator("textarea").last().fill(text);
  };
  await page.click("text=Add a rule");
  await page.fill("dialog input[name=name]", "programs");
  await condition("when", "attachment", "*.exe\n*.scr");
  await condition("when", "direction");
  await lastBlock("when").getByLabel("from outside").check();
  await condition("unless", "from", "@partner.example");
  await page.getByLabel("Refuse with the text").fill("No programs, please");
  assert.deepEqual(await barriers(page), [], "the form of a rule");
  await page.click("dialog button.primary");
  await page.waitForSelector(".told >> text=*.exe, *.scr");
  await page.waitForSelector(".told >> text=@partner.example");
  const mail = (from) => deliver(from, "carol@example.com", `From: ${from}\nTo: carol@example.com\nSubject: run me\nMIME-Version: 1.0\nContent-Type: application/octet-stream; name=run.exe\nContent-Disposition: attachment; filename=run.exe\n\nx`);
  await assert.rejects(mail("mallory@elsewhere.example"), /No programs, please/);
  await mail("mallory@partner.example");

  await page.click("text=Add a rule");
  await page.fill("dialog input[name=name]", "imprint");
  await page.getByLabel("Put this text under the message").fill("Example Ltd.");
  await page.click("dialog button.primary");
  await page.waitForSelector(".told >> text=Example Ltd.");
  await page.click(".detail >> text=Move up");
  await page.waitForSelector(".lines li:first-child:has-text('imprint')");
  await page.click(".opened >> text=Change");
  await page.fill("dialog input[name=name]", "imprint of all");
  await condition("when", "larger");
  await lastBlock("when").getByRole("textbox", { name: "Larger than" }).fill("much");
  await page.click("dialog button.primary");
  await toast(page, "much"); // it is no size: nothing changes, and the form stays
  await lastBlock("when").getByRole("textbox", { name: "Larger than" }).fill("1 KB");
  await page.click("dialog button.primary");
  await page.waitForSelector(".detail h1:has-text('imprint of all')");
  await page.waitForSelector(".told >> text=Larger than: 1 KB");
  await page.click(".detail >> text=Turn off");
  await page.waitForSelector(".detail .notice:has-text('off')");
  for (const name of ["imprint of all", "programs"]) {
    await line(page, name).click();
    await page.waitForSelector(`.detail h1:has-text('${name}')`);
    await page.click(".detail .danger:has-text('Remove')");
    await page.click("dialog button.danger");
    await toast(page, `${name} is removed`);
    await page.waitForSelector(".detail", { state: "detached" });
  }

  await page.click(".side >> text=Retention");
  await page.click("text=Add a policy");
  await page.fill("dialog input[name=name]", "old mail");
  await page.fill("dialog input[type=number]", "1");
  await page.getByLabel("Folders", { exact: false }).first().fill("INBOX");
  await page.locator("dialog textarea").first().fill("bob");
  assert.deepEqual(await barriers(page), [], "the form of a policy");
  await page.click("dialog button.primary");
  await page.waitForSelector(".detail .notice:has-text('off')"); // it waits until somebody has seen its effect
  await page.click("text=Show the effect of today");
  await page.waitForSelector("dialog td:has-text('Bob Cratchit')");
  await page.keyboard.press("Escape");
  await page.click(".detail .notice button");
  await page.waitForSelector(".detail .notice", { state: "detached" });
  await page.click(".opened >> text=Change");
  await page.fill("dialog input[type=number]", "3650");
  await page.selectOption("dialog select", "keep");
  await page.click("dialog button.primary");
  await page.waitForSelector(".opened:has-text('After 3,650 days: keep until then')");
  await page.click(".detail .danger:has-text('Remove')");
  await page.click("dialog button.danger");
  await toast(page, "old mail is removed");
  assert.deepEqual(page.wrong.filter((w) => !/400/.test(w)), []);
});

test("a list that was read before a change, and comes after it, is not shown", async () => {
  const page = await open({ worker: false });
  await enter(page, "#/retention");
  await page.click("text=Add a policy");
  await page.fill("dialog input[name=name]", "late answer");
  await page.fill("dialog input[type=number]", "3650");
  await page.click("dialog button.primary");
  await page.waitForSelector(".detail .notice:has-text('off')");
  let go, asked = 0;
  const gone = new Promise((done) => (go = done));
  await page.route("**/verbs/retention/list", async (route) => {
    if (asked++ > 0) return route.continue();
    const response = await route.fetch();
    await gone;
    return route.fulfill({ response });
  });
  await page.click(".detail .notice button");
  await until(() => asked === 1);
  const days = async (n, text) => {
    await page.click(".opened >> text=Change");
    await page.fill("dialog input[type=number]", String(n));
    await page.click("dialog button.primary");
    await page.waitForSelector(`.opened:has-text('${text}')`);
  };
  await days(3651, "After 3,651 days");
  await page.evaluate(() => {
    window.seen = 0;
    new MutationObserver(() => (window.seen += document.querySelector(".stage").textContent.includes("3,650"))).observe(document.body, { childList: true, characterData: true, subtree: true });
  });
  const late = page.waitForResponse((r) => r.url().endsWith("/retention/list"));
  go();
  await (await late).finished();
  await days(3652, "After 3,652 days"); // what comes behind it
  assert.equal(await page.evaluate(() => window.seen), 0);
  await page.click(".detail .danger:has-text('Remove')");
  await page.click("dialog button.danger");
  await toast(page, "late answer is removed");
  assert.deepEqual(page.wrong, []);
});

test("the console runs Domino's commands, completes and remembers them; the role alone opens no files; a chart goes back in time", async () => {
  const page = await open();
  const words = Promise.all(["commands", "tasks"].map((x) => page.waitForResponse((r) => r.url().endsWith(`/show/${x}`))));
  await enter(page, "#/console");
  await (await words).reduce((before, r) => before.then(() => r.finished()), Promise.resolve());
  const input = page.locator("#console-line");
  const shown = (kind, text) => page.locator(`.console .${kind}`, { hasText: text }).first().waitFor();
  await input.pressSequentially("sh");
  await until(async () => { // the page may take a moment to take the commands that it has read
    await input.press("Tab");
    return (await input.inputValue()) === "show ";
  });
  await input.pressSequentially("ta");
  await input.press("Tab");
  assert.equal(await input.inputValue(), "show tasks");
  await input.press("Enter");
  await shown("typed", "> show tasks");
  await shown("output", "Router");
  await input.fill("tell snooze quit");
  await input.press("Enter");
  await shown("output", "snooze has quit");
  await input.fill("load snooze");
  await input.press("Enter");
  await shown("output", "snooze is loaded");
  await input.fill("frobnicate");
  await input.press("Enter");
  await shown("failed", "help lists the commands");
  await input.fill("backup /tmp/nowhere");
  await input.press("Enter");
  await shown("failed", "only on the server's machine");
  await input.press("ArrowUp");
  await input.press("ArrowUp");
  await input.press("ArrowUp");
  assert.equal(await input.inputValue(), "load snooze");
  await input.fill("tell router r");
  await input.press("Tab");
  await input.press("Tab");
  await shown("output", "release");
  const end = page.waitForResponse((r) => r.url().endsWith("/show/log")); // finds where the log ends
  await page.getByLabel("Show the log as it grows").check();
  await (await end).finished();
  await input.fill("show server");
  await input.press("Enter");
  await shown("logged", 'verb="show server" by="Alice Liddell"');
  await input.fill("collect");
  await input.press("Enter");
  await shown("output", "statistics, removed");
  await input.fill("exit");
  await input.press("Enter");
  await page.waitForSelector(".headline");
  await page.click(".side >> text=Statistics");
  await page.selectOption("select[name=range]", "24");
  await page.waitForSelector(".chart small:has-text('24')");
  await page.waitForFunction(() => [...document.querySelectorAll(".chart")].some((c) => c.textContent.includes("24") && !c.textContent.includes("–")));
  assert.deepEqual(page.wrong.filter((w) => !/40[034]/.test(w)), []);
});

test("nobody is kept out: axe finds nothing, wide and narrow, light and dark, in three languages; keys lead everywhere", async () => {
  for (const [at, pages] of [[{}, ["overview", "people", "groups", "databases", "domains", "queue", "rules", "retention", "sessions", "statistics", "console", "log", "cluster"]], [{ width: 390, height: 844, dark: true, language: "de-DE" }, ["overview", "people", "queue"]], [{ width: 1024, dark: true, language: "zh-CN" }, ["people"]]]) {
    const page = await open(at);
    await enter(page);
    for (const name of pages) {
      await page.evaluate((n) => { location.hash = `#/${n}`; }, name);
      await page.waitForSelector(`.side [href='#/${name}'][aria-current=page]`, { state: "attached" });
      await page.waitForFunction(() => !document.querySelector(".stage [aria-busy=true], .stage .ghosts"));
      if (["people", "groups", "databases"].includes(name)) {
        await page.locator(".lines .line").first().click();
        await page.waitForSelector(".detail");
      }
      assert.deepEqual(await barriers(page), [], `${name} ${JSON.stringify(at)}`);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${name} is wider than the window`);
    }
    if (!at.width) {
      await page.keyboard.press("g");
      await page.keyboard.press("p");
      await page.waitForSelector(".bar h2:has-text('People')");
      await page.keyboard.press("/");
      assert.equal(await page.evaluate(() => document.activeElement?.hasAttribute("data-find")), true);
      await page.click("text=Add a person");
      await page.waitForSelector("dialog[open]");
      assert.deepEqual(await barriers(page), [], "the sheet of a person");
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
    }
    assert.deepEqual(page.wrong.filter((w) => !/500/.test(w)), []);
    await page.context().close();
  }
});
