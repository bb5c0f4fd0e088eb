/** Webhook receivers that are slow, silent or wrong delay only their own messages. */
import { expect, test } from "bun:test";
import { checkArguments } from "../src/cli/command-line/command.ts";
import { AddressGuard } from "../src/machine/network/address-guard.ts";
import { GuardedRequests } from "../src/machine/network/guarded-requests.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { WebhookSender } from "../src/predictions/webhooks/webhook-sender.ts";
import { Webhooks } from "../src/predictions/webhooks/webhooks.ts";
import { serveOptions } from "../src/server/config.ts";
import { livePrediction } from "./helpers/live.ts";
import { receiver, secret } from "./helpers/receiver.ts";
import { until } from "./helpers/running.ts";

const message = async () => ({ id: "msg_1", type: "prediction.completed", occurredAtMs: 0, data: "{}" });
const sendingTo = (options: { guard?: AddressGuard; memory?: MemoryAccount; timeoutMs?: number } = {}) => {
  const { guard = new AddressGuard({ allowPrivate: true }), memory = new MemoryAccount(), timeoutMs } = options;
  const requests = new GuardedRequests(guard);
  const sender = new WebhookSender({ requests, secrets: [secret], userAgent: "test", memory, timeoutMs });
  return {
    sender,
    send: (url: string) => sender.send(new URL(url), message),
    [Symbol.dispose]() {
      sender.stop();
      requests[Symbol.dispose]();
    },
  };
};
/** Starts a TCP server on all loopback addresses. @param answer is called when a connection sends data */
const raw = (answer: (socket: Bun.Socket) => void, closed = () => {}) => {
  const listener = Bun.listen({ hostname: "0.0.0.0", port: 0, socket: { data: answer, close: closed } });
  return {
    url: (host = "127.0.0.1") => `http://${host}:${listener.port}/`,
    [Symbol.dispose]: () => listener.stop(true),
  };
};

test("a receiver that never answers, or never ends its answer, has the same time limit", async () => {
  using silent = raw(() => {});
  const closed = Promise.withResolvers<void>();
  using endless = raw((socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), closed.resolve);
  using to = sendingTo({ timeoutMs: 50 });
  expect(await to.send(silent.url())).toMatchObject({ result: "failed", why: "The operation timed out." });
  expect(await to.send(endless.url())).toEqual({ result: "told", why: "it answered 200" });
  await closed.promise;
});

test("a receiver that answers gets its message at once, however many others are silent", async () => {
  using silent = raw(() => {});
  await using good = receiver();
  using to = sendingTo();
  expect(await to.send(good.url())).toEqual({ result: "told", why: "it answered 200" });
  const stuck = Array.from({ length: 150 }, (_, i) => to.send(silent.url(`127.1.0.${i + 1}`)));
  expect(await to.send(good.url())).toEqual({ result: "told", why: "it answered 200" });
  to[Symbol.dispose]();
  await Promise.all(stuck);
});

test("a receiver gets at most four messages at once, also after messages to 10,000 other hosts", async () => {
  const answer = Promise.withResolvers<Response>();
  await using slow = receiver(() => answer.promise);
  using to = sendingTo();
  const first = Array.from({ length: 4 }, () => to.send(slow.url()));
  await slow.until(4);
  let created = 0;
  const unkept = async () => {
    created += 1;
    return undefined;
  };
  const others = Array.from({ length: 10_001 }, (_, i) => to.sender.send(new URL(`http://host-${i}/`), unkept));
  const fifth = to.sender.send(new URL(slow.url()), unkept);
  await Promise.all(others);
  expect(created).toBe(others.length);
  answer.resolve(new Response());
  await Promise.all([...first, fifth]);
  expect(created).toBe(others.length + 1);
});

test("a host name that resolves to a private address at the second attempt gets no connection", async () => {
  await using inside = receiver();
  const found = ["127.0.0.9", "127.0.0.1"];
  const guard = new AddressGuard({
    isAllowed: (address) => address === "127.0.0.9",
    resolver: async () => found.splice(0, 1),
  });
  using to = sendingTo({ guard });
  const url = inside.url().replace("127.0.0.1", "rebound.example");
  expect(await to.send(url)).toMatchObject({ result: "failed", why: expect.stringContaining("Unable to connect") });
  expect(await to.send(url)).toMatchObject({ result: "failed", why: expect.stringContaining("no public address") });
  expect(inside.received).toEqual([]);
});

test("a message for which there is no memory is sent later", async () => {
  await using good = receiver();
  const memory = new MemoryAccount({ maxBytes: 1000 });
  using to = sendingTo({ memory });
  {
    using _full = memory.add("results", 1000);
    using _held = memory.add("bodies", 1000);
    expect(await to.send(good.url())).toMatchObject({ result: "failed", why: "there is no memory for the message" });
  }
  expect(await to.send(good.url())).toEqual({ result: "told", why: "it answered 200" });
});

test("new webhooks are refused while undelivered ones use all memory for webhooks", async () => {
  const answer = Promise.withResolvers<Response>();
  await using to = receiver(() => answer.promise);
  const memory = new MemoryAccount({ maxBytes: 100_000 });
  const webhook = { url: to.url() };
  const live = livePrediction();
  live.finish({ status: "success", members: '"outputs":[1]' });
  const webhooks = new Webhooks({
    config: { webhookSecret: [secret], allowPrivateUrls: true },
    memory,
    store: { read: async () => live.record, written: async () => {} },
    json: () => "{}",
    metrics: { webhook() {} },
  });
  for (let i = 0; webhooks.hasRoom; i++) webhooks.ended({ id: `${i}`, createdAtMs: live.record.createdAtMs }, webhook);
  expect(webhooks.waiting).toBe(4);
  expect(memory.hasRoom("bodies", 90_000)).toBe(true);
  expect(() => webhooks.admit(webhook)).toThrow("too many webhooks wait");
  answer.resolve(new Response());
  await until(() => webhooks.waiting === 0);
  webhooks.admit(webhook);
  webhooks.stop();
  expect(memory.used).toBe(0);
});

test.each(["short", `whsec_${"A".repeat(28)}`, `whsec_${"A".repeat(100)}`, `whsec_${"-".repeat(44)}`])(
  "a secret like %s is refused, and not printed",
  (given) => {
    const rawArgs = ["--webhook-secret", given];
    const refused = () => checkArguments({ args: { _: [], "webhook-secret": given }, rawArgs }, serveOptions);
    expect(refused).toThrow(/^--webhook-secret must .* not a text of \d+ characters$/);
  },
);
