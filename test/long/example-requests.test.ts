/**
 * The served examples answer the documented requests as documented. They refuse bad requests while concurrent
 * predictions succeed.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { preparedModel } from "../../examples/minilm/prepared.ts";
import type { ServeConfig } from "../../src/server/config.ts";
import { ApiDocument } from "../helpers/api-document.ts";
import { badRequests } from "../helpers/bad-requests.ts";
import { problemOf } from "../helpers/client.ts";
import { type Answer, Family, paths } from "../helpers/family.ts";
import { type Hold, hold } from "../helpers/hold.ts";
import { sendRaw } from "../helpers/raw-client.ts";
import { until } from "../helpers/running.ts";
import { storeWith, type TestServer, type TestStore } from "../helpers/server.ts";

const examples = join(import.meta.dir, "../../examples");
const picture = Bun.file(join(import.meta.dir, "../data/digits/plain.png"));
const image = `data:image/png;base64,${(await picture.bytes()).toBase64()}`;
const limits = { maxInputs: 64, maxQueuedItems: 64, maxBodyBytes: 2 ** 20 };

interface Example {
  readonly name: string;
  readonly folder: () => Promise<string>;
  readonly config: Partial<ServeConfig>;
  readonly field: string;
  readonly value: string;
  /** Number of inputs that fill a batch of this example. */
  readonly batch: number;
  /** Whether a running input waits until its batch is full. Otherwise it waits for a file that the test holds back. */
  readonly waitsForBatch: boolean;
}

/** Batches that are not full wait longer than any test. */
const waiting = { maxQueueDelay: 600_000 };

const table: readonly Example[] = [
  {
    name: "digits",
    folder: async () => join(examples, "digits"),
    config: { allowPrivateUrls: true },
    field: "image",
    value: image,
    batch: 1,
    waitsForBatch: false,
  },
  {
    name: "upscale",
    folder: async () => join(examples, "upscale"),
    config: waiting,
    field: "image",
    value: image,
    batch: 4,
    waitsForBatch: true,
  },
  {
    name: "minilm",
    folder: async () => (await preparedModel()).folder,
    config: waiting,
    field: "text",
    value: "A torch needs a bracket.",
    batch: 16,
    waitsForBatch: true,
  },
];

let store: TestStore;

beforeAll(async () => {
  store = await storeWith(...(await Promise.all(table.map(({ folder }) => folder()))));
}, 600_000);

afterAll(() => store[Symbol.asyncDispose]());

describe.each(table.map((example) => [example.name, example] as const))("%s", (name, example) => {
  const { field, value, batch, waitsForBatch } = example;
  const good = { [field]: value };
  let server: TestServer;
  let gate: Hold;

  beforeAll(async () => {
    gate = hold({ body: await picture.bytes() });
    server = await store.serve(name, { ...limits, ...example.config });
  });

  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    await gate[Symbol.asyncDispose]();
  });

  test("answers the requests of its OpenAPI document as documented", async () => {
    await using own = waitsForBatch ? await store.serve(name, limits) : undefined;
    const { client } = own ?? server;
    const document = new ApiDocument(client, await (await client.fetch("/openapi.json")).json());
    const { requests } = document;
    expect(requests.length).toBeGreaterThan(15);
    for (const request of requests) {
      const { operationId } = request.operation;
      const faults = await document.faultsOf(request);
      // A document has no example for the path of an output file if the outputs have no files, so that operation cannot
      // be requested.
      if (faults === undefined) expect(operationId).toEndWith("OutputFile");
      else expect({ operationId, body: request.mediaType, faults }).toMatchObject({ faults: [] });
    }
  });

  /** An input that does not end until the test releases its file, or until its batch is full. */
  const held = (until: string) => (waitsForBatch ? good : { [field]: gate.url(until) });

  describe.each(paths)("POST %s", (path) => {
    let family: Family;
    let neighbour: Answer;
    let expected: Answer["outputs"];

    beforeAll(async () => {
      family = new Family(server.client, path);
      expected = (await family.predict(Array(batch).fill(good))).outputs;
      neighbour = await family.create([held(path.slice(1))]);
    });

    test("has a running prediction", async () => {
      expect(expected?.length).toBe(batch);
      expect(["pending", "running"]).toContain((await family.read(neighbour.id)).status);
    });

    const list = badRequests({ field, value, ...limits });
    test.each(list.map((bad) => [bad.name, bad] as const))("refuses %s", async (_, bad) => {
      const problem = await family.refused(bad.body, bad.headers);
      expect(problem).toMatchObject({ status: bad.status, type: `urn:sconce:problem:${bad.code}` });
      expect(problem.errors?.map(({ pointer }) => pointer).sort()).toEqual(bad.pointers?.toSorted());
      expect(problem.detail.length).toBeGreaterThan(0);
      expect(problem.detail.length).toBeLessThan(400);
    });

    test("refuses a truncated body without a server error", async () => {
      const before = await server.client.metric('sconce_requests_rejected_total{code="400",cause="incomplete"}');
      const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n`;
      await sendRaw(server.url, `${head}[{"${field}": "`, { end: true });
      await until(
        async () =>
          (await server.client.metric('sconce_requests_rejected_total{code="400",cause="incomplete"}')) !== before,
      );
      expect(await server.client.metric('sconce_requests_rejected_total{code="500",cause="internal"}')).toBe(0);
    });

    test("answers 429 if the queue has too little space for all inputs, and accepts none", async () => {
      const response = await family.post(Array(limits.maxInputs).fill(good));
      expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
      expect(await problemOf(response)).toMatchObject({ status: 429, type: "urn:sconce:problem:queue_full" });
      expect(await server.client.metric("sconce_predictions_active")).toBe(1);
    });

    test("does not know ids that it did not create", async () => {
      const unknown = { status: 404, type: "urn:sconce:problem:prediction_not_found" };
      for (const id of ["AAAAAAAAAAAAAAAA", "%00", "a".repeat(5000), "..%2f.."]) {
        expect(await problemOf(await server.client.fetch(`${path}/${id}`))).toMatchObject(unknown);
        const canceling = await server.client.fetch(`${path}/${id}/cancel`, { method: "POST" });
        expect(await problemOf(canceling)).toMatchObject(unknown);
      }
    });

    test("keeps running the earlier prediction", async () => {
      expect(await server.client.metric("sconce_predictions_active")).toBe(1);
      gate.release(path.slice(1));
      const others = waitsForBatch ? batch - 1 : 1;
      const [own, after] = await Promise.all([family.end(neighbour.id), family.predict(Array(others).fill(good))]);
      expect(own.status).toBe("success");
      expect(rounded(own.outputs)).toEqual(rounded(expected?.slice(0, 1)));
      expect(rounded(after.outputs)).toEqual(rounded(expected?.slice(0, others)));
    });

    test("can be canceled before it runs", async () => {
      const { id } = await family.create([held("never")]);
      expect(await family.cancel(id)).toMatchObject({ status: "failed", error_message: "Canceled" });
      expect(await server.client.metric("sconce_queued_items")).toBe(0);
    });

    test("can be canceled while it runs", async () => {
      // A full batch runs, and one more input keeps the prediction unfinished. 64 inputs of the demo of digits take
      // long enough.
      const inputs =
        path === "/demo" && !waitsForBatch ? Array(64).fill(good) : [...Array(batch).fill(good), held("too")];
      const { id } = await family.create(inputs);
      await family.until(id, "running");
      const canceled = await family.cancel(id);
      expect(canceled).toMatchObject({ status: "failed", error_message: "Canceled" });
      expect(await server.client.metric("sconce_predictions_active")).toBe(0);
      expect((await family.predict(Array(batch).fill(good))).status).toBe("success");
      expect(await family.read(id)).toEqual(canceled);
    });

    test("does not change when it is canceled after its end", async () => {
      const ended = await family.predict(Array(batch).fill(good));
      expect(ended.status).toBe("success");
      expect(await family.cancel(ended.id)).toEqual(await family.read(ended.id));
      expect((await family.read(ended.id)).outputs).toEqual(ended.outputs);
    });
  });
});

/** Rounds all numbers to four decimals: their last digits depend on the position of an item in the batch. */
function rounded(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value ?? null, (_, part) => (typeof part === "number" ? Math.round(part * 1e4) / 1e4 : part)),
  );
}
