// Passkeys: a person adds one in the settings and signs in with it, with the virtual authenticator of Chromium.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { barriers, base, browser, open, signIn } from "./world.mjs";

after(() => browser.close());

// Browsers allow passkeys at localhost, and not at an address.
const at = base.replace("127.0.0.1", "localhost");

/** A page with an authenticator that verifies its user. */
async function withDevice() {
  const page = await open({ at });
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", { options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true } });
  return { page, cdp, authenticatorId };
}

async function signOut(page) {
  await page.evaluate(async () => {
    const { csrf } = await (await fetch("/auth/session")).json();
    await fetch("/auth/sign-out", { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: "{}" });
  });
  await page.goto(at);
  await page.waitForSelector("button:has-text('Sign in with a passkey')");
}

async function settings(page) {
  await page.click(".top [aria-label='Settings']");
  await page.waitForSelector(".passkeys");
}

async function add(page, name) {
  await page.click(".passkeys button:has-text('Add a passkey')");
  await page.fill(".passkeys input[name=name]", name);
  await page.fill(".passkeys input[name=password]", "demo");
  await page.click(".passkeys button:has-text('Continue')");
}

test("a person adds a passkey, signs in with it without a name, and removes it", async () => {
  const { page, cdp, authenticatorId } = await withDevice();
  await signIn(page, "carol", "demo", at);
  await settings(page);
  await page.waitForSelector(".passkeys >> text=You have no passkeys.");

  // A wrong password adds nothing.
  await page.click(".passkeys button:has-text('Add a passkey')");
  await page.fill(".passkeys input[name=password]", "wrong");
  await page.click(".passkeys button:has-text('Continue')");
  await page.waitForSelector(".passkeys [role=alert]:has-text('Incorrect')");
  await page.click(".passkeys button:has-text('Cancel')");
  await add(page, "Laptop");
  const mine = page.locator(".passkeys .device", { hasText: "Laptop" });
  await mine.locator("text=Not used yet").waitFor();
  assert.deepEqual(await barriers(page), []);
  const { credentials } = await cdp.send("WebAuthn.getCredentials", { authenticatorId });
  assert.equal(credentials.length, 1);
  assert.equal(credentials[0].isResidentCredential, true);
  assert.equal(credentials[0].rpId, "localhost");

  // The same device is not taken twice.
  await add(page, "Again");
  await page.waitForSelector(".passkeys [role=alert]:has-text('already')");
  await page.click(".passkeys button:has-text('Cancel')");

  await signOut(page);
  assert.deepEqual(await barriers(page), []);
  await page.click("button:has-text('Sign in with a passkey')");
  await page.waitForSelector(".row .subject");
  await settings(page);
  await mine.locator("text=Last used").waitFor();

  // Without the device's verification nobody is signed in.
  await signOut(page);
  await cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false });
  await page.click("button:has-text('Sign in with a passkey')");
  await page.waitForSelector("[role=alert]:has-text('No passkey was used')");
  await cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: true });
  await page.click("button:has-text('Sign in with a passkey')");
  await page.waitForSelector(".row .subject");

  // Removing it ends the session that began with it.
  await settings(page);
  await mine.locator("button:has-text('Remove')").click();
  await page.waitForSelector(".passkeys form >> text=Remove the passkey “Laptop”?");
  await page.fill(".passkeys input[name=password]", "demo");
  await page.click(".passkeys form button:has-text('Remove')");
  await page.waitForSelector(".gate-again input[name=user]");
  await page.goto(at);
  await page.waitForSelector("button:has-text('Sign in with a passkey')");
  await page.click("button:has-text('Sign in with a passkey')");
  await page.waitForSelector("[role=alert]:has-text('This passkey is not valid here.')");
  assert.deepEqual(page.wrong, []);
});

test("where passkeys do not work, none are offered", async () => {
  const address = base.replace("localhost", "127.0.0.1");
  const page = await open({ at: address });
  const answer = page.waitForResponse((r) => r.url() === `${address}/auth/ways`);
  await page.goto(address);
  await page.waitForSelector("input[name=user]");
  assert.equal((await (await answer).json()).passkey.origin, at);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  assert.equal(await page.locator("button:has-text('passkey')").count(), 0);
});
