/**
 * A device has too little memory for the configured batch size: batches are smaller for a while, and each item that
 * fits alone gets its output.
 */
import { expect, test } from "bun:test";
import { copyFile } from "node:fs/promises";
import { clientOf, type RunningCli } from "../helpers/cli.ts";
import { tempDir } from "../helpers/fixture.ts";
import { modelFolder, storeWith } from "../helpers/server.ts";
import { Simulation } from "../helpers/simulation.ts";

test("each reduced size is reported once, however many batches failed", async () => {
  const simulation = new Simulation({ maxBatchSize: 64, fits: 20, runners: 3 });
  simulation.add({}, 2000);
  await simulation.clock.drain();
  expect(simulation.shrinks).toEqual([32, 16]);
  expect(simulation.done.length).toBe(2000);
});

test("the limit of one shape does not affect other shapes", async () => {
  const simulation = new Simulation({ maxBatchSize: 8, fits: (key) => (key === "large" ? 3 : 8) });
  simulation.add({}, 16, { key: "large" });
  await simulation.clock.drain();
  simulation.add({}, 16, { key: "small" });
  await simulation.clock.drain();
  const sizes = simulation.batches.filter(({ items }) => items[0]?.key === "small").map(({ items }) => items.length);
  expect(sizes).toEqual([8, 8]);
});

test("the limit doubles after a minute, until the full size fits again", async () => {
  let fits = 3;
  const simulation = new Simulation({ maxBatchSize: 16, fits: () => fits });
  const run = async () => {
    const before = simulation.batches.length;
    simulation.add({}, 16);
    await simulation.clock.drain();
    return simulation.batches.slice(before).map(({ items }) => items.length);
  };
  await run();
  expect(await run()).toEqual(Array(8).fill(2));
  await simulation.clock.advanceTo(61_000);
  // The batch still does not fit, so it runs in halves. The limit is no new lowest one, so nothing is reported.
  expect((await run()).slice(0, 4)).toEqual([4, 4, 2, 2]);
  expect(simulation.shrinks).toEqual([8, 4, 2]);
  fits = 16;
  await simulation.clock.advanceTo(123_000);
  expect(await run()).toEqual([4, 4, 4, 4]);
  await simulation.clock.advanceTo(184_000);
  expect(await run()).toEqual([8, 8]);
  await simulation.clock.advanceTo(245_000);
  expect(await run()).toEqual([16]);
  expect(simulation.lost).toEqual([]);
});

const warning = (size: number) =>
  `The device has too little memory for larger batches: the limit is ${size} inputs for now; --batch-size ${size} sets it from the start`;

/** Log lines with warnings about memory, without their times and fields. */
const warnedBy = ({ lines }: RunningCli) =>
  lines
    .filter((line) => line.includes("memory"))
    .map((line) => line.slice(line.indexOf("WARN")).replace(/ model=.*/, ""));

test("a full batch that does not fit at warm-up is halved until one fits, with one warning", async () => {
  await using store = await storeWith("hungry");
  await using server = store.start(["hungry"]);
  const client = await clientOf(server);
  expect(warnedBy(server)).toEqual([`WARN  ${warning(2)}`]);
  const { outputs } = await client.predict(Array.from({ length: 20 }, (_, x) => ({ x })));
  expect(outputs).toEqual(Array.from({ length: 20 }, (_, x) => ({ y: 2 * x })));
  expect(warnedBy(server)).toHaveLength(1);
  expect(await client.json("/")).toMatchObject({ batch_size: 2 });
});

test("batches that do not fit while serving run in halves, with one warning for each size", async () => {
  await using dir = await tempDir();
  // The model has a dynamic size and no example, so no batch runs before the first prediction.
  const text = (await Bun.file(`${modelFolder("hungry")}/model.ts`).text())
    .replaceAll("float32()", 'float32("length")')
    .replace("  example: { x: 1 },\n", "")
    .replace("Float32Array.of(x), []", "Float32Array.of(x), [1]");
  await Bun.write(dir.join("model.ts"), text);
  await copyFile(`${modelFolder("hungry")}/hungry.pt`, dir.join("hungry.pt"));
  await using store = await storeWith(dir.path);
  await using server = store.start(["hungry"]);
  const client = await clientOf(server);
  for (let i = 0; i < 3; i++) {
    const { status, outputs } = await client.predict(Array.from({ length: 64 }, (_, x) => ({ x })));
    expect({ status, outputs }).toEqual({
      status: "success",
      outputs: Array.from({ length: 64 }, (_, x) => ({ y: 2 * x })),
    });
  }
  await server.line(warning(2));
  const warned = warnedBy(server);
  // Timing decides the sizes of the first batches, so warnings for sizes 8 and 4 may be missing.
  expect(warned).toEqual([8, 4, 2].map((size) => `WARN  ${warning(size)}`).filter((line) => warned.includes(line)));
  expect(warned.at(-1)).toBe(`WARN  ${warning(2)}`);
});
