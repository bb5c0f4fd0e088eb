/**
 * Look-ups of names that never resolve: they block no thread, their number is limited, and they end with their
 * caller.
 */
import { describe, expect, test } from "bun:test";
import { addressesIn, interleaved, NameResolver } from "../src/machine/network/name-resolver.ts";

/** A name server that does not answer until the test says so. */
function heldAnswers() {
  const asked: string[] = [];
  const answers = new Map<string, PromiseWithResolvers<readonly string[]>>();
  const ask = (name: string) => {
    asked.push(name);
    const answer = Promise.withResolvers<readonly string[]>();
    answers.set(name, answer);
    return answer.promise;
  };
  return { asked, ask, answer: (name: string) => answers.get(name)?.resolve(["192.0.2.1"]) };
}

test("a name of /etc/hosts has the addresses of its own lines only", () => {
  const hosts = "10.0.0.1 a b # c\n#10.0.0.9 a\n10.0.0.2\tb\n::1 A.  a\nnonsense a\n";
  expect([addressesIn(hosts, "a"), addressesIn(hosts, "A."), addressesIn(hosts, "b")]).toEqual([
    ["10.0.0.1", "::1"],
    ["10.0.0.1", "::1"],
    ["10.0.0.1", "10.0.0.2"],
  ]);
  expect([addressesIn(hosts, "c"), addressesIn(hosts, "nonsense")]).toEqual([[], []]);
});

test("addresses of IPv4 and IPv6 take turns", () => {
  expect(interleaved(["::1", "1.1.1.1", "1.1.1.2", "::2", "1.1.1.3"])).toEqual([
    ...["1.1.1.1", "::1", "1.1.1.2", "::2", "1.1.1.3"],
  ]);
  expect(interleaved([])).toEqual([]);
});

describe("look-ups", () => {
  test("have a limit; a further look-up starts when an earlier one ends", async () => {
    const { asked, ask, answer } = heldAnswers();
    const names = new NameResolver({ ask, maxLookups: 2 });
    const found = ["a", "b", "c"].map((name) => names.resolve(name));
    await Bun.sleep(0);
    expect(asked).toEqual(["a", "b"]);
    answer("a");
    expect(await found[0]).toEqual(["192.0.2.1"]);
    await Bun.sleep(0);
    expect(asked).toEqual(["a", "b", "c"]);
    answer("b");
    answer("c");
    await Promise.all(found);
  });

  test("whose callers leave before they start are not begun", async () => {
    const { asked, ask, answer } = heldAnswers();
    const names = new NameResolver({ ask, maxLookups: 1 });
    const controller = new AbortController();
    const first = names.resolve("a");
    const left = names.resolve("b", controller.signal);
    const last = names.resolve("c");
    controller.abort(new Error("gone"));
    await expect(left).rejects.toThrow("gone");
    answer("a");
    await first;
    await Bun.sleep(0);
    expect(asked).toEqual(["a", "c"]);
    answer("c");
    expect(await last).toEqual(["192.0.2.1"]);
  });

  test("of one name are shared", async () => {
    const { asked, ask, answer } = heldAnswers();
    const names = new NameResolver({ ask, maxLookups: 1 });
    const found = Array.from({ length: 100 }, () => names.resolve("a"));
    await Bun.sleep(0);
    answer("a");
    expect(await Promise.all(found)).toEqual(Array(100).fill(["192.0.2.1"]));
    expect(asked).toEqual(["a"]);
  });

  test("end when their signal is aborted, and waiting callers leave the queue", async () => {
    const { asked, ask } = heldAnswers();
    const names = new NameResolver({ ask, maxLookups: 1 });
    const controller = new AbortController();
    const found = ["a", "b", "c"].map((name) => names.resolve(name, controller.signal));
    const reason = new Error("gone");
    controller.abort(reason);
    const ends = await Promise.allSettled(found);
    expect(ends.map((end) => end.status === "rejected" && end.reason)).toEqual([reason, reason, reason]);
    expect(asked).toEqual(["a"]);
  });
});

test("names in /etc/hosts resolve without a name server", async () => {
  const addresses = await new NameResolver().resolve("localhost");
  expect(["127.0.0.1", "::1"]).toContain(addresses[0] ?? "");
});

/**
 * A new process, because its name servers are settings of the process. It exits without waiting for look-ups that
 * hang.
 */
const script = `
  import dgram from "node:dgram";
  import dns from "node:dns";
  import { AddressGuard } from ${JSON.stringify(require.resolve("../src/machine/network/address-guard.ts"))};
  import { Image } from ${JSON.stringify(require.resolve("../src/author/media.ts"))};

  const silent = dgram.createSocket("udp4");
  const asked = Promise.withResolvers();
  silent.on("message", () => asked.resolve());
  await new Promise((resolve) => silent.bind(0, "127.0.0.1", resolve));
  dns.setServers(["127.0.0.1:" + silent.address().port]);

  const guard = new AddressGuard();
  let ended = 0;
  for (let i = 0; i < 32; i++) {
    guard.resolveAll("n" + i + ".example.com").finally(() => { ended += 1; }).catch(() => {});
  }
  await asked.promise;
  const picture = await Image.fromPixels({ width: 64, height: 64, channels: 3, data: new Uint8Array(64 * 64 * 3) });
  const { width } = await picture.pixels({ width: 8, height: 8 });
  console.log(JSON.stringify({ width, ended }));
  process.exit(0);
`;

test("a picture is decoded while 32 look-ups hang", async () => {
  await using child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  expect(await new Response(child.stdout).json()).toEqual({ width: 8, ended: 0 });
});
