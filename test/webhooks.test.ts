/** Webhooks are signed and delivered reliably, and do not harm other clients. */
import { describe, expect, test } from "bun:test";
import { AddressGuard } from "../src/machine/network/address-guard.ts";
import { GuardedRequests } from "../src/machine/network/guarded-requests.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { WebhookSender } from "../src/predictions/webhooks/webhook-sender.ts";
import type { ServeConfig } from "../src/server/config.ts";
import { clientOf } from "./helpers/cli.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { receiver, secret } from "./helpers/receiver.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const signing: Partial<ServeConfig> = { webhookSecret: [secret], allowPrivateUrls: true };

const dir = fixture(tempDir);
const store = fixture(() => storeWith("stage", "lab", "parts"));
const server = fixture(() => store.serve("lab", signing));
const client = fixture(() => server.client);

/** Resolves once no message waits to be sent, so that the receiver can be closed. */
const quiet = () => until(async () => (await client.metric("sconce_waiting_webhooks")) === 0);

const told = (url: string) => ({ "Webhook-URL": url });

describe("the end of a prediction", () => {
  test("is sent as in the answer to GET, and signed as in Standard Webhooks", async () => {
    await using to = receiver();
    const { prediction_id: id } = await client.create([{ x: 1 }], told(to.url("/a?b")));
    const [message] = await to.until(1);
    const record = await client.read(id);
    expect(message).toEqual({
      id: `msg_${id}`,
      path: "/a",
      type: "prediction.completed",
      timestamp: record.finished_at ?? "",
      data: { ...record },
    });
    expect(record.outputs).toEqual([{ y: 3, together: 1 }]);
    await quiet();
  });

  test("is sent once, with whole outputs, if the outputs of the model come in parts", async () => {
    await using to = receiver();
    await using parts = await store.serve("parts", signing);
    await parts.client.create([{ x: 1, words: ["one", "two"] }], told(to.url("/parts")));
    const messages = await to.until(1);
    expect(messages).toMatchObject([{ type: "prediction.completed", data: { outputs: [{ y: 3, text: "one two" }] } }]);
    await until(async () => (await parts.client.metric("sconce_waiting_webhooks")) === 0);
    expect(await to.until(1)).toHaveLength(1);
  });

  test("is sent even if the client waits for the answer, and for a failed prediction, too", async () => {
    await using to = receiver();
    const failed = await client.predict([{ x: 1, fail: "preprocess" }], told(to.url()));
    expect((await to.until(1))[0]?.data).toEqual({ ...failed });
    await quiet();
  });

  test("is sent if the client has left while it waited, which does not cancel the prediction", async () => {
    await using to = receiver();
    await using gate = hold();
    const leaving = new AbortController();
    const left = client.post([{ x: 1, before: gate.url("a") }], { Prefer: "wait", ...told(to.url()) }, leaving.signal);
    await gate.arrived("a");
    leaving.abort();
    await left.catch(() => {});
    gate.release("a");
    expect((await to.until(1))[0]?.data).toMatchObject({ status: "success" });
    await quiet();
  });

  test("is sent again with the same message id until the receiver answers with success", async () => {
    await using to = receiver((_, index) => new Response("no", { status: [500, 302][index] ?? 200 }));
    const { prediction_id: id } = await client.create([{ x: 1 }], told(to.url()));
    expect((await to.until(3)).map((message) => message.id)).toEqual(Array(3).fill(`msg_${id}`));
    await quiet();
    expect(await client.metric('sconce_webhooks_total{result="failed"}')).toBe(2);
    expect(to.received).toHaveLength(3);
  });

  test("has another message id than an earlier prediction of another model, or one evicted, with the same chosen id", async () => {
    await using to = receiver();
    await using other = await store.serve("parts", signing);
    await client.put("chosen-id-of-a-client", [{ x: 1 }], told(to.url()));
    await other.client.put("chosen-id-of-a-client", [{ x: 1, words: [] }], told(to.url()));
    const ids = (await to.until(2)).map(({ id }) => id);
    expect(new Set(ids).size).toBe(2);
    await quiet();
  });

  test("is signed with each secret, and sent again not before the time in Retry-After", async () => {
    await using to = receiver(() => new Response(null, { status: 503, headers: { "Retry-After": "7" } }));
    const secrets = [`whsec_${"A".repeat(44)}`, secret];
    using requests = new GuardedRequests(new AddressGuard({ allowPrivate: true }));
    const sender = new WebhookSender({ requests, secrets, userAgent: "test", memory: new MemoryAccount() });
    const message = { id: "msg_1", type: "prediction.completed", occurredAtMs: 0, data: "{}" };
    const sent = await sender.send(new URL(to.url()), async () => message);
    expect(sent).toEqual({ result: "failed", why: "it answered 503", afterMs: 7000 });
    expect(to.received).toHaveLength(1);
  });

  test("is not sent again after an answer 410", async () => {
    await using to = receiver(() => new Response("gone", { status: 410 }));
    const before = await client.metric('sconce_webhooks_total{result="given_up"}');
    await client.create([{ x: 1 }], told(to.url()));
    await to.until(1);
    await quiet();
    expect(await client.metric('sconce_webhooks_total{result="given_up"}')).toBe(before + 1);
    expect(to.received).toHaveLength(1);
  });

  test("is sent to other receivers while one is silent", async () => {
    const answer = Promise.withResolvers<Response>();
    await using slow = receiver(() => answer.promise);
    await using to = receiver();
    await Promise.all(Array.from({ length: 10 }, (_, x) => client.create([{ x }], told(slow.url()))));
    await slow.until(4);
    await client.create([{ x: 1 }], told(to.url()));
    await to.until(1);
    expect(slow.received).toHaveLength(4);
    answer.resolve(new Response(null, { status: 410 }));
    await quiet();
  });
});

test("an id that is used again after its prediction has expired is sent to its new receiver, and no longer to the earlier one", async () => {
  const isTold = Promise.withResolvers<unknown>();
  await using to = receiver(({ path, data }) => {
    if (path === "/earlier") return new Response(null, { status: 500 });
    isTold.resolve(data.outputs);
    return new Response();
  });
  await using forgetful = await store.serve("lab", { ...signing, retainBytes: 1 });
  const { client } = forgetful;
  await client.put("an-id-that-is-taken-again", [{ x: 1 }], told(to.url("/earlier")));
  await to.until(1);
  await client.put("another-id-of-a-prediction", [{ x: 1 }]);
  await client.put("an-id-that-is-taken-again", [{ x: 2 }], told(to.url("/new")));
  expect(await isTold.promise).toMatchObject([{ y: 5 }]);
  await until(async () => (await client.metric("sconce_waiting_webhooks")) === 0);
  expect(await client.metric('sconce_webhooks_total{result="given_up"}')).toBe(1);
});

test("after a restart of a killed server, messages that were not sent are sent, about ended and unfinished predictions", async () => {
  let isUp = false;
  await using to = receiver(() => new Response(null, { status: isUp ? 200 : 500 }));
  await using gate = hold();
  const path = dir.join("killed.sqlite");
  const serve = () =>
    store.start(["lab", "--store", path], { SCONCE_WEBHOOK_SECRET: secret, SCONCE_ALLOW_PRIVATE_URLS: "1" });
  await using first = serve();
  const killed = await clientOf(first);
  const ended = await killed.create([{ x: 1 }], told(to.url("/ended")));
  const running = await killed.create([{ x: 2, before: gate.url("a") }], told(to.url("/running")));
  await to.until(1);
  await gate.arrived("a");
  first.kill("SIGKILL");
  await first.exited;
  isUp = true;
  gate.release("a");
  await using _second = serve();
  const seen = new Map<unknown, string>();
  for (let count = to.received.length; seen.size < 2; count++) {
    const message = (await to.until(count + 1))[count];
    seen.set(message?.id, message?.path ?? "");
  }
  expect(seen).toEqual(
    new Map<unknown, string>([
      [`msg_${ended.prediction_id}`, "/ended"],
      [`msg_${running.prediction_id}`, "/running"],
    ]),
  );
});

describe("a request is refused", () => {
  test.each([
    ["Webhook-URL", "no url"],
    ["Webhook-URL", "ftp://example.org/"],
    ["Webhook-URL", "https://user:word@example.org/"],
    ["Webhook-URL", `https://example.org/${"a".repeat(2048)}`],
  ])("whose %s is %s", async (name, value) => {
    const problem = await client.refused([{ x: 1 }], { ...told("https://example.org/"), [name]: value });
    expect(problem).toMatchObject({ status: 400, type: "urn:sconce:problem:bad_header" });
    expect(problem.detail).toContain(name);
  });

  test("if its receiver has a private address that is not allowed; a name with such an address gets no connection", async () => {
    await using to = receiver();
    await using guarded = await store.serve("lab", { ...signing, allowPrivateUrls: false });
    for (const url of ["http://127.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest", "http://0x7f.1/"]) {
      const problem = await guarded.client.refused([{ x: 1 }], told(url));
      expect(problem).toMatchObject({ status: 422, type: "urn:sconce:problem:webhook_refused" });
      expect(problem.detail).toContain("--allow-private-urls");
    }
    await guarded.client.create([{ x: 1 }], told(to.url().replace("127.0.0.1", "localhost")));
    await until(async () => (await guarded.client.metric('sconce_webhooks_total{result="failed"}')) > 0);
    expect(to.received).toEqual([]);
  });

  test("if the server has no secret", async () => {
    await using silent = await store.serve("lab");
    expect(await silent.client.refused([{ x: 1 }], told("https://example.org/"))).toMatchObject({
      status: 422,
      detail: expect.stringContaining("--webhook-secret"),
    });
  });
});
