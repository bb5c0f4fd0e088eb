/**
 * Demos of a model that throw, never end or never stop writing. They run in a separate server process, and no other
 * request suffers.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { clientOf } from "./helpers/cli.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { inRole } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

/** A model that computes 2 x + 1. The input's `act` chooses how its demo fails. */
const model = modelText({
  name: '"acts"',
  input: 'z.object({ x: z.number(), act: z.string().default("nothing") })',
  preprocess: `({ x, act }) => {
    if (act === "sends what preprocess refuses") throw new Error("no such x");
    const steps = BigInt64Array.of(act === "sends what the network refuses" ? -1n : 0n);
    return { x: tensor(Float32Array.of(x), []), steps: tensor(steps, []) };
  }`,
  demo: `{
    output: z.object({ half: z.number() }),
    predict(inputs, { predict, log, signal }) {
      const { act } = inputs.at(-1);
      log("begun");
      if (act === "throws at once") throw new Error("the demo broke");
      const line = "a line of a hundred characters is written again and again, until there is a gigabyte of them all";
      const block = line.repeat(1000);
      const acts = {
        "throws later": async () => { await predict([{ x: 1, act }]); throw new Error("the demo broke"); },
        "throws a text": async () => { throw "no error"; },
        "throws nothing": async () => { throw undefined; },
        "throws what JSON.parse threw": async () => { JSON.parse("{"); },
        "gives nothing": async () => undefined,
        "gives itself": async () => { const given = {}; given.outputs = given; return given; },
        "gives too much": async () => ({ outputs: [{ y: 1 }, { y: 2 }, { y: 3 }], demoOutputs: [{ half: 1 }] }),
        "never ends": () => new Promise(() => {}),
        "predicts for ever": async () => { for (;;) await predict([{ x: 1, act }]); },
        "predicts ever more": async () => { for (;;) { predict([{ x: 1, act }]); await new Promise(setImmediate); if (signal.aborted) return; } },
        "logs blocks": async () => { for (let i = 0; i < 10_000; i++) log(i, block); },
        "logs lines": async () => { for (let i = 0; i < 10_000_000; i++) log(line, i); },
        "says lines": async () => { for (let i = 0; i < 10_000_000; i++) console.log(line, i); },
        "logs for ever": async () => { while (!signal.aborted) { for (let i = 0; i < 1000; i++) console.log(block); await new Promise(setImmediate); } },
        "throws in a timer": async () => { setTimeout(() => { throw new Error("nobody's"); }); await new Promise((resolve) => setTimeout(resolve)); },
        "forgets a promise": async () => { Promise.reject(new Error("forgotten")); },
      };
      const finish = async (given) => {
        if (given !== undefined || act.startsWith("gives")) return given;
        const outputs = await predict(inputs);
        return { outputs, demoOutputs: outputs.map(({ y }) => ({ half: act === "ends with no number" ? "?" : y / 2 })) };
      };
      return Promise.resolve(acts[act]?.()).then(finish);
    },
  }`,
});

const dir = fixture(tempDir);
const store = fixture(async () => storeWith(await writeModel(dir, model)));
const server = fixture(() => store.start(["acts"]));
const client = fixture(() => clientOf(server));
const demos = fixture(() => client.demos);

/**
 * Requests a faulty demo, a prediction and a sound demo at once, and later another sound demo. Checks that all but the
 * faulty demo succeed. @returns how the faulty demo ended
 */
async function act(name: string, headers: Record<string, string> = {}) {
  const [bad, prediction, demo] = await Promise.all([
    demos.predict([{ x: 1 }, { x: 2, act: name }], headers),
    client.predict([{ x: 4 }]),
    demos.predict([{ x: 5 }]),
  ]);
  expect(prediction.outputs).toEqual([{ y: 9 }]);
  expect(demo).toMatchObject({ outputs: [{ y: 11 }], demo_outputs: [{ half: 5.5 }], logs: "begun\n" });
  expect((await demos.predict([{ x: 6 }])).demo_outputs).toEqual([{ half: 6.5 }]);
  return bad;
}

test("a demo without a fault succeeds", async () => {
  expect(await act("nothing")).toMatchObject({ status: "success", demo_outputs: [{ half: 1.5 }, { half: 2.5 }] });
});

describe("a demo that fails has a reason of one line:", () => {
  test.each([
    ["throws at once", "the model failed in the demo"],
    ["throws later", "the model failed in the demo"],
    ["throws a text", "the model failed in the demo"],
    ["throws nothing", "the model failed in the demo"],
    ["throws what JSON.parse threw", "the model failed in the demo"],
    ["gives nothing", "the demo must give one of outputs per input: 2, not none"],
    ["gives itself", "the demo must give one of outputs per input: 2, not none"],
    ["gives too much", "the demo must give one of outputs per input: 2, not 3"],
    ["ends with no number", "the model's demo output does not fit its declared demo output: demo output.half: "],
    ["sends what preprocess refuses", "input 1: the model failed in preprocess"],
    ["sends what the network refuses", "input 1: "],
  ])("a demo that %s", async (name, message) => {
    const { status, error_message, logs } = await act(name);
    expect(status).toBe("failed");
    expect(error_message).toStartWith(message);
    expect(error_message).not.toMatch(/\n|\.(ts|js|py|cc|cpp)\b|\bat .+:\d+|\/tmp|\/home/);
    expect(logs).toBe("begun\n");
  });

  test("a demo that forgets a rejected promise succeeds", async () => {
    expect((await act("forgets a promise")).status).toBe("success");
    expect(await server.line("Unhandled rejection")).toContain("forgotten");
  });

  test("a demo that throws in a timer succeeds", async () => {
    expect((await act("throws in a timer")).status).toBe("success");
    expect(await server.line("Uncaught exception")).toContain("nobody's");
  });
});

describe("a demo that never ends", () => {
  const endless = ["never ends", "predicts for ever", "predicts ever more", "logs for ever"];

  test.each(endless)("(%s) is ended by its time limit", async (name) => {
    const body = await act(name, { "Cancel-After": "0.2" });
    expect(body).toMatchObject({ status: "failed", error_message: expect.stringMatching(/ 0\.2 s$/) });
    expect(body.logs).toStartWith("begun\n");
  });

  test.each(endless)("(%s) is ended when it is canceled", async (name) => {
    const { prediction_id: id } = await demos.create([{ x: 2, act: name }]);
    await demos.until(id, ({ status }) => status === "running");
    const canceled = await demos.cancel(id);
    expect(canceled).toMatchObject({ status: "failed", error_message: "Canceled" });
    expect((await client.predict([{ x: 4 }])).outputs).toEqual([{ y: 9 }]);
    expect(await demos.read(id)).toEqual(canceled);
  });

  test("leaves no active prediction and no queued input behind", async () => {
    expect(await client.metric("sconce_predictions_active")).toBe(0);
    expect(await client.metric("sconce_queued_items")).toBe(0);
  });
});

test.each(["logs blocks", "logs lines", "says lines"])(
  "a demo that writes a gigabyte of logs (%s) keeps the first logs, and says that it cut them",
  async (name) => {
    const before = await peakBytes();
    const { status, logs = "" } = await act(name);
    expect(status).toBe("success");
    expect(logs).toStartWith("begun\n");
    expect(logs).toEndWith("\n[the logs are longer than this server keeps]\n");
    expect(logs.length).toBeLessThan(1.1 * 2 ** 20);
    if (before !== undefined) expect(((await peakBytes()) ?? 0) - before).toBeLessThan(200 * 2 ** 20);
  },
);

test("a server stops normally after all of these demos", async () => {
  server.kill("SIGTERM");
  expect(await server.exited).toBe(0);
});

/** Peak memory of the HTTP process in bytes; undefined on systems other than Linux. */
async function peakBytes(): Promise<number | undefined> {
  const [front = 0] = await inRole(server.pid, "front");
  const path = `/proc/${front}/status`;
  if (!existsSync(path)) return undefined;
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(path, "utf8"))?.[1]) * 1024;
}
