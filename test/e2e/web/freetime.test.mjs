// Free time from a replica: the editor says whose server is away, and since when. The server's answer is altered on its way: the
// servers themselves are tested in serve/calconn and serve/jmapd.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, browser, counts, open, signInAt, until } from "./world.mjs";

after(() => browser.close());

test("busy times from a replica say since when the server of the person is away", async () => {
  const page = await open({ worker: false });
  let asOf;
  await page.route("**/jmap/api*", async (route) => {
    const asked = route.request().postDataJSON();
    if (asOf === undefined || !asked?.methodCalls?.some(([name]) => name === "Principal/getAvailability")) return route.continue();
    const response = await route.fetch();
    const answer = await response.json();
    for (const [name, args, id] of answer.methodResponses) if (name === "Principal/getAvailability" && id === "bob@example.com") args.fromReplica = { asOf };
    return route.fulfill({ response, json: answer });
  });
  await signInAt(page, "/calendar/week/2029-06-06", ".grid-body");
  const ask = async (day) => {
    await page.keyboard.press("n");
    const form = page.locator(".event-form");
    await form.getByLabel(/^Starts/u).first().fill(day);
    const told = page.waitForResponse((r) => (r.request().postData() ?? "").includes("Principal/getAvailability")); // of both: the organizer was asked about before
    await form.getByLabel(/^People/u).first().fill("bob@example.com,");
    await told;
    await form.locator(".free-times [role=status]", { hasText: /free|busy/iu }).waitFor();
    return form;
  };
  const leave = async (form) => {
    await form.getByRole("button", { name: "Cancel" }).click();
    await form.locator("[role=alert] button.danger").click();
    await form.waitFor({ state: "detached" });
  };
  let form = await ask("2029-06-04");
  assert.equal(await form.locator(".free-times [role=note]").count(), 0);
  await leave(form);
  asOf = "2026-01-05T14:03:00Z";
  form = await ask("2029-06-05");
  const zone = await page.evaluate(() => Intl.DateTimeFormat().resolvedOptions().timeZone);
  const time = new Intl.DateTimeFormat("en-US", { day: "numeric", month: "short", hour: "numeric", minute: "2-digit", timeZone: zone }).format(Date.parse(asOf));
  await form.locator(".free-times [role=note]", { hasText: `as of ${time}, their server is away` }).waitFor();
  await counts(form.locator(".free-times [role=note]"), 1);
  assert.deepEqual(await barriers(page), []);
  await leave(form);
  asOf = null;
  form = await ask("2029-06-06");
  await form.locator(".free-times [role=note]", { hasText: "the last changes may be missing" }).waitFor();
  assert.deepEqual(page.wrong, []);
});

test("nobody is said to be free before the server has told it, nor where it cannot be reached", async () => {
  const page = await open({ worker: false });
  await signInAt(page, "/calendar/week/2029-07-04", ".grid-body");
  let state = "held", asked = 0, go;
  const gone = new Promise((done) => (go = done));
  await page.route("**/jmap/api*", async (route) => {
    if (!(route.request().postData() ?? "").includes("Principal/getAvailability")) return state === "lost" ? route.abort() : route.fallback();
    asked++;
    if (state === "refused") return route.fulfill({ status: 429, headers: { "Retry-After": "1" }, contentType: "application/problem+json", body: JSON.stringify({ type: "urn:ietf:params:jmap:error:limit", limit: "maxConcurrentRequests", status: 429 }) });
    if (state === "held") await gone;
    return state === "lost" ? route.abort() : route.fallback();
  });
  await page.keyboard.press("n");
  const form = page.locator(".event-form"), said = form.locator(".free-times [role=status]");
  await form.getByLabel(/^Starts/u).first().fill("2029-07-02");
  await form.getByLabel(/^People/u).first().fill("bob@example.com,");
  await form.locator(".free-row", { hasText: "Bob" }).waitFor();
  await until(() => asked > 0);
  assert.equal((await said.textContent()).trim(), "Loading");
  assert.doesNotMatch(await form.locator(".free-row", { hasText: "Bob" }).getAttribute("aria-label"), /free/iu);
  state = "";
  go();
  await form.locator(".free-times [role=status]:has-text('Everyone is free')").waitFor();
  state = "lost";
  await form.getByLabel(/^Starts/u).first().fill("2029-07-03");
  await form.locator(".free-times [role=status]:has-text('cannot be reached')").waitFor();
  state = "";
  await form.locator(".free-times [role=status]:has-text('Everyone is free')").waitFor();
  // A server that has too much to do is asked again.
  state = "refused";
  asked = 0;
  await form.getByLabel(/^Starts/u).first().fill("2029-07-04");
  await until(() => asked > 0);
  state = "";
  await form.locator(".free-times [role=status]:has-text('Everyone is free')").waitFor();
  assert.equal(asked, 2);
  assert.deepEqual(page.wrong, []);
});
