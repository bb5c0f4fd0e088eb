/** Small files with large pictures: the bytes and passes that the server spends on decoding. */
import { describe, expect, test } from "bun:test";
import { DecodingGate } from "../src/author/decoding-gate.ts";
import { readJpeg } from "../src/author/jpeg.ts";
import { Image } from "../src/author/media.ts";
import { palettePng, withScans } from "./helpers/crafted-pictures.ts";
import { failureOf } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";
import { nextTurn } from "./helpers/loop-turns.ts";

const mediaType = "application/octet-stream";
const progressive = await Bun.file(new URL("./data/media/progressive.jpg", import.meta.url)).bytes();

describe("a JPEG", () => {
  test("of 100 scans is decoded", async () => {
    const image = new Image({ bytes: await withScans(progressive, 100), mediaType });
    expect((await image.pixels({ width: 8, height: 8 })).data.length).toBe(192);
  });

  test("of more scans is refused before decoding", async () => {
    const image = new Image({ bytes: await withScans(progressive, 101), mediaType });
    for (const task of [image.size(), image.pixels({ width: 8 })]) {
      const error = await failureOf(task);
      expect(`${error.code}: ${error.message}`).toBe(
        "file_too_large: The file is a JPEG of more than 100 scans; save it with fewer",
      );
    }
  });

  test("of the maximum size may have only a few scans", async () => {
    const limited = async (scans: number) => {
      const image = new Image({ url: "https://example.org/a.jpg", limits: { maxPixels: 1200 } });
      image.fill({ bytes: await withScans(progressive, scans), mediaType });
      return image;
    };
    expect(await (await limited(20)).size()).toEqual({ width: 40, height: 30 });
    expect((await failureOf((await limited(21)).size())).message).toContain("is a JPEG of more than 20 scans");
  });

  test("is not refused for scans after its end, in a thumbnail or inside a segment", async () => {
    const scansOf = async (file: Uint8Array) => (await readJpeg(Buffer.from(file), 100))?.scans ?? 0;
    const scans = await scansOf(progressive);
    const noise = Buffer.from("ffda".repeat(500), "hex");
    const segment = Buffer.concat([Buffer.from([0xff, 0xe5, 0x03, 0xea]), noise]);
    const head = Buffer.concat([progressive.subarray(0, 2), segment, progressive.subarray(2)]);
    expect(await scansOf(Buffer.concat([progressive, noise]))).toBe(scans);
    expect(await scansOf(await withScans(progressive, scans, segment))).toBe(scans);
    expect(await scansOf(head)).toBe(scans);
  });
});

describe("the gate that limits concurrent decoding", () => {
  /** Tasks that run until the test ends them. */
  function tasksOf(gate: DecodingGate) {
    const begun: number[] = [];
    const ends: PromiseWithResolvers<void>[] = [];
    const done: Promise<void>[] = [];
    return {
      begun,
      done,
      run(bytes: number, { owner = gate as object, signal = undefined as AbortSignal | undefined } = {}) {
        const end = Promise.withResolvers<void>();
        const index = ends.push(end) - 1;
        const task = () => {
          begun.push(index);
          return end.promise;
        };
        done.push(gate.run(owner, bytes, task, () => signal));
      },
      async end(index: number) {
        ends[index]?.resolve();
        await done[index];
        await nextTurn();
      },
    };
  }

  test("starts tasks in order as long as they fit, and a single task of any size", async () => {
    const gate = new DecodingGate(100);
    const tasks = tasksOf(gate);
    for (const bytes of [60, 30, 500, 10, 10]) tasks.run(bytes);
    await nextTurn();
    // Each of the last two tasks would fit, but they wait behind the large one.
    expect([tasks.begun, gate.load]).toEqual([[0, 1], { bytes: 90, waiting: 3 }]);
    await tasks.end(0);
    expect(tasks.begun).toEqual([0, 1]);
    await tasks.end(1);
    expect([tasks.begun, gate.load]).toEqual([[0, 1, 2], { bytes: 500, waiting: 2 }]);
    await tasks.end(2);
    expect([tasks.begun, gate.load]).toEqual([[0, 1, 2, 3, 4], { bytes: 20, waiting: 0 }]);
  });

  test("lets models take turns, and drops a waiting task when its prediction ends", async () => {
    const tasks = tasksOf(new DecodingGate(100, 1));
    const [one, two, ended] = [{}, {}, new AbortController()];
    for (const owner of [one, one, one, two]) tasks.run(1, { owner });
    tasks.run(1, { owner: two, signal: ended.signal });
    ended.abort(new Error("the prediction has ended"));
    await expect(tasks.done[4]).rejects.toThrow("the prediction has ended");
    for (const index of [0, 1, 3, 2]) await tasks.end(index);
    expect(tasks.begun).toEqual([0, 1, 3, 2]);
  });

  test("releases the memory of a failed task", async () => {
    const gate = new DecodingGate(100);
    const failed = gate.run(gate, 80, () => Promise.reject(new Error("damaged")));
    const next = gate.run(gate, 80, () => Promise.resolve());
    expect((await Promise.allSettled([failed, next])).map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    await nextTurn();
    expect(gate.load).toEqual({ bytes: 0, waiting: 0 });
  });
});

test("a palette with transparency is resampled with premultiplied alpha", async () => {
  const pixels = await new Image({ bytes: palettePng(1500, 1000), mediaType }).pixels({ width: 3, channels: 4 });
  expect(pixels.data).toEqual(new Uint8Array(Array(6).fill([255, 0, 0, 128]).flat()));
});

const peak = `
  import { Image } from ${JSON.stringify(require.resolve("../src/author/media.ts"))};
  const bytes = await Bun.file(process.argv.at(-1)).bytes();
  const { readFileSync } = require("node:fs");
  // Peak memory of this process, from Linux's /proc: resource usage would include the parent process.
  const peakKb = () => Number(/VmHWM:\\s+(\\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
  const before = peakKb();
  await Promise.all(
    Array.from({ length: 8 }, () => new Image({ bytes, mediaType: "image/png" }).pixels({ width: 8, height: 8 })),
  );
  console.log((peakKb() - before) * 1024);
`;

test("many transparent pictures at once take at most the memory that the gate allows", async () => {
  await using dir = await tempDir();
  const path = dir.join("palette.png");
  await Bun.write(path, palettePng(3000, 3000));
  await using child = Bun.spawn([process.execPath, "-e", peak, path], { stdout: "pipe", stderr: "inherit" });
  const bytes = Number(await new Response(child.stdout).text());
  expect(bytes).toBeGreaterThan(0);
  expect(bytes).toBeLessThan(600 * 2 ** 20);
}, 120_000);
