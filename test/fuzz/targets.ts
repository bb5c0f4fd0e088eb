/** The readers of files and frames that `npm run fuzz` gives damaged inputs. */
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { Audio } from "../../src/author/audio/audio.ts";
import { Image } from "../../src/author/media.ts";
import { float32, int64 } from "../../src/author/tensor.ts";
import { SconceError } from "../../src/base/errors.ts";
import { listsOfNpy } from "../../src/base/npy.ts";
import { programText } from "../../src/engine/program/program-graph.ts";
import { parseExactly } from "../../src/engine/program/program-literals.ts";
import { programSchema } from "../../src/engine/program/program-schema.ts";
import { WeightsFile } from "../../src/engine/program/weights-file.ts";
import {
  engineInfoSchema,
  FrameBlocks,
  type FrameHandler,
  FrameReader,
  failureSchema,
  jsonAt,
} from "../../src/engine/remote/frame.ts";
import { ItemFrames, numbersWord, observationAt, RowsFrames } from "../../src/engine/remote/tensor-frames.ts";
import { decoders, sounds } from "../helpers/sounds.ts";
import { damaged, damagedJson } from "./mutator.ts";

export interface FuzzTarget {
  readonly title: string;
  /** Makes a random damaged input. */
  make(random: () => number): Uint8Array;
  /** Reads an input. The reader has a fault if it throws an error that `isRefusal` does not accept. */
  read(input: Uint8Array): unknown;
  isRefusal(error: unknown): boolean;
}

const root = join(import.meta.dir, "../..");
const digits = join(root, "examples/digits/digits.pt2");
const upscale = join(root, "examples/upscale/upscale.pt2");
const template = join(root, "src/cli/commands/init/template/model.pt2");

export const targets: Readonly<Record<string, () => Promise<FuzzTarget>>> = {
  npy: async () => ({
    title: "NumPy files",
    ...fromFiles(npyFiles()),
    read: listsOfNpy,
    // The reader throws plain `Error`s.
    isRefusal: isPlainError,
  }),
  audio: async () => ({
    title: "WAV, FLAC, MP3 and Ogg files",
    ...fromFiles(await audioFiles()),
    read: (bytes) => new Audio({ bytes, mediaType: "audio/wav" }, { decoders }).samples({ rate: 8000, channels: 1 }),
    isRefusal: hasCode("file_invalid", "file_too_large", "tensor_invalid"),
  }),
  pictures: async () => ({
    title: "pictures, to tensors",
    ...fromFiles(await pictureFiles()),
    read: (bytes) =>
      new Image({ bytes: new Uint8Array(bytes), mediaType: "image/png" }).pixels({
        width: 24,
        height: 24,
        channels: 3,
      }),
    isRefusal: hasCode("file_invalid", "file_too_large"),
  }),
  archives: async () => ({
    title: "zip archives with exported programs",
    ...fromFiles(await Promise.all([digits, template, upscale].map((path) => Bun.file(path).bytes()))),
    read: inFile((path) => {
      refusing(() => new WeightsFile(path).program());
      refusing(() => new WeightsFile(path).runnable("cpu", undefined));
    }),
    isRefusal: () => false,
  }),
  graphs: async () => graphTarget(),
  frames: async () => frameTarget(),
};

function fromFiles(seeds: readonly Uint8Array[]): Pick<FuzzTarget, "make"> {
  return { make: (random) => damaged(seeds, random) };
}

/** A NumPy file of zeros for each element type. */
function npyFiles(): Uint8Array[] {
  return ["<f2", "<f4", "<f8", "|i1", "<i8", "|b1"].map((type, i) => {
    const header = `{'descr': '${type}', 'fortran_order': False, 'shape': (2, ${i}, 3), }`.padEnd(117);
    const file = Buffer.alloc(128 + 6 * i * Number(type[2]));
    file.write("\x93NUMPY\x01\x00\x76\x00", "latin1");
    file.write(`${header}\n`, 10, "latin1");
    return file;
  });
}

async function audioFiles(): Promise<Uint8Array[]> {
  const data = Float32Array.from({ length: 600 }, (_, i) => Math.sin(i / 5));
  const wavs = (["pcm16", "float32"] as const).map(
    (encoding) => Audio.fromSamples({ data, rate: 16_000, channels: 2 }, { encoding }).bytes,
  );
  const fixtures: Readonly<Record<string, { readonly file: string }>> = await Bun.file(
    join(root, "test/data/audio-files.json"),
  ).json();
  const compressed = [...sounds().values()].map(({ bytes }) => bytes).filter(({ length }) => length < 8000);
  return [...wavs, ...Object.values(fixtures).map(({ file }) => Buffer.from(file, "base64")), ...compressed];
}

async function pictureFiles(): Promise<Uint8Array[]> {
  const folder = join(root, "test/data/media");
  const files = readdirSync(folder).map((name) => join(folder, name));
  const pictures = files.filter((path) => /\.(png|jpg|webp|gif)$/.test(path) && !path.endsWith("huge.png"));
  const { files: written } = await Bun.file(join(root, "test/data/pictures.json")).json();
  const others = Object.values<{ file: string }>(written).map(({ file }) => Uint8Array.fromBase64(file));
  return [...(await Promise.all(pictures.map((path) => Bun.file(path).bytes()))), ...others];
}

async function graphTarget(): Promise<FuzzTarget> {
  const programs = [digits, template].map((path): unknown => JSON.parse(new WeightsFile(path).programText ?? ""));
  return {
    title: "graphs of exported programs, to TorchScript",
    make: (random) => {
      const program = programs[Math.floor(random() * programs.length)];
      return new TextEncoder().encode(JSON.stringify(damagedJson(program, random)));
    },
    read: (bytes) => programText(programSchema.parse(parseExactly(new TextDecoder().decode(bytes)))),
    isRefusal: (error) => error instanceof z.ZodError || error instanceof SconceError || isPlainError(error),
  };
}

/**
 * Frames that HTTP process and engine process exchange. For damaged frames any error except a TypeError is right: the
 * reading process ends, or reports the error.
 */
function frameTarget(): FuzzTarget {
  const items = new ItemFrames({ x: float32("length", 3), y: int64() });
  const rows = new RowsFrames({ x: float32("length"), y: int64() });
  const blocks = new FrameBlocks();
  const frames = [
    blocks.json(4, {
      maxBatchSize: 1,
      instances: 1,
      devices: ["cpu"],
      torch: "2",
      pid: 1,
    }),
    blocks.json(7, { number: 1, code: "run_failed", message: "a" }),
    blocks.words(5, [2, 1, 2]),
    blocks.words(1, [1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    blocks.words(6, [1, 1, 0, 0, 0, 0, 7, 1, 0, 0, 0, 0]),
    blocks.words(2, [1]),
  ];
  const stream = frames.map(({ memory, from, to }) => memory.bytes.slice(from, to));
  return {
    title: "frames of the engine's protocol",
    make: (random) => damaged([Buffer.concat(stream), ...stream], random),
    read: (bytes) => {
      const handle: FrameHandler = (memory, at) => {
        const kind = (memory.words[at / 4 + 1] ?? 0) & 0xff;
        if (kind === 1) items.read(memory, at);
        if (kind === 4) engineInfoSchema.parse(jsonAt(memory, at));
        if (kind === 7) failureSchema.parse(jsonAt(memory, at));
        if (kind === 6 || kind === 11) {
          rows.outputsAt(memory, at);
          observationAt(memory, at);
          memory.words.subarray(numbersWord(at), numbersWord(at) + 4);
        }
      };
      const reader = new FrameReader(handle, (error) => {
        throw error;
      });
      for (let at = 0; at < bytes.length; at += 24) reader.push(new Uint8Array(bytes.slice(at, at + 24)));
    },
    isRefusal: (error) => !(error instanceof TypeError),
  };
}

function inFile(read: (path: string) => void): (bytes: Uint8Array) => void {
  const path = join(mkdtempSync(join(tmpdir(), "sconce-fuzz-")), "model.pt2");
  return (bytes) => {
    writeFileSync(path, bytes);
    read(path);
  };
}

function refusing(read: () => unknown): void {
  try {
    read();
  } catch (error) {
    if (!hasCode("weights_invalid")(error)) throw error;
    const { cause } = error as Error;
    if (
      cause instanceof Error &&
      !(cause instanceof z.ZodError) &&
      !(cause instanceof SyntaxError) &&
      !isPlainError(cause)
    )
      throw cause;
  }
}

function isPlainError(error: unknown): boolean {
  return error instanceof Error && error.constructor === Error;
}

function hasCode(...codes: readonly string[]): (error: unknown) => boolean {
  return (error) => error instanceof SconceError && codes.includes(error.code);
}
