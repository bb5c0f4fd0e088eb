/** Versions of a model that share its traffic by weights (`serve --split`). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { makeKey } from "../src/server/access/key-file.ts";
import { versionOf } from "../src/server/predictions/split.ts";
import { clientOf, type RunningCli } from "./helpers/cli.ts";
import type { Client, PredictionBody } from "./helpers/client.ts";
import { cliHere } from "./helpers/command-here.ts";
import { eventsOf } from "./helpers/events.ts";
import { modelText } from "./helpers/model-text.ts";
import { storeWith, type TestStore } from "./helpers/server.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";
import { buildVersion, serveOnLoopback } from "./helpers/versions.ts";

let dir: TempDir;
let store: TestStore;
let env: Readonly<Record<string, string>>;

beforeAll(async () => {
  dir = await tempDir();
  store = await storeWith("lab", "texts");
  env = { SCONCE_HOME: store.home };
  for (const factor of [1, 2]) {
    const postprocess = `({ y }) => ({ y: ${factor} * y.data[0] })`;
    const setup = `() => { if (["v${factor}", "all"].includes(process.env.BREAKS)) throw new Error("no tokenizer"); }`;
    await buildVersion(dir, modelText({ name: '"ten"', postprocess, setup }), `v${factor}`, env);
  }
});

afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await dir[Symbol.asyncDispose]();
});

const serve = (args: readonly string[], more: Readonly<Record<string, string>> = {}): RunningCli =>
  serveOnLoopback(args, { ...env, ...more });

const json = { "Content-Type": "application/json" };

interface Asked {
  readonly id?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

async function predict(client: Client, { id, path = "", headers = {} }: Asked = {}): Promise<PredictionBody> {
  const all = { ...json, Prefer: "wait", ...(id && { "X-Client-Id": id }), ...headers };
  const answer = await client.fetch(`${path}/predictions`, { method: "POST", headers: all, body: '[{"x": 1}]' });
  return (await answer.json()) as PredictionBody;
}

/** The factor by which a version multiplies: it tells which version has answered. */
const factorOf = ({ outputs }: PredictionBody): number => Number(outputs?.[0]?.y) / 3;

describe("the choice of a version", () => {
  const versions = (...weights: number[]) => weights.map((weight, i) => ({ name: `digits:v${i + 1}`, weight }));
  const clients = Array.from({ length: 20_000 }, (_, i) => `client ${i}`);
  const chosen = (...weights: number[]) => clients.map((client) => versionOf(client, versions(...weights))?.name);
  const share = (names: readonly (string | undefined)[], name: string) =>
    names.filter((each) => each === name).length / names.length;

  test("gives each version its share of the clients", () => {
    const names = chosen(90, 10);
    expect(share(names, "digits:v2")).toBeCloseTo(0.1, 2);
    expect(share(chosen(1, 1, 2), "digits:v3")).toBeCloseTo(0.5, 2);
    expect(share(chosen(100, 0), "digits:v1")).toBe(1);
  });

  test("moves no client away from a version whose weight grows", () => {
    const [before, after] = [chosen(90, 10), chosen(70, 30)];
    expect(before.filter((name, i) => name === "digits:v2" && after[i] !== name)).toEqual([]);
    // A third version takes clients from the other two, and moves none between these.
    const third = chosen(90, 10, 100);
    expect(before.filter((name, i) => third[i] !== "digits:v3" && third[i] !== name)).toEqual([]);
  });

  test("is the same in each process and in later releases", () => {
    const ids = ["", "a", "team", "203.0.113.7", "client 1", "client 2", "client 3", "client 4"];
    expect(ids.map((id) => versionOf(id, versions(50, 50))?.name.at(-1)).join("")).toMatchInlineSnapshot(`"12212211"`);
  });
});

describe("serve ten --split v1=50,v2=50", () => {
  let server: RunningCli;
  let client: Client;
  /** A client of v1, and a client of v2. */
  let ids: readonly [one: string, two: string];

  beforeAll(async () => {
    server = serve(["ten", "--split", "v1=50,v2=50", "--fronts", "2", "--store", dir.join("stores")]);
    client = await clientOf(server);
    const all = await Promise.all(
      Array.from({ length: 40 }, async (_, i) => ({
        id: `c${i}`,
        factor: factorOf(await predict(client, { id: `c${i}` })),
      })),
    );
    const [one, two] = [1, 2].map((factor) => all.find((each) => each.factor === factor)?.id ?? "");
    ids = [one ?? "", two ?? ""];
  });

  afterAll(() => server[Symbol.asyncDispose]());

  test("has clients of both versions, and each client stays with its version on every path", async () => {
    expect(ids).toEqual([expect.stringMatching(/^c/), expect.stringMatching(/^c/)]);
    for (const [i, id] of ids.entries()) {
      for (const path of ["", "/models/ten"]) {
        const answers = await Promise.all(Array.from({ length: 8 }, () => predict(client, { id, path })));
        expect(answers.map(factorOf)).toEqual(answers.map(() => i + 1));
      }
      const body = { inputs: [{ name: "x", datatype: "FP64", shape: [1, 1], data: [1] }] };
      const init = { method: "POST", headers: { ...json, "X-Client-Id": id }, body: JSON.stringify(body) };
      const infer = await client.fetch("/v2/models/ten/infer", init);
      expect(await infer.json()).toMatchObject({ model_name: "ten", outputs: [{ data: [3 * (i + 1)] }] });
    }
  });

  test("answers with the version whose tag the path names, for any client", async () => {
    for (const id of ids) {
      expect(factorOf(await predict(client, { id, path: "/models/ten:v1" }))).toBe(1);
      expect(factorOf(await predict(client, { id, path: "/models/ten:v2" }))).toBe(2);
    }
  });

  test("names in each record the version that has answered", async () => {
    const digests = await Promise.all(ids.map(async (id) => (await predict(client, { id })).model?.digest));
    const { models } = (await (await client.fetch("/models")).json()) as { models: unknown };
    expect(models).toMatchObject([
      { name: "ten:v1", digest: digests[0], split: { name: "ten", weight: 50 } },
      { name: "ten:v2", digest: digests[1], split: { name: "ten", weight: 50 } },
    ]);
  });

  test("lets a client of one version read, watch and cancel predictions of the other", async () => {
    const [one, two] = ids;
    const made = await predict(client, { id: two });
    const path = `/predictions/${made.prediction_id}`;
    for (const prefix of ["", "/models/ten"]) {
      const read = await client.fetch(`${prefix}${path}`, { headers: { "X-Client-Id": one } });
      expect(read.headers.get("x-model")).toContain(made.model?.tag ?? "none");
      expect(await read.json()).toEqual(made);
    }
    const events = await client.fetch(`${path}/events`, { headers: { "X-Client-Id": one } });
    const names = [];
    for await (const { event } of eventsOf(events)) names.push(event);
    expect(names.at(-1)).toBe("completed");
    const canceled = await client.fetch(`${path}/cancel`, { method: "POST", headers: { "X-Client-Id": one } });
    expect(await canceled.json()).toEqual(made);
    const missing = await client.fetch("/predictions/0AAAAnobodyhasthisid", { headers: { "X-Client-Id": one } });
    expect(missing.status).toBe(404);
  });

  test("makes a prediction with a chosen id once, whichever client repeats it", async () => {
    const put = async (id: string, x = 1) => {
      const headers = { ...json, Prefer: "wait", "X-Client-Id": id };
      const init = { method: "PUT", headers, body: JSON.stringify([{ x }]) };
      return client.fetch("/predictions/order-1c1d1c80-7d3f", init);
    };
    const [one, two] = ids;
    const first = await (await put(two)).json();
    expect(await (await put(one)).json()).toEqual(first);
    expect((await put(one, 2)).status).toBe(422);
  });

  test("counts the work of each version under its name", async () => {
    const count = (version: string) =>
      client.metric(`sconce_predictions_total{model="ten:${version}",status="success"}`);
    for (const [i, id] of ids.entries()) {
      const before = await Promise.all([count("v1"), count("v2")]);
      await predict(client, { id });
      expect(await Promise.all([count("v1"), count("v2")])).toEqual([
        (before[0] ?? 0) + (i === 0 ? 1 : 0),
        (before[1] ?? 0) + (i === 1 ? 1 : 0),
      ]);
    }
  });

  test("knows a client without a header by its address", async () => {
    const direct = await Promise.all(Array.from({ length: 8 }, () => predict(client)));
    expect(new Set(direct.map(factorOf)).size).toBe(1);
    // Ids that begin with another character belong to another HTTP process, which gets the request forwarded, without
    // the client's address.
    const ids = Array.from({ length: 12 }, (_, i) => `${"0123456789AB"[i]}-chosen-by-a-client`);
    const put = ids.map((id) => client.put(id, [{ x: 1 }]));
    expect((await Promise.all(put)).map(factorOf)).toEqual(ids.map(() => factorOf(direct[0] as PredictionBody)));
    const addresses = Array.from({ length: 40 }, (_, i) => `203.0.113.${i}, 10.0.0.${i % 3}`);
    const factors = async () =>
      Promise.all(
        addresses.map(async (address) => factorOf(await predict(client, { headers: { "X-Forwarded-For": address } }))),
      );
    const first = await factors();
    expect(new Set(first)).toEqual(new Set([1, 2]));
    expect(await factors()).toEqual(first);
  });

  test("makes one prediction for two clients that send the same chosen id at the same time", async () => {
    // With a store on disk, a version knows a prediction only once the request is in the file, so another version could
    // accept the same id.
    const put = async (id: string, asking: string) => {
      const init = { method: "PUT", headers: { ...json, "X-Client-Id": asking }, body: JSON.stringify([{ x: 1 }]) };
      const answer = await client.fetch(`/predictions/${id}`, init);
      return ((await answer.json()) as PredictionBody).model?.tag;
    };
    const asking = Array.from({ length: 8 }, (_, i) => `client ${i}`);
    const ids = Array.from({ length: 10 }, (_, i) => `twice-at-once-${i}-5f0c`);
    const tags = await Promise.all(ids.map((id) => Promise.all(asking.map((each) => put(id, each)))));
    for (const each of tags) expect(new Set(each).size).toBe(1);
  });
});

test("each API key counts as one client, whatever headers it sends", async () => {
  const keys = Array.from({ length: 12 }, (_, i) => makeKey({ name: `team-${i}` }));
  const file = dir.join("keys.toml");
  await Bun.write(file, keys.map(({ entry }) => entry).join("\n"));
  await using server = serve(["ten", "--split", "v1=1,v2=1", "--api-keys", file]);
  const client = await clientOf(server);
  const factors = await Promise.all(
    keys.map(async ({ secret }) => {
      const asked = (id: string) => predict(client, { id, headers: { Authorization: `Bearer ${secret}` } });
      const answers = await Promise.all(["a", "b", "c", "d"].map(asked));
      return [...new Set(answers.map(factorOf))];
    }),
  );
  expect(factors.filter(({ length }) => length !== 1)).toEqual([]);
  expect(new Set(factors.flat())).toEqual(new Set([1, 2]));
  expect((await client.fetch("/models/ten/predictions", { method: "POST" })).status).toBe(401);
});

test("if a version cannot be opened, its clients go to the other", async () => {
  await using server = serve(["ten", "--split", "v1=1,v2=99"], { BREAKS: "v2" });
  const client = await clientOf(server);
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => predict(client, { id: `c${i}` })));
  expect(answers.map(factorOf)).toEqual(answers.map(() => 1));
  expect((await client.fetch("/models/ten:v2/predictions", { method: "POST" })).status).toBe(503);
});

test("a split at the root whose versions are all broken leaves the other models to requests that name them", async () => {
  await using server = serve(["ten", "texts", "--split", "ten:v1=1,ten:v2=99"], { BREAKS: "all" });
  const client = await clientOf(server);
  expect((await client.fetch("/predictions", { method: "POST" })).status).toBe(503);
  const list = (await (await client.fetch("/v1/models")).json()) as { data: { id: string }[] };
  expect(list.data.map(({ id }) => id)).toEqual(["texts"]);
  const embed = async (model: string) => {
    const body = JSON.stringify({ model, input: "a" });
    return (await client.fetch("/v1/embeddings", { method: "POST", headers: json, body })).status;
  };
  expect(await Promise.all(["texts", "ten", "ten:v1", "none"].map(embed))).toEqual([200, 503, 503, 404]);
});

describe("with other models", () => {
  test("a split names its model, and has the model's place in the list", async () => {
    await using server = serve(["lab", "ten", "texts", "--split", "ten:v1=0,ten:v2=1"]);
    const client = await clientOf(server);
    const { models } = (await (await client.fetch("/models")).json()) as { models: { name: string }[] };
    expect(models.map(({ name }) => name)).toEqual(["lab", "ten:v1", "ten:v2", "texts"]);
    expect(factorOf(await predict(client, { path: "/models/ten" }))).toBe(2);
    const list = (await (await client.fetch("/v1/models")).json()) as { data: { id: string }[] };
    expect(list.data.map(({ id }) => id)).toEqual(["lab", "ten:v1", "ten", "ten:v2", "texts"]);
    const body = JSON.stringify({ model: "ten", input: "a" });
    const embedded = await client.fetch("/v1/embeddings", { method: "POST", headers: json, body });
    expect(await embedded.text()).toContain("the model ten cannot answer this");
  });

  const faults: readonly [args: readonly string[], message: string][] = [
    [["lab", "ten", "--split", "v1=90,v2=10"], "v1 needs the name of its model, as digits:v1"],
    [["lab", "--split", "ten:v1=90,ten:v2=10"], "--split names ten, which is not among the models to serve"],
    [["ten", "--split", "v1=0,v2=0"], "--split gives no version of ten a weight"],
    [["ten", "--split", "v1,v2"], "must be tag=weight or repo:tag=weight"],
    [["ten", "--split", "v1=1,v1=2"], "two models have the name ten:v1"],
  ];
  test.each(faults)("%p is refused", async (args, message) => {
    const { code, stderr } = await cliHere(["serve", ...args, "-p", "0"], { env });
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});
