/** The newer server of an upgrade runs the example many times before it takes over, and nobody sees these predictions. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { makeKey } from "../src/server/access/key-file.ts";
import { clientOf, startCli } from "./helpers/cli.ts";
import { freePort } from "./helpers/free-port.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";
import { tempDir } from "./helpers/temp-dir.ts";

test("a newer server rehearses with the example, without records and counts, also with API keys", async () => {
  await using dir = await tempDir();
  const preprocess = `async ({ x }) => {
    (await import("node:fs")).appendFileSync(process.env.RUNS ?? "/dev/null", ".");
    return { x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(0n), []) };
  }`;
  await using store = await storeWith(await writeModel(dir, modelText({ name: '"often"', preprocess }), "often"));
  const port = freePort();
  const key = makeKey({ name: "one" });
  await Bun.write(dir.join("keys.toml"), key.entry);
  const serve = (runs: string) => {
    const files = ["--store", dir.join("p.sqlite"), "--api-keys", dir.join("keys.toml")];
    return startCli(["serve", "often", "--host", "127.0.0.1", "-p", String(port), "--linger", "0", ...files], {
      env: { SCONCE_HOME: store.home, TMPDIR: dir.path, RUNS: dir.join(runs) },
    });
  };
  const runs = (name: string) => readFileSync(dir.join(name), "utf8").length;
  await using first = serve("first");
  await first.line("Listening on");
  expect(runs("first")).toBeLessThan(10);
  await using second = serve("second");
  const client = await clientOf(second);
  expect(await first.exited).toBe(0);
  expect(runs("second")).toBeGreaterThanOrEqual(100);
  const headers = { Authorization: `Bearer ${key.secret}`, Connection: "close" };
  const text = await (await client.fetch("/metrics", { headers })).text();
  const counted =
    /^sconce_(?:predictions|batches|items|retained_predictions|http_request)\w*(?:_total|_count)?\b.* [1-9]/m;
  expect(text.split("\n").filter((line) => counted.test(line) && !line.includes("bucket"))).toEqual([]);
  expect((await client.predict([{ x: 1 }], headers)).status).toBe("success");
}, 120_000);
