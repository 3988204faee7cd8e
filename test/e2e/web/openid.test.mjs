// Signing in at an OpenID Connect provider: the one of panva (certified by the OpenID Foundation), which runs in this process.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import Provider from "oidc-provider";
import { barriers, browser, freePort, open } from "./world.mjs";

const folder = mkdtempSync(join(tmpdir(), "doublet-openid-"));
const at = `http://localhost:${await freePort()}`;
const groups = `${at}/admin/#/groups`;
const issuer = `http://127.0.0.1:${await freePort()}`;
const secret = "s3cret with blanks & more";
writeFileSync(join(folder, "secret"), `${secret}\n`);

const provider = new Provider(issuer, {
  clients: [{ client_id: "doublet", client_secret: secret, redirect_uris: [`${at}/auth/openid/back`] }],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
  conformIdTokenClaims: false,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, name: id }) }),
  cookies: { keys: ["a key of the test"] },
});
const house = provider.listen(new URL(issuer).port, "127.0.0.1");

const off = ["https", "smtp", "submission", "lmtp", "imap", "imaps", "pop3", "pop3s", "sieve", "ldap", "ldaps"].flatMap((d) => [`--${d}`, "off"]);
const server = spawn(process.env.DOUBLET, ["demo", "--data", join(folder, "data"), "--http", `127.0.0.1:${new URL(at).port}`, ...off], {
  stdio: ["ignore", "pipe", "pipe"],
  env: { ...process.env, DOUBLET_OAUTH_ISSUER: issuer, DOUBLET_OAUTH_AUDIENCE: "doublet", DOUBLET_OAUTH_WEB: "true", DOUBLET_OAUTH_WEB_NAME: "Town hall", DOUBLET_OAUTH_CLIENT_SECRET_FILE: join(folder, "secret") },
});
let said = "";
await new Promise((resolve, reject) => {
  for (const out of [server.stdout, server.stderr]) out.on("data", (d) => { said += d; if (said.includes("is running")) resolve(); });
  server.on("exit", () => reject(new Error(said)));
});

after(async () => {
  server.kill("SIGKILL");
  house.close();
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A page that may also go to the provider. */
async function fresh(options = {}) {
  const page = await open({ at, ...options });
  await page.context().unroute("**/*");
  await page.context().route("**/*", (route) => ([at, issuer].includes(new URL(route.request().url()).origin) ? route.continue() : route.abort())); // its pages want typefaces of Google
  return page;
}

/** Signs in at the provider, which then asks for consent. */
async function atTheProvider(page, login) {
  await page.waitForURL(`${issuer}/**`);
  await page.fill("input[name=login]", login);
  await page.fill("input[name=password]", "of the provider");
  await page.click("button[type=submit]");
  await page.click("button[type=submit]:has-text('Continue')");
}

test("somebody signs in at the provider, and comes to the page that they wanted", async () => {
  const page = await fresh();
  await page.goto(`${at}/calendar/`);
  const button = page.locator("button:has-text('Sign in with Town hall')");
  await button.waitFor();
  assert.deepEqual(await barriers(page), []);
  await button.click();
  await atTheProvider(page, "alice");
  await page.waitForURL(`${at}/calendar/**`);
  page.wrong.length = 0; // the provider's pages have no typefaces here
  await page.waitForSelector(".top [aria-label='Settings']");
  const who = await page.evaluate(async () => (await fetch("/auth/session")).json());
  assert.equal(who.name, "Alice Liddell");
  assert.deepEqual(page.wrong, []);
});

test("lite mode signs in without scripts; a person whom the directory lacks is refused", async () => {
  const page = await fresh({ scripts: false });
  await page.goto(`${at}/lite/`);
  await page.click("a:has-text('Sign in with Town hall')");
  await atTheProvider(page, "bob");
  await page.waitForURL(`${at}/lite/**`);
  await page.waitForSelector(".rows li");
  await page.context().close();

  const stranger = await fresh();
  await stranger.goto(at);
  await stranger.click("button:has-text('Sign in with Town hall')");
  await atTheProvider(stranger, "mallory");
  await stranger.waitForSelector("text=nobody here has your address");
  assert.equal((await stranger.context().request.get(`${at}/auth/session`)).status(), 401);
});

test("somebody who cancels at the provider may sign in otherwise", async () => {
  const page = await fresh();
  await page.goto(at);
  await page.click("button:has-text('Sign in with Town hall')");
  await page.waitForURL(`${issuer}/**`);
  await page.click("a:has-text('Cancel')");
  await page.waitForSelector("text=The provider did not sign you in");
  await page.waitForSelector("input[name=password]");
});

/** Signs somebody in at the provider, into the groups of the administration. */
async function intoGroups(page, login, keep = false) {
  await page.goto(groups);
  if (keep) await page.check("input[name=keep]");
  await page.click("button:has-text('Sign in with Town hall')");
  await atTheProvider(page, login);
  await page.waitForURL(groups);
}

/** Adds a group, which may ask for a fresh sign-in first. */
async function add(page, group) {
  await page.click("text=Add a group");
  await page.fill("dialog input[name=name]", group);
  await page.click("dialog button:has-text('Add')");
}

/** The cookie of the session, which a browser keeps when it is closed if it has a time to expire. */
async function sessionOf(page) {
  const cookie = (await page.context().cookies(at)).find((c) => c.name === "doublet");
  return { value: cookie.value, kept: cookie.expires > 0 };
}

test("an administrator who signed in at the provider, which does not say when, enters their password here before they change something, and stays signed in", async () => {
  const page = await fresh();
  await intoGroups(page, "alice", true);
  await add(page, "Builders");
  const before = await sessionOf(page);
  await page.fill("dialog input[name=password]", "wrong");
  await page.click("dialog button:has-text('Sign in')");
  await page.waitForSelector("dialog [role=alert]");
  assert.deepEqual(await sessionOf(page), before);
  // Another page of the browser signs in meanwhile: this one has the token of a session that has ended.
  await page.evaluate((body) => fetch("/auth/sign-in", { method: "POST", headers: { "Content-Type": "application/json" }, body }), JSON.stringify({ user: "alice", password: "demo", keep: true }));
  await page.fill("dialog input[name=password]", "demo");
  await page.click("dialog button:has-text('Sign in')");
  await page.locator(".toast", { hasText: "Builders" }).waitFor();
  const now = await sessionOf(page);
  assert.notEqual(now.value, before.value);
  assert.deepEqual([before.kept, now.kept], [true, true]);
});

test("a page does nothing with the session of somebody else who signed in on another one", async () => {
  const page = await fresh();
  await intoGroups(page, "alice");
  await add(page, "Fitters");
  await page.locator("dialog input[name=password]").waitFor();
  await page.evaluate((body) => fetch("/auth/sign-in", { method: "POST", headers: { "Content-Type": "application/json" }, body }), JSON.stringify({ user: "bob", password: "demo" }));
  const sent = [];
  page.on("request", (r) => r.method() === "POST" && sent.push(r.url()));
  await page.fill("dialog input[name=password]", "demo");
  await page.click("dialog button:has-text('Sign in')");
  await page.waitForSelector("dialog.gate-again");
  assert.deepEqual(sent, []);
});

test("an administrator who has a passkey and no password here confirms with it before they change something", async () => {
  const cli = (args, input = "") => execFileSync(process.env.DOUBLET, ["user", ...args, "--data", join(folder, "data")], { input, stdio: ["pipe", "ignore", "ignore"] });
  cli(["add", "Pia Pihl", "--short", "pia", "--role", "Admin", "--password", "demo"]);
  const page = await fresh();
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", { options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true } });
  await page.goto(at);
  await page.fill("input[name=user]", "pia");
  await page.fill("input[name=password]", "demo");
  await page.click("button.primary");
  await page.waitForURL(`${at}/mail/inbox`);
  await page.click(".top [aria-label='Settings']");
  await page.click(".passkeys button:has-text('Add a passkey')");
  await page.fill(".passkeys input[name=password]", "demo");
  await page.click(".passkeys button:has-text('Continue')");
  await page.locator(".passkeys .device").waitFor();
  cli(["password", "pia"], "\n"); // she has none from now on

  await intoGroups(page, "pia", true);
  await add(page, "Painters");
  const passkey = page.locator("dialog button:has-text('Use a passkey')");
  await passkey.waitFor();
  await page.locator("dialog button:has-text('Sign in again with Town hall')").waitFor();
  assert.equal(await page.locator("dialog input[type=password]").count(), 0);
  assert.deepEqual(await barriers(page), []);
  const before = await sessionOf(page);
  await cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false });
  await passkey.click();
  await page.waitForSelector("dialog [role=alert]:has-text('No passkey was used')");
  assert.deepEqual(await sessionOf(page), before);
  await cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: true });
  await passkey.click();
  await page.locator(".toast", { hasText: "Painters" }).waitFor();
  const now = await sessionOf(page);
  assert.notEqual(now.value, before.value);
  assert.deepEqual([before.kept, now.kept], [true, true]);
  assert.equal((await page.evaluate(async () => (await fetch("/auth/sessions")).json())).length, 1);
});

test("an administrator without a password here signs in again at the provider before a change", async () => {
  execFileSync(process.env.DOUBLET, ["user", "add", "Olga Okonkwo", "--short", "olga", "--role", "Admin", "--data", join(folder, "data")], { stdio: "ignore" });
  const page = await fresh();
  const again = page.locator("dialog button:has-text('Sign in again with Town hall')");
  await intoGroups(page, "olga");
  await add(page, "Gardeners"); // the provider does not say when she signed in
  await again.waitFor();
  assert.equal(await page.locator("dialog input[type=password]").count(), 0);
  assert.deepEqual(await barriers(page), []);
  await again.click();
  // She is signed in there, and must prove that she is there all the same.
  await atTheProvider(page, "bob");
  await page.waitForSelector("text=You signed in as another person");
  await page.click("a:has-text('Continue')");
  await page.waitForURL(groups);
  await add(page, "Gardeners");
  await again.click();
  await atTheProvider(page, "olga");
  await page.waitForURL(groups);
  await add(page, "Gardeners");
  await page.locator(".toast", { hasText: "Gardeners" }).waitFor();
  assert.equal(await again.count(), 0);
  const who = await page.evaluate(async () => (await fetch("/auth/session")).json());
  assert.equal(who.name, "Olga Okonkwo");
  assert.equal((await page.evaluate(async () => (await fetch("/auth/sessions")).json())).length, 1);
});
