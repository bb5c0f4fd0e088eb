/** Clients can cause at most one log line per second of each kind. */
import { describe, expect, test } from "bun:test";
import { LogLimit } from "../src/base/log-limit.ts";
import { clientOf } from "./helpers/cli.ts";
import { storeWith } from "./helpers/server.ts";
import { SimulatedClock } from "./helpers/simulation.ts";

describe("lines of one kind", () => {
  function limited() {
    const clock = new SimulatedClock();
    const limit = new LogLimit(clock);
    const lines: string[] = [];
    const write = (kind: string, line: string) => limit.write(kind, (...more) => lines.push([line, ...more].join(" ")));
    return { clock, lines, write };
  }

  test("are written once a second; the last line has the number of suppressed lines", async () => {
    const { clock, lines, write } = limited();
    for (let i = 1; i <= 155; i++) write("a", `a ${i}`);
    expect(lines.splice(0)).toEqual(["a 1"]);
    await clock.advanceTo(1000);
    expect(lines.splice(0)).toEqual(["a 155 (and 153 more like it in the last second)"]);
    write("a", "a 156");
    await clock.advanceTo(1999);
    expect(lines).toEqual([]);
    await clock.advanceTo(2000);
    expect(lines.splice(0)).toEqual(["a 156"]);
    await clock.drain();
    write("a", "a 157");
    expect(lines).toEqual(["a 157"]);
    await clock.drain();
    expect(lines).toHaveLength(1);
  });

  test("do not delay lines of another kind", () => {
    const { lines, write } = limited();
    for (const line of ["a 1", "b 1", "a 2", "b 2"]) write(line.slice(0, 1), line);
    expect(lines).toEqual(["a 1", "b 1"]);
  });
});

test("a server whose model fails for every input writes few lines for many predictions", async () => {
  await using store = await storeWith("lab");
  await using server = store.start(["lab"]);
  const client = await clientOf(server);
  const requests = Array.from({ length: 300 }, () => client.predict([{ x: 1, fail: "preprocess" }]));
  for (const { status } of await Promise.all(requests)) expect(status).toBe("failed");
  const source = await Bun.file(`${import.meta.dir}/models/lab/model.ts`).text();
  const line = source.slice(0, source.indexOf('"no such x"')).split("\n").length;
  const [first = ""] = server.lines.filter((each) => each.includes("no such x"));
  expect(first).toMatch(/prediction \S+, input 0: /);
  expect(first).toContain(`no such x (model.ts:${line})`);
  expect(server.lines.filter((each) => each.includes("no such x")).length).toBeLessThan(30);
});
