/** Pictures that are small files but large when decoded: how many bytes and passes the server spends on them. */
import { describe, expect, test } from "bun:test";
import { ByteGate } from "../src/author/decoding-gate.ts";
import { countScans } from "../src/author/jpeg.ts";
import { Image } from "../src/author/media.ts";
import { palettePng, withScans } from "./helpers/crafted-pictures.ts";
import { failureOf } from "./helpers/failure.ts";
import { tempDir } from "./helpers/temp-dir.ts";

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
    const scans = await countScans(progressive, 1000);
    const noise = Buffer.from("ffda".repeat(500), "hex");
    const segment = Buffer.concat([Buffer.from([0xff, 0xe5, 0x03, 0xea]), Buffer.from("ffda".repeat(500), "hex")]);
    const head = Buffer.concat([progressive.subarray(0, 2), segment, progressive.subarray(2)]);
    expect(await countScans(Buffer.concat([progressive, noise]), 100)).toBe(scans);
    expect(await countScans(await withScans(progressive, scans, segment), 100)).toBe(scans);
    expect(await countScans(head, 100)).toBe(scans);
  });
});

describe("the gate that limits the memory of concurrent decoding", () => {
  const held = () => {
    const begun: number[] = [];
    const ends: PromiseWithResolvers<void>[] = [];
    const run = (gate: ByteGate, bytes: number) => {
      const index = ends.push(Promise.withResolvers<void>()) - 1;
      return gate.run(bytes, () => {
        begun.push(index);
        return ends[index]?.promise ?? Promise.resolve();
      });
    };
    return { begun, ends, run };
  };

  test("starts tasks in order as long as they fit, and a single task of any size", async () => {
    const gate = new ByteGate(100);
    const { begun, ends, run } = held();
    const tasks = [60, 30, 500, 10, 10].map((bytes) => run(gate, bytes));
    await Bun.sleep(0);
    // Each of the last two tasks would fit, but they wait behind the large one.
    expect([begun, gate.load]).toEqual([[0, 1], { bytes: 90, waiting: 3 }]);
    ends[0]?.resolve();
    await tasks[0];
    expect(begun).toEqual([0, 1]);
    ends[1]?.resolve();
    await tasks[1];
    await Bun.sleep(0);
    expect([begun, gate.load]).toEqual([[0, 1, 2], { bytes: 500, waiting: 2 }]);
    ends[2]?.resolve();
    await tasks[2];
    await Bun.sleep(0);
    expect([begun, gate.load]).toEqual([[0, 1, 2, 3, 4], { bytes: 20, waiting: 0 }]);
  });

  test("drops a waiting task when its signal is aborted", async () => {
    const gate = new ByteGate(100);
    const { begun, ends, run } = held();
    const first = run(gate, 80);
    const abort = new AbortController();
    const second = gate.run(
      80,
      () => Promise.resolve(),
      () => abort.signal,
    );
    const third = run(gate, 20);
    abort.abort(new Error("no longer"));
    await expect(second).rejects.toThrow("no longer");
    await Bun.sleep(0);
    expect([begun, gate.load]).toEqual([[0, 1], { bytes: 100, waiting: 0 }]);
    for (const { resolve } of ends) resolve();
    await Promise.all([first, third]);
  });

  test("releases the memory of a failed task", async () => {
    const gate = new ByteGate(100);
    const { ends, run } = held();
    const tasks = [80, 80].map((bytes) => run(gate, bytes));
    ends[0]?.reject(new Error("damaged"));
    ends[1]?.resolve();
    expect((await Promise.allSettled(tasks)).map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
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
