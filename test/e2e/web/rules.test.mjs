// Rules for new mail: the list and the form in the settings, the script as text, and a rule from a message.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, browser, deliver, open, row, signIn, until } from "./world.mjs";

after(() => browser.close());
const run = Date.now();

const message = (subject, from = "Rita Ruler <rita@rules.example>", fields = "") => `Message-ID: <${subject.replace(/\W/g, "")}.${run}@rules.example>\nFrom: ${from}\nTo: harry@example.com\nSubject: ${subject}\n${fields}MIME-Version: 1.0\n\nWords\n`;
const post = (...rest) => deliver("rita@rules.example", "harry@example.com", message(...rest));

async function enter(options) {
  const page = await open(options);
  await signIn(page, "harry");
  return page;
}

async function settings(page) {
  await page.goto(new URL("/mail/inbox?open=settings", page.url()).href);
  await page.waitForSelector(".rules h3");
}

const rules = (page) => page.locator(".rule-list li strong").allTextContents();
const item = (page, name) => page.locator(`.rule-list li:has([aria-label="Edit: ${name}"])`);
const sentence = (page, name) => item(page, name).locator(".rule-text span").textContent();
const first = (page, name) => page.waitForFunction((name) => document.querySelector(".rule-list strong")?.textContent === name, name);
const off = (page, name) => page.waitForSelector(`.rule-list .off [aria-label="Edit: ${name}"]`);

/** Stores the text as the active script. */
async function script(page, text) {
  await settings(page);
  await page.click(".rules .button:has-text('Edit as text')");
  await page.fill(".script textarea", text);
  await page.waitForSelector(".script-said .quiet");
  await page.click(".script .button.primary");
  await page.waitForSelector(".script", { state: "detached" });
}

test("a rule is made from a message, and sorts the next one", async () => {
  await post("Weekly rules", undefined, "List-Id: Rulers <ruling.rules.example>\n");
  await post("Other words", "Otto <otto@rules.example>");
  const page = await enter();
  await row(page, "Weekly rules").click();
  await page.waitForSelector(".mail .body .plain");
  await page.click(".read .bar [aria-label='More actions'], .read .bar .tool:last-of-type");
  await page.click("[role=menuitem]:has-text('Make a rule from this message')");
  await page.waitForSelector("dialog[open] .rule-editor");
  // It begins with the list; how many messages it would have met is shown by itself.
  assert.equal(await page.inputValue("dialog[open] [aria-label='Condition 1'] textarea"), "ruling.rules.example");
  await page.waitForSelector("dialog[open] output:has-text('applies to 1 of the newest')");
  await page.waitForSelector("dialog[open] .rule-trial li:has-text('Weekly rules')");
  // The author and the subject are offered.
  await page.waitForSelector("dialog[open] .rule-more .chip:has-text('Subject Weekly rules')");
  await page.click("dialog[open] .rule-more .chip:has-text('rita@rules.example')");
  await page.fill("dialog[open] .rule-editor > .field input", "The rulers");
  await page.selectOption("dialog[open] [aria-label=Folder]", { label: "Archive" });
  await page.click("dialog[open] .button:has-text('Add an action')");
  assert.deepEqual(await barriers(page), []);
  await page.click("dialog[open] .button.primary");
  await page.waitForSelector(".toast:has-text('Saved')");
  await page.waitForSelector("dialog[open]", { state: "detached" });
  await settings(page);
  assert.equal(await sentence(page, "The rulers"), "Mailing list contains “ruling.rules.example” and Sender is “rita@rules.example” → mark as read, move to Archive");
  assert.deepEqual(await barriers(page), []);
  await post("Sorted away", undefined, "List-Id: Rulers <ruling.rules.example>\n");
  await post("Not sorted");
  await page.keyboard.press("Escape");
  await row(page, "Not sorted").waitFor();
  assert.equal(await page.locator(".row", { hasText: "Sorted away" }).count(), 0);
  await page.click("nav >> text=Archive");
  await row(page, "Sorted away").waitFor();
  assert.equal(await page.locator(".row.unread", { hasText: "Sorted away" }).count(), 0);
  assert.deepEqual(page.wrong, []);
});

test("rules are switched, ordered by buttons and by dragging, edited and deleted", async () => {
  const page = await enter();
  await script(page, ["A", "B", "C"].map((n) => `# rule:[${n}]\nif header :contains "subject" "${n} subject" { discard; }\n`).join(""));
  assert.deepEqual(await rules(page), ["A", "B", "C"]);
  await page.click(".rule-list [aria-label='Move down: A']");
  await first(page, "B");
  assert.deepEqual(await rules(page), ["B", "A", "C"]);
  await item(page, "C").dragTo(item(page, "B"));
  await first(page, "C");
  assert.deepEqual(await rules(page), ["C", "B", "A"]);
  await page.uncheck(".rule-list [aria-label='On: B']");
  await off(page, "B");
  await page.click(".rule-list [aria-label='Delete: C']");
  await page.waitForSelector(".toast:has-text('deleted')");
  // Every kind of condition and action, as the server reads them back.
  await page.click(".rule-list [aria-label='Edit: A']");
  await page.selectOption(".rule-editor select[aria-label='Comparison']", "!contains");
  await page.fill(".rule-editor [aria-label='Condition 1'] textarea", "one\ntwo");
  await page.click(".rule-editor .button:has-text('Add a condition')");
  await page.selectOption(".rule-editor select[aria-label='Condition 2']", "size");
  await page.fill(".rule-editor [aria-label='Size (KB)']", "1.5");
  await page.click(".rule-editor .button:has-text('Add a condition')");
  await page.selectOption(".rule-editor select[aria-label='Condition 3']", "header");
  await page.fill(".rule-editor [aria-label='Name of the header field']", "X-Mark");
  await page.locator(".rule-editor [aria-label='Condition 3'] select[aria-label='Comparison']").selectOption("exists");
  await page.click(".rule-editor .button:has-text('Add a condition')");
  await page.selectOption(".rule-editor select[aria-label='Condition 4']", "attachment");
  await page.selectOption(".rule-editor legend select", "any");
  await page.selectOption(".rule-editor select[aria-label='Action 1']", "forward");
  await page.fill(".rule-editor [aria-label=Address]", "else@example.net");
  await page.click(".rule-editor .button:has-text('Add an action')");
  await page.selectOption(".rule-editor select[aria-label='Action 2']", "star");
  await page.check(".rule-editor .check input");
  await page.waitForSelector(".rule-editor output:has-text('This rule applies to')");
  assert.deepEqual(await barriers(page), []);
  await page.click(".rule-editor .button.primary");
  await page.waitForSelector(".rule-editor", { state: "detached" });
  assert.equal(await sentence(page, "A"), "Subject does not contain “one” or “two” or Size is over 1.5 KB or X-Mark exists or Attachment is there → flag, forward to else@example.net and keep, apply no further rules");
  // What the server refuses is said, and the form stays.
  await page.click(".rule-list [aria-label='Edit: A']");
  await page.selectOption(".rule-editor select[aria-label='Comparison']", "regex");
  await page.fill(".rule-editor [aria-label='Condition 1'] textarea", "(");
  await page.waitForSelector(".rule-editor output:has-text('missing closing')");
  await page.click(".rule-editor .button.primary");
  await page.waitForSelector(".toast:has-text('missing closing')");
  await page.click(".rule-editor .button:has-text('Cancel')");
  assert.deepEqual(await rules(page), ["B", "A"]);
  assert.deepEqual(page.wrong, []);
});

test("rules that are moved while the move before is on its way are where both have put them", async () => {
  const page = await enter({ worker: false });
  await script(page, ["A", "B", "C"].map((n) => `# rule:[${n}]\nif header :contains "subject" "${n} subject" { discard; }\n`).join(""));
  let go, asked = 0;
  const gone = new Promise((done) => (go = done));
  await page.route("**/jmap/api", async (route) => {
    if ((route.request().postData() ?? "").includes('"SieveRules/set"') && asked++ === 0) await gone;
    return route.continue();
  });
  const order = (...names) => until(async () => (await rules(page)).join() === names.join());
  await page.click(".rule-list [aria-label='Move down: A']");
  await order("B", "A", "C");
  await until(() => asked === 1);
  await page.evaluate(() => {
    window.seen = new Set();
    const look = () => window.seen.add([...document.querySelectorAll(".rule-list strong")].map((s) => s.textContent).join());
    new MutationObserver(look).observe(document.querySelector(".rule-list"), { subtree: true, childList: true, characterData: true });
  });
  await page.click(".rule-list [aria-label='Move down: A']");
  await order("B", "C", "A");
  const stored = page.waitForResponse(async (r) => (r.request().postData() ?? "").includes('"SieveRules/get"') && (await r.text()).search(/"name":"C"/) < (await r.text()).search(/"name":"A"/));
  go();
  await stored;
  assert.equal(asked, 2);
  assert.deepEqual(await page.evaluate(() => [...window.seen]), ["B,C,A"]);
  await settings(page);
  await order("B", "C", "A");
  assert.deepEqual(page.wrong, []);
});

test("a rule that is moved while the rules are read back is not put back", async () => {
  const page = await enter({ worker: false });
  await script(page, ["A", "B", "C"].map((n) => `# rule:[${n}]\nif header :contains "subject" "${n} subject" { discard; }\n`).join(""));
  let go, held = 0, setting = 0;
  const gone = new Promise((done) => (go = done));
  await page.route("**/jmap/api", async (route) => {
    const body = route.request().postData() ?? "";
    if (body.includes('"SieveRules/set"')) setting++;
    else if (setting > 0 && body.includes('"SieveRules/get"') && held++ === 0) await gone;
    return route.continue();
  });
  const order = (...names) => until(async () => (await rules(page)).join() === names.join());
  await page.click(".rule-list [aria-label='Move down: A']");
  await until(() => held === 1);
  await page.click(".rule-list [aria-label='Move down: A']");
  await order("B", "C", "A");
  await page.evaluate(() => {
    window.seen = new Set();
    new MutationObserver(() => window.seen.add([...document.querySelectorAll(".rule-list strong")].map((s) => s.textContent).join())).observe(document.querySelector(".rule-list"), { subtree: true, childList: true, characterData: true });
  });
  go();
  await until(() => setting === 2 && held > 1); // the second one is behind the answer that was held
  assert.deepEqual(await page.evaluate(() => [...window.seen].filter((s) => s !== "B,C,A")), []);
  await settings(page);
  await order("B", "C", "A");
  assert.deepEqual(page.wrong, []);
});

test("a script of somebody else stays whole, and is edited as text", async () => {
  const page = await enter();
  await script(page, `require ["vacation", "fileinto"];\n# mine\nif not header :contains "subject" "x" {\n  vacation "I am away.";\n}\n# rule:[Mine]\nif header :contains "subject" "mine" { fileinto "Archive"; }\n`);
  assert.deepEqual(await rules(page), ["Rule 1", "Mine"]);
  assert.equal(await sentence(page, "Rule 1"), `if not header :contains "subject" "x" {`);
  await page.uncheck(".rule-list [aria-label='On: Mine']");
  await off(page, "Mine");
  await page.click(".rules .button:has-text('Edit as text')");
  await page.waitForSelector(".script textarea");
  await page.waitForFunction(() => document.querySelector(".script textarea").value !== "");
  const text = await page.inputValue(".script textarea");
  assert.ok(text.includes(`# mine\nif not header :contains "subject" "x" {\n  vacation "I am away.";\n}\n`), text);
  assert.ok(text.includes("# rule:[Mine]\nif allof (false,"), text);
  // Mistakes stand at their lines, and nothing is stored.
  await page.fill(".script textarea", "keep;\nexplode;\n");
  await page.waitForSelector(".script-said .said:has-text('Line 2: unknown command')");
  assert.equal(await page.locator(".script-text li.wrong").textContent(), "2");
  assert.deepEqual(await barriers(page), []);
  await page.click(".script-said .link");
  assert.equal(await page.evaluate(() => { const a = document.querySelector(".script textarea"); return a.value.slice(a.selectionStart, a.selectionEnd); }), "explode;");
  const refused = page.waitForResponse((r) => (r.request().postData() ?? "").includes('"SieveScript/set"'));
  await page.click(".script .button.primary");
  await refused;
  await page.click(".script .button:has-text('Cancel')");
  assert.deepEqual(await rules(page), ["Rule 1", "Mine"]);
  // A part that no form shows is edited as text.
  await page.click(".rule-list [aria-label='Edit: Rule 1']");
  await page.fill(".rule-editor textarea", `if true { vacation "Still away."; }`);
  await page.click(".rule-editor .button.primary");
  await page.waitForSelector(".rule-list:has-text('Still away.')");
  assert.deepEqual(page.wrong, []);
});

test("rules that another program changed meanwhile are not overwritten", async () => {
  const page = await enter();
  await script(page, "# rule:[One]\nif true { keep; }\n");
  const other = await enter();
  await script(other, "# rule:[Two]\nif true { keep; }\n");
  await page.click(".rule-list [aria-label='Delete: One']");
  await page.waitForSelector(".toast:has-text('changed elsewhere')");
  assert.deepEqual(await rules(page), ["Two"]);
  // Nor is the script, until it is saved again.
  await page.click(".rules .button:has-text('Edit as text')");
  await page.waitForFunction(() => document.querySelector(".script textarea")?.value.includes("Two"));
  await script(other, "# rule:[Three]\nif true { keep; }\n");
  await page.fill(".script textarea", "# rule:[Four]\nif true { keep; }\n");
  await page.click(".script .button.primary");
  await page.waitForSelector(".toast:has-text('The script was changed elsewhere')");
  await settings(other);
  await other.waitForSelector(".rule-list strong:has-text('Three')");
  await page.click(".script .button.primary");
  await page.waitForSelector(".rule-list strong:has-text('Four')");
});

test("a script that cannot be read is not shown as an empty one", async () => {
  const page = await enter({ worker: false });
  await settings(page);
  await page.context().route("**/script.sieve*", (route) => route.fulfill({ status: 500, body: "away" }));
  await page.click(".rules .button:has-text('Edit as text')");
  await page.waitForSelector(".toast:has-text('500')");
  await page.waitForSelector(".script", { state: "detached" });
  assert.equal(await page.locator(".script textarea").count(), 0);
});

for (const [language, title] of [["de-DE", "Regeln"], ["zh-CN", "规则"]]) {
  test(`the rules speak ${language}, on a narrow and dark screen too`, async () => {
    const page = await enter({ language, dark: true, width: 390, height: 800 });
    await page.goto(new URL("/mail/inbox?open=settings", page.url()).href);
    await page.waitForSelector(`.rules h3:has-text('${title}')`);
    await page.click(".rule-list .rule-text");
    await page.waitForSelector(".rule-editor");
    assert.deepEqual(await barriers(page), []);
    assert.equal(await page.evaluate(() => document.querySelector("dialog[open]").scrollWidth > document.querySelector("dialog[open]").clientWidth), false);
    assert.deepEqual(page.wrong, []);
  });
}

test("the lite mode lists, orders and edits rules, and makes one from a message", async () => {
  await post("Lite rules", undefined, "List-Id: Lite <lite.rules.example>\n");
  const page = await open({ width: 390, height: 844 }); // with scripts, which axe needs; serve/lite tests it without
  const fits = async () => assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, page.url());
  await page.goto(new URL("/lite/", process.env.WEB).href);
  await page.fill("input[name=user]", "harry");
  await page.fill("input[name=password]", "demo");
  await page.click("form.card button.primary");
  await page.locator(".rows li", { hasText: "Lite rules" }).first().locator("a").click();
  await page.click("a:has-text('Make a rule from this message')");
  await page.waitForSelector("[role=status]:has-text('applies to')");
  await page.fill("[name=to0]", "Archive");
  assert.deepEqual(await barriers(page), []);
  await fits();
  await page.click("button[value=save]");
  await page.waitForSelector(".rules li:has-text('lite.rules.example')");
  await page.locator(".rules li", { hasText: "lite.rules.example" }).locator("button[value^=up]").click();
  assert.match(await page.locator(".rules li").first().textContent(), /lite\.rules\.example/);
  await page.locator(".rules li", { hasText: "lite.rules.example" }).locator("button[value^=off]").click();
  await page.waitForSelector(".rules li:has-text('(off)')");
  assert.deepEqual(await barriers(page), []);
  await fits();
  await page.click("a:has-text('Edit as text')");
  await page.fill("textarea[name=text]", "keep;\nexplode;\n");
  await page.click("button[value=script]");
  await page.waitForSelector("[role=alert]:has-text('Line 2')");
  assert.deepEqual(await barriers(page), []);
});
