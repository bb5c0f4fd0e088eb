import { describe, expect, test } from "bun:test";
import { configureLog, log } from "../src/base/log.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const server = new SharedServer(["stage", "lab"], "stage", { maxLogBytes: 100_000 });

const demos = fixture(() => server.client.demos);

describe("a demo prediction", () => {
  test("has outputs, demo outputs and logs", async () => {
    const body = await demos.predict([{ x: 1 }, { x: 2 }]);
    expect(body.status).toBe("success");
    expect(body.outputs).toEqual([{ y: 3 }, { y: 5 }]);
    expect(body.demo_outputs).toEqual([{ half: 1.5 }, { half: 2.5 }]);
    expect(body.logs).toContain("begin 1\nsaid nothing\nnothing again\nbegin 2\n");
  });

  test("is answered at once with id, Location and empty logs, and can be read later", async () => {
    await using gate = hold();
    const response = await demos.post([{ x: 1, before: gate.url("a") }]);
    const body = (await response.json()) as { demo_id: string };
    expect(response.headers.get("location")).toBe(`/demo/${body.demo_id}`);
    expect(body).toMatchObject({ status: "pending", logs: "" });
    gate.release("a");
    expect((await demos.end(body.demo_id)).status).toBe("success");
  });

  test("shows its own logs as they are written", async () => {
    await using gate = hold();
    const first = await demos.create([{ x: 1, say: "first", before: gate.url("a") }]);
    const second = await demos.create([{ x: 1, say: "second", before: gate.url("b") }]);
    await Promise.all([gate.arrived("a"), gate.arrived("b")]);
    expect(await demos.read(first.prediction_id)).toMatchObject({ status: "running", logs: "begin 1\nsaid first\n" });
    gate.release("b");
    const ended = await demos.end(second.prediction_id);
    gate.release("a");
    expect(ended.logs).toBe("begin 1\nsaid second\nsecond again\npreparing second\n");
    expect((await demos.end(first.prediction_id)).logs).toBe("begin 1\nsaid first\nfirst again\npreparing first\n");
  });

  test("does not have console output of other code in its logs", async () => {
    const [body] = await Promise.all([
      demos.predict(Array.from({ length: 20 }, (_, x) => ({ x, say: "mine" }))),
      ...Array.from({ length: 20 }, (_, x) => server.client.predict([{ x, say: "theirs" }])),
    ]);
    expect(body.logs).not.toContain("theirs");
    expect(body.logs?.match(/preparing mine/g)?.length).toBe(20);
  });

  test("keeps console output as logs even if the server's log is JSON", async () => {
    const { reporters } = log.options;
    configureLog({ level: "error", format: "json" });
    try {
      expect((await demos.predict([{ x: 1 }])).logs).toContain("begin 1\nsaid nothing\nnothing again\n");
    } finally {
      log.setReporters(reporters);
      configureLog({ level: "error", format: "text" });
    }
  });

  test("is not found at the path of predictions, nor a prediction at the path of demos", async () => {
    const { prediction_id: id } = await demos.predict([{ x: 1 }]);
    const { prediction_id: other } = await server.client.predict([{ x: 1 }]);
    expect(await server.client.status(`/predictions/${id}`)).toBe(404);
    expect(await server.client.status(`/demo/${other}`)).toBe(404);
  });

  test("is refused for invalid inputs, like a prediction", async () => {
    const { status, errors } = await demos.refused([{ x: "1", y: 2 }]);
    expect(status).toBe(422);
    expect(errors?.map(({ pointer }) => pointer)).toEqual(["/0/x", "/0/y"]);
  });

  test("of a model without a demo has its outputs as demo outputs", async () => {
    await using lab = await server.beside("lab");
    const body = await lab.client.demos.predict([{ x: 1 }]);
    expect(body).toMatchObject({ status: "success", logs: "", demo_outputs: body.outputs });
  });
});
