// jmap-jam, a JMAP client that others wrote, at a Doublet server: JMAP says where, TOKEN is an app password.
import assert from "node:assert/strict";
import test from "node:test";
import JamClient from "jmap-jam";

const base = process.env.JMAP;
const jam = new JamClient({ sessionUrl: `${base}/.well-known/jmap`, bearerToken: process.env.TOKEN });

test("a message is uploaded, imported, listed with references, read, changed, sent and destroyed", async () => {
  const session = await jam.session;
  assert.ok(session.capabilities["urn:ietf:params:jmap:mail"]);
  const accountId = await jam.getPrimaryAccount();
  const [boxes] = await jam.api.Mailbox.get({ accountId });
  const inbox = boxes.list.find((m) => m.role === "inbox");
  const text = "From: alice@example.com\r\nTo: alice@example.com\r\nSubject: by Jam\r\nMessage-ID: <jam@example.com>\r\n\r\nHello.\r\n";
  const blob = await jam.uploadBlob(accountId, new Blob([text], { type: "message/rfc822" }));
  assert.equal(blob.size, text.length);
  const [made] = await jam.api.Email.import({ accountId, emails: { m: { blobId: blob.blobId, mailboxIds: { [inbox.id]: true } } } });
  const id = made.created.m.id;
  const [{ found, got }] = await jam.requestMany((r) => {
    const found = r.Email.query({ accountId, filter: { subject: "jam" }, sort: [{ property: "receivedAt", isAscending: false }] });
    return { found, got: r.Email.get({ accountId, ids: found.$ref("/ids"), properties: ["id", "subject", "preview", "blobId"] }) };
  });
  assert.deepEqual(found.ids, [id]);
  assert.equal(got.list[0].subject, "by Jam");
  const down = await jam.downloadBlob({ accountId, blobId: got.list[0].blobId, mimeType: "message/rfc822", fileName: "a.eml" });
  assert.match(await down.text(), /Hello\./);
  const [changed] = await jam.api.Email.set({ accountId, update: { [id]: { "keywords/$flagged": true } } });
  assert.ok(id in changed.updated);
  const [identities] = await jam.api.Identity.get({ accountId });
  const [sent] = await jam.api.EmailSubmission.set({ accountId, create: { s: { emailId: id, identityId: identities.list[0].id } } });
  assert.ok(sent.created?.s?.id, JSON.stringify(sent));
  const [gone] = await jam.api.Email.set({ accountId, destroy: [id] });
  assert.deepEqual(gone.destroyed, [id]);
});

test("what is wrong is told", async () => {
  const accountId = await jam.getPrimaryAccount();
  await assert.rejects(jam.api.Email.get({ accountId: "nobody", ids: [] }));
  const other = new JamClient({ sessionUrl: `${base}/.well-known/jmap`, bearerToken: "wrong" });
  assert.equal((await other.session).status, 401); // it takes the problem for the session object
  assert.ok(accountId);
});
