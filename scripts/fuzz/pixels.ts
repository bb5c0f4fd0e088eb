/** Fuzzes native/pixels with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { bitmapBytes } from "../../src/author/pixels.ts";
import { root } from "../setup/step.ts";

export interface PixelsOptions {
  readonly folder: string;
  readonly seconds: number;
  readonly seed: number;
}

const sources = ["bitmap", "bmp", "decoded", "gif", "jpeg", "resample", "stored_png", "target"].map(
  (name) => `native/pixels/${name}.cc`,
);
const platform = process.arch === "arm64" ? "linux-arm64" : "linux-x64";
const library = join(root, `node_modules/@julusian/jpeg-turbo/prebuilds/jpeg-turbo-${platform}/libturbojpeg.so.0`);
/** Bytes at the start of each input that give the sizes of pictures: `kHead` of test/fuzz/pixels.cc. */
const HEAD_BYTES = 40;

/** Compiles and runs the fuzzer. @returns whether no input caused a fault */
export async function fuzzPixels({ folder, seconds, seed }: PixelsOptions): Promise<boolean> {
  const clang = ["clang++", "clang++-19", "clang++-16", "clang++-14"].find((name) => Bun.which(name) !== null);
  if (clang === undefined) throw new Error("pixels needs clang and its libFuzzer: apt-get install clang");
  const program = join(folder, "pixels");
  const sanitizers = ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined"];
  const options = ["-std=c++20", "-O1", "-g", ...sanitizers, `-DTURBOJPEG="${library}"`, "-Inative/pixels"];
  await run([clang, ...options, "test/fuzz/pixels.cc", ...sources, "-ldl", "-o", program]);
  const corpus = join(folder, "pixels-corpus");
  await mkdir(corpus, { recursive: true });
  for (const [i, [width, height]] of (
    [
      [1, 1],
      [16, 9],
      [64, 40],
    ] as const
  ).entries()) {
    for (const [kind, file] of (await filesOf(width, height)).entries()) {
      const head = Buffer.alloc(HEAD_BYTES);
      for (const [at, number] of [kind, width - 1, height - 1, 32, 32, 80, 80].entries())
        head.writeUInt16BE(number, 2 * at);
      await Bun.write(join(corpus, `${kind}-${i}`), Buffer.concat([head, file]));
    }
  }
  for (const [i, [kind, file]] of (await writtenFiles()).entries()) {
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt16BE(kind, 0);
    await Bun.write(join(corpus, `written-${i}`), Buffer.concat([head, file]));
  }
  const limits = [`-max_total_time=${seconds}`, `-seed=${seed}`, "-timeout=30", "-rss_limit_mb=2048", "-max_len=20000"];
  return run([program, ...limits, "-print_final_stats=1", `-artifact_prefix=${folder}/pixels-`, corpus]).then(
    () => true,
    () => false,
  );
}

/** Inputs to start from, in the order of the kinds in test/fuzz/pixels.cc: a PNG, a JPEG, raw pixels twice. */
async function filesOf(width: number, height: number): Promise<Uint8Array[]> {
  const pixels = Buffer.from(Array.from({ length: 4 * width * height }, (_, i) => (i * 37) & 255));
  const head = Buffer.alloc(
    bitmapBytes({ width, height, channels: 4, isPlanar: false, isOpaque: false }) - pixels.length,
  );
  head.write("BM");
  for (const [at, number] of [
    [2, head.length + pixels.length],
    [10, head.length],
    [14, 108],
    [18, width],
    [22, -height],
    [26, 1 | (32 << 16)],
  ] as const) {
    head.writeInt32LE(number, at);
  }
  const bitmap = Buffer.concat([head, pixels]);
  const png = await new Bun.Image(bitmap).png({ compressionLevel: 0 }).bytes();
  return [png, await new Bun.Image(bitmap).jpeg({ quality: 80 }).bytes(), pixels, pixels];
}

/** The BMP and GIF files of the tests, each with its kind. */
async function writtenFiles(): Promise<[kind: number, file: Uint8Array][]> {
  const written: { files: Record<string, { file: string }> } = await Bun.file(
    join(root, "test/data/pictures.json"),
  ).json();
  return Object.entries(written.files).flatMap(([name, { file }]): [number, Uint8Array][] => {
    const kind = ["bmp", "gif"].indexOf(name.split(" ", 1)[0] ?? "");
    return kind < 0 ? [] : [[4 + kind, Uint8Array.fromBase64(file)]];
  });
}

async function run(command: string[]): Promise<void> {
  const child = Bun.spawn(command, { cwd: root, stdout: "inherit", stderr: "inherit" });
  if ((await child.exited) !== 0) throw new Error(`${command[0]} ended with ${child.exitCode}`);
}
